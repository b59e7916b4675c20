"""Runs under EleutherAI's lm-evaluation-harness (Gao et al., the package `lm_eval`): every run, n-grams included.

- `backend`: the class that is registered with the harness, by `thereafter lm-eval` and by an entry point; what a run
  answers to its three questions; its own command line, with the run as its model
"""
