"""The task of numbers that come next, one file per step.

task              the task; how a table is cut into windows, which are its examples
answers, score    forecasts of windows, and how surprising points were; their figures, in all and by step (measures)
asking, backtest    what a trained one says of a whole table, k steps ahead, and from rolling origins
figures             fan charts and errors by step
"""
