"""`thereafter kernels`."""

from __future__ import annotations

import typer

from thereafter.cli.app import app


@app.command()
def kernels() -> None:
    """The ways to run a recurrent layer: which can run on this machine, and why the others cannot.

    Example: thereafter kernels
    """
    from thereafter.kernels.scan import KERNELS

    for name in KERNELS:
        typer.echo(f"{name:<10} {KERNELS.load(name).status()}")
