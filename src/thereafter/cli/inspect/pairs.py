"""`thereafter inspect pairs`."""
