"""The game of catch, played by glimpses: `game` and its rules as files, task, network with its settings."""
