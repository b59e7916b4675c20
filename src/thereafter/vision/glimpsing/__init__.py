"""Pictures seen in glimpses: task, network, its `sensor`, settings, figure; `cluttered` digits to look for."""
