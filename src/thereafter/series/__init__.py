"""Series of numbers, whole: read from tables or made here, cut into windows, forecast and classified.

forecasting/  the task of numbers that come next, its measures and figures; forecasters/: its networks and solvers
classifying/  the task of labels of series
distributions/, number_heads    distributions over numbers element by element, and heads that give them
lines         what figures of series share; gates while a window is read

table         series as arrays, with their times; which columns are meant; whatever a user hands over as a table
frequency     how far apart the rows of a series are
reading       tables read into series: `read_series`
columns       tables as columns of cells, block by block; cells as numbers, missing ones among them
times         time stamps in all their forms
choosing      which column is what
gathering     the chosen columns of all files as arrays
arranging     rows as series, in order of time, on a grid with its gaps
calendar_features   the place in the day, week and year as covariates
frames        data frames and arrays, written as tables
labelled      series with labels, in every form: a row a series, a file a series, or long_rows
labelled_series, given      one of them, and their columns; one as a user hands it to `predict`, or with rows after the
              last one, for forecasts
windows       places to forecast from, and the parts of a series; scales: each series as it was in training
made          series that are made here, each a corpus by name
"""
