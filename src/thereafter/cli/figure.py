"""`thereafter figure`."""
