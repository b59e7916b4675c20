"""Compiled loops over steps of recurrent cells. Importing a module of this folder, but `llvm`, imports numba.

From the inside out:

vectors             loops over rows whose formula is written once and compiled for the processor's vectors
tiles               the inner loop of a matrix product, and copies of vectors, as machine code written out
recurrence          the recurrent products of a sequence: a matrix packed once, multiplied at every step; for a cell of
                    one gate in panels of neighbouring units
team                one compiled task on torch's own threads: its arrays by name, their barrier, each thread's share
parts               rows of a batch in parts, which threads claim; atomics, pool: what team is made of
lstm                one step of the LSTM between its products, forward and backward
lstm_team           all steps of the LSTM, by a team
lstm_norm           all steps of the layer-norm LSTM, by a team; lstm_projected_team: of one with a projection
gru                 the same of the GRU; gru_team: all its steps, by a team; elman_team: both of Elman cells
linear              all steps of the linear cells
steps               one step of a stream; fours: int8 products of ARM processors
formulas            those of each cell; tanh and the logistic function of a row, as plain loops
llvm                the types of what numba and llvmlite give to code that writes machine code

Words that all of them use: `first` to `last` are the units of a row that a thread works on, `own` is the number of the
thread, `size` how many there are; a row is finished at step t where t >= its length; `exact` is float64, where tanh is
the library's; `packed` is a matrix in the order the tiles read it; `spare` is room for vectors that are not whole.
Peephole weights and lengths are empty arrays where there are none.
"""
