"""Models compared on one text under one protocol: the trials, the table, the page."""
