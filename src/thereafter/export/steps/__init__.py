"""A neural plan as a list of small operations on named buffers: what the targets `c` and `html` write.

program      the operations, the buffers and the arrays they use
lowering     a plan as a program
interpreter  the program run by numpy: the truth both targets are compared with, and their check where nothing else is;
             arrays in 16 or 8 bits, with a scale for each row
"""
