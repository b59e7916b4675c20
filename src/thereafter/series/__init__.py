"""Series of numbers, whole: read from tables or made here, cut into windows, forecast and classified.

forecasting/  the task of numbers that come next, its measures and figures; forecasters/: its networks and solvers
classifying/  the task of labels of series
distributions    distributions over numbers element by element; number_heads: heads that give them, calibrated bands
batches       windows as tensors
lines         figures of series: what they share, gates over a window, forecasts k steps ahead

table         series as arrays, with their times; windows, the places to forecast from; the calendar as covariates
frames        whatever a user hands over as a table
times         time stamps in all their forms, how far apart rows are
reading       tables read into series: `read_series`; rows in order of time, on a grid with its gaps
columns       tables as columns of cells, block by block; cells as numbers; which column is what
labelled      series with labels, in every form: a row a series, a file a series, or a row for each series and time
labelled_series     one of them, those of a long table, and one as a user hands it to `predict`
scales        each series as it was in training, and how it is recognised
made          series that are made here, each a corpus by name
"""
