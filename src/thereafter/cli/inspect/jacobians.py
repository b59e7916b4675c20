"""`thereafter inspect jacobians`."""
