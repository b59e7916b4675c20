"""Runs under EleutherAI's lm-evaluation-harness (Gao et al., the package `lm_eval`): every run, n-grams included.

- `answers`: what a run answers to the three questions of the harness; knows nothing of the harness
- `generating`: the generation options of a task as those of `LanguageModel.generate`
- `backend`: the class that is registered with the harness, by `thereafter lm-eval` and by an entry point
- `command`: the harness' own command line, with the run as its model
"""
