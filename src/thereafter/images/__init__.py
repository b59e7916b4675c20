"""Pictures: read one at a time from whatever contains them, fitted to one size, kept decoded.

picture       one picture, not decoded yet, the contract of what contains several, and files of pictures
sources       what a path, or what a user hands over, means as pictures
archives      pictures in a zip; stacked: arrays of equal pictures, or of their features
idx, arrays   stacked pictures out of idx files (MNIST) and out of .npy and .npz
decoding      PNG, JPEG and others as pixels, by Pillow: cropped, resized, grey or coloured
mapped        large arrays in a temporary file; pictures by name, with or without folder and ending
codec         the pictures of a task as arrays of one shape, decoded once
captioned     pictures with captions, and the files that captions stand in
labelled_pictures   pictures with a label each, and the tables that labels stand in

clip          pictures in the order of time, rendered or decoded when they are asked for, in batches, as numbers
clips         clips of arrays, rules and folders of pictures: `read_clips`
moving        digits that move and bounce, and rules as files: read and checked; pools: where the digits come from
catch_game    the game of catch, played one step at a time, and its episodes as numbers
cluttered     digits at random places among pieces of others, by a rule in a file
shapes        pictures of coloured shapes, and what they show in words
glyphs        digits drawn by rule, stroke by stroke; draws: random numbers by their place
made_pictures clips and pictures that are made here, each a corpus by name
"""
