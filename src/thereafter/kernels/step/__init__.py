"""One step at a time, with buffers made once: what a stream calls for each token.

stepper     the contract of a stepper, its buffers, and products that write into them
steppers    one stepper a cell, by the exact type of the cell, and one that takes any

`kernels.scan.make_stepper` is the door. The compiled loops stand in `kernels.loops.steps`.
"""
