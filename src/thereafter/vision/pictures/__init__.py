"""Pictures: read one at a time from whatever contains them, fitted to one size, kept decoded.

picture       one picture, not decoded yet; files of pictures, arrays of them or of features, one for `predict`
sources       what a path, or what a user hands over, means as pictures; pictures by name, with or without folder
archives      pictures in a zip, in .npy and .npz, in idx files (MNIST); large arrays in a temporary file
decoding      PNG, JPEG and others as pixels, by Pillow: cropped, resized, grey or coloured
codec         the pictures of a task as arrays of one shape, decoded once, and a picture as a series of steps
labelled_pictures   pictures with a label each, the tables that labels stand in, those that are held out
classifying   the task over pictures that are read step by step
glyphs        digits to move: drawn by rule, stroke by stroke, or those of MNIST; digits among pieces of others
"""
