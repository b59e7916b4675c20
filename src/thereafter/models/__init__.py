"""Sequence models: one contract, every generation."""
