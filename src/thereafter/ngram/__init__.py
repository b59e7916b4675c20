"""Counted n-grams.

counts       all n-grams of a text, counted in linear time
smoothing/   counts to probabilities and back-off weights, eight methods
tables       the finished model as flat arrays: one trie
scoring      the log probability of every token of a stream
model        the n-gram as a `SequenceModel`; estimate: from token ids to a model
arpa         ARPA files: arpa_read parses them, arpa_write writes them, arpa_words escapes their words
"""
