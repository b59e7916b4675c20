"""Every picture of the books from small models, shipped or trained: `thereafter gallery`."""
