"""The programs that run on a GPU, in Gluon and Triton. Imported by the compiler alone, where Triton is there.

meeting        blocks of one launch that wait for one another
formulas       what a unit computes at a step, and its derivative
recurrent      a cell of four blocks over a whole sequence
wide           its product of many units: whole chunks by a warpgroup, weights in registers and shared memory
narrow         that of fewer units and 16 rows: every warp multiplies a share of the units, weights in registers
layer_norm     what it does for a layer-norm LSTM alone: blocks exchange row sums as well
reset_before   the GRU that resets before its product: two meetings a step
linear         linear recurrences: one pass over memory
one_row        one step of an LSTM language model, from the token to log p
drawing        the next token of every row: warping and draw
situations     rows that have ended or begin anew, and zoneout
copying        weights and batches brought into the order that the programs read
"""
