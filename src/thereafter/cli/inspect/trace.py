"""`thereafter inspect trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import Run, inspect_app, load, writable


@inspect_app.command()
def trace(
    run: Run,
    text: Annotated[str, typer.Argument(help="Text to run the model on.")],
    out: Annotated[
        Path, typer.Option(callback=writable, help="Where the arrays go, as .npz (to draw later), .json or .csv.")
    ] = Path("trace.npz"),
    limit: Annotated[int, typer.Option(help="Maximum number of tokens.")] = 2000,
) -> None:
    """Record what a model did at every token of a text: states, gates, attention, predictions.

    Example: thereafter inspect trace runs/book "the cat sat on the mat" --out cat.npz
    """
    recorded = load(run).trace(text, limit=limit)
    recorded.save(out)
    for name, axes in recorded.axes.items():
        shape = " x ".join(map(str, recorded[name].shape))
        typer.echo(f"{name:24}{shape:>16}  {', '.join(axes)}")
    typer.echo(f"saved {out}: {len(recorded.tokens)} tokens")
