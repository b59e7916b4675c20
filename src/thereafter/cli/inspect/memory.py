"""`thereafter inspect memory`."""
