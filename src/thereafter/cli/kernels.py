"""`thereafter kernels`."""

from __future__ import annotations

import typer

from thereafter.cli.app import app


@app.command()
def kernels() -> None:
    """The ways to run a recurrent layer: which can run on this machine, and why the others cannot; and what was found
    of the processor, with where each figure comes from.

    Example: thereafter kernels
    """
    import torch

    from thereafter.kernels import onednn
    from thereafter.kernels.scan import KERNELS
    from thereafter.processor import processor, usable

    listed = {name: KERNELS.load(name).status() for name in KERNELS}
    listed |= processor().lines()
    listed["threads"] = f"torch takes {torch.get_num_threads()} of {usable()} processors"
    listed["bfloat16"] = onednn.status()
    for name, text in listed.items():
        typer.echo(f"{name:<10} {text}")
