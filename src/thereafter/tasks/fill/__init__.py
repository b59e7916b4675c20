"""Words left out of a sentence: task and network."""
