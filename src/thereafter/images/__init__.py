"""Pictures: read one at a time from whatever contains them, fitted to one size, kept decoded.

picture       one picture, not decoded yet, and the contract of what contains several
sources       what a path, or what a user hands over, means as pictures
picture_files files of pictures; archives: those in a zip; stacked: arrays of equal pictures, or of their features
idx, arrays   stacked pictures out of idx files (MNIST) and out of .npy and .npz
decoding      PNG, JPEG and others as pixels, by Pillow
mapped        large arrays in a temporary file
fitting_in    cropped, resized, grey or coloured
codec         the pictures of a task as arrays of one shape; kept: decoded once
lookup        pictures by name, with or without folder and ending
captioned     pictures with captions; caption_files: the files that captions stand in
labelled_pictures   pictures with a label each; label_tables: the tables that labels stand in
no_text       what a language model says to pictures

clip          pictures in the order of time, rendered or decoded when they are asked for; a batch of them at once
clips         clips of arrays, rules and folders of pictures (folder_clips): `read_clips`
moving        digits that move and bounce; moving_rule: their rule as a file; pools: where the digits come from
catch_game    the game of catch, played one step at a time; catch_codec: its episodes as numbers
cluttered     digits at random places among pieces of others, by a rule in a file
rules         rules as files: how they are read and checked
shapes        pictures of coloured shapes; shape_captions: what they show in words
glyphs        digits drawn by rule; strokes: how they are written; draws: random numbers by their place
made_pictures clips and pictures that are made here, each a corpus by name
"""
