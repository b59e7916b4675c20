"""Looking into a model: traces now; gradients, probes and units stand on them."""
