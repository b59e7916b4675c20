"""Series of numbers, whole: read from tables or made here, cut into windows, forecast and classified.

forecasting/  the task of numbers that come next, its measures and figures; forecasters/: its networks and solvers
classifying/  the task of labels of series
distributions, beta_distributions    distributions over numbers element by element; number_heads: heads that give them
batches       examples as tensors
lines         figures of series: what they share, gates over a window, forecasts k steps ahead

table         series as arrays, with their times; which columns are meant; whatever a user hands over as a table
times         time stamps in all their forms, how far apart rows are, the calendar as covariates
reading       tables read into series: `read_series`; rows in order of time, on a grid with its gaps
gathering     which column is what, and the chosen columns of all files as arrays
columns       tables as columns of cells, block by block; cells as numbers, missing ones among them
labelled      series with labels, in every form: a row a series, a file a series, or a row for each series and time
labelled_series     one of them, those of a long table, and one as a user hands it to `predict`
windows       places to forecast from, and the parts of a series; scales: each series as it was in training
made          series that are made here, each a corpus by name
"""
