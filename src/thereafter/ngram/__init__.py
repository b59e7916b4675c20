"""Counted n-grams: counts, smoothing, the model, ARPA files."""
