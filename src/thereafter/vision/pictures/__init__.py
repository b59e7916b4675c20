"""Pictures: read one at a time from whatever contains them, fitted to one size, kept decoded.

picture       one picture, not decoded yet, the contract of what contains several, and files of pictures
sources       what a path, or what a user hands over, means as pictures; given_pictures: single ones for `predict`
archives      pictures in a zip; stacked: arrays of equal pictures, or of their features
idx, arrays   stacked pictures out of idx files (MNIST) and out of .npy and .npz
decoding      PNG, JPEG and others as pixels, by Pillow: cropped, resized, grey or coloured
measuring     what shape they have in common
mapped        large arrays in a temporary file; pictures by name, with or without folder and ending
codec         the pictures of a task as arrays of one shape, decoded once; as_series: a picture as a series of steps
labelled_pictures   pictures with a label each, and the tables that labels stand in
glyphs        digits drawn by rule, stroke by stroke; pools: digits to move; draws: random numbers by their place
"""
