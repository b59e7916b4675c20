"""One step at a time, with buffers made once: what a stream calls for each token.

stepper             the contract of a stepper, its buffers, and products that write into them; one stepper a cell, by
                    the exact type of the cell, and one that takes any: torch's own operations
compiled_steppers   their twins: one or two passes over the weights, each one compiled call
passes              such a pass, on one thread or on all, and the threads that help; compiled products with weights in
                    fewer bytes
storing             weights in fewer bytes, bfloat16 and int8, and their layout; rows as whole numbers, for int8
                    matrices on ARM processors

`kernels.scan.make_stepper` is the door. The compiled loops stand in `kernels.loops.steps` and `formulas`.
"""
