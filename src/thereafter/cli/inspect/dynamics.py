"""`thereafter inspect dynamics`."""
