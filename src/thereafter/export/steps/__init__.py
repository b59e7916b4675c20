"""A neural plan as a list of small operations on named buffers: what the targets `c` and `html` write.

lowering     a plan as a program: the operations, the buffers and the arrays they use
interpreter  the program run by numpy: the truth both targets are compared with, and their check where nothing else is;
             arrays in 16 or 8 bits, with a scale for each row
"""
