"""Forecasters: from the last rows of a series to a distribution over the next ones.

settings      the options of a forecaster, and the kinds there are
network       what every forecaster gives: loss, distribution, sampled paths, calibrated bands; networks: window,
              recurrent layers, Transformer, each a body that reads the window and a head over the steps ahead
solved        last value, seasonal naive, drift; least squares: autoregression step by step, or all steps at once;
              `build_forecaster`, of whatever kind
"""
