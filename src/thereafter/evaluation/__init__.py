"""One honest score for every model."""
