"""Pictures drawn stroke by stroke (DRAW): task, and network with its windows of Gaussian filters."""
