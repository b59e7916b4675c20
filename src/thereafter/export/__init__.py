"""A trained model as a file that runs without this package, checked against the model before it is handed over.

parts       the parts of a plan: plain arrays with names
plans       the plans, one for each generation of models
plan        `plan_of`: a trained language model as a plan
"""
