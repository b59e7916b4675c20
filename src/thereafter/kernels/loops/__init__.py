"""Compiled loops over steps of recurrent cells. Importing a module of this folder imports numba.

From the inside out:

tiles               the inner loop of a matrix product, and copies of vectors, as machine code written out
vectors             loops over the rows of a step, compiled for the processor's vectors: a formula is written once, its
                    operands are found by name
threads             what threads need to speak to each other and to wait
team                one compiled task on torch's own threads: its arrays by name, their barrier, parts of the rows
recurrence          the recurrent products of a sequence, a matrix packed once, multiplied at every step; and how a team
                    shares a sequence of any cell (`team_task`)
lstm, gru, elman    the formulas of a step between its products, and all steps of a cell, forward and backward; of
                    LSTMs with a projection too
lstm_norm           the layer-norm LSTM
formulas            those of each cell in a stream; all steps of linear cells
steps               one step of a stream, and the threads that help with it; fours: int8 products of ARM processors

Words that all of them use: `first` to `last` are the units of a row that a thread works on, `own` is the number of the
thread, `size` how many there are; a row is finished at step t where t >= its length; `exact` is float64, where tanh is
the library's; `packed` is a matrix in the order the tiles read it; `spare` is room for vectors that are not whole.
Peephole weights and lengths are empty arrays where there are none.
"""
