"""`thereafter gallery`."""
