"""Forecasters: from the last rows of a series to a distribution over the next ones.

settings      the options of a forecaster, and the kinds there are
batch         windows of series as tensors
forecaster    what every forecaster gives: loss, distribution, sampled paths
linear        least squares: autoregression step by step, or all steps at once
network       window, recurrent layers, Transformer: a body that reads the window, a head over the steps ahead
calibration   conformal bands: widths learned from the validation set
build         the forecaster that the settings name; last value, seasonal naive, drift
"""
