"""`thereafter inspect probe`."""
