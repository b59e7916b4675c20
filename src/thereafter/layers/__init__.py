"""Layers made of cells: stacks in both directions, dropout, initial states, streams. `thereafter.nn` is the door."""
