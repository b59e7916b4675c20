"""From a text to a run: one protocol for every kind of model."""
