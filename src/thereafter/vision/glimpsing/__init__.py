"""Pictures seen in glimpses: task, network with its settings, its `sensor`; `cluttered` digits to look for."""
