"""`thereafter inspect units`."""
