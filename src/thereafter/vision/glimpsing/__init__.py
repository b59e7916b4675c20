"""Pictures seen in glimpses: task, and network with its settings and its sensor."""
