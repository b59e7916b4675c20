"""`thereafter inspect gradients`."""
