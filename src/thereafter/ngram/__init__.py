"""Counted n-grams.

counts       all n-grams of a text, counted in linear time
smoothing    counts to probabilities and back-off weights, eight methods
tables       the finished model as flat arrays: one trie
model        the n-gram as a `SequenceModel`: the log probability of every token; from token ids to a model: count,
             smooth, flatten
arpa         ARPA files, written with escaped words, parsed and read
"""
