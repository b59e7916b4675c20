"""The task of numbers that come next, one file per step.

task, frame, windows    the task; tables as frames; windows as examples
predicting, answers, scoring    forecasts of windows, as answers, and their figures: measures, score (all, by step too)
asking, ahead, backtest    what a trained one says of a whole table, k steps ahead, and from rolling origins
figures                   fan charts and errors by step
"""
