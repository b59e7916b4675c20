"""Forecasters: from the last rows of a series to a distribution over the next ones.

settings      the options of a forecaster, and the kinds there are
forecaster    what every forecaster gives: loss, distribution, sampled paths, and bands learned from the validation set
solved        last value, seasonal naive, drift; least squares: autoregression step by step, or all steps at once
network       window, recurrent layers, Transformer: a body that reads the window, a head over the steps ahead;
              `build_forecaster`, of whatever kind
"""
