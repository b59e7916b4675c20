"""Series of numbers: read from tables or made here, cut into windows.

table         series as arrays, with their times; which columns are meant
frequency     how far apart the rows of a series are
reading       tables read into series: `read_series`
cells         cells as numbers, missing ones among them
columns       tables as columns of cells, block by block
times         time stamps in all their forms
choosing      which column is what
gathering     the chosen columns of all files as arrays
arranging     rows as series, in order of time
spacing       the frequency, and the grid with its gaps
calendar_features   the place in the day, week and year as covariates
frames        data frames and arrays, written as tables: their cells are made in `frame_cells`
labelled      series with labels, in every form: long_rows, wide_rows, labelled_files (a file a series)
label_columns, labelled_series, given      their columns; one of them; one as a user hands it to `predict`
any_table     whatever a user hands over as a table; extending: rows after the last one, for forecasts
windows       places to forecast from, and the parts of a series; scales: each series as it was in training
made          series that are made here, each a corpus by name
"""
