"""Pictures drawn stroke by stroke (DRAW): task, network, its `window` of Gaussian filters."""
