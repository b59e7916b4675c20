"""Models as programs of `torch.export`, which torch runs without this package: `target`, `bodies`."""
