"""A tag per word: task, network, `crf`, measures; `hmm`, the hidden Markov model to compare with."""
