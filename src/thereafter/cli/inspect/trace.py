"""`thereafter inspect trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.base.terminal import print_caution
from thereafter.cli.app import AsWritten, Run, inspect_app, load, writable
from thereafter.cli.tables import AsCsv, AsJson, print_rows, tell_written


@inspect_app.command()
def trace(
    run: Run,
    text: Annotated[str, typer.Argument(help="Text to run the model on.")],
    out: Annotated[
        Path, typer.Option(callback=writable, help="File for the arrays: .npz (to draw later), .json or .csv.")
    ] = Path("trace.npz"),
    limit: Annotated[int, typer.Option(help="Maximum number of tokens.")] = 2000,
    as_written: AsWritten = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Record what a model did at every token of a text: states, gates, attention, predictions.

    --csv and --json print one row per token: bits, rank, the likeliest token. The arrays are in the file.

    Example: thereafter inspect trace runs/book "the cat sat on the mat" --out cat.npz
    """
    lm = load(run, as_written=as_written)
    tell_written(lm, text)
    recorded = lm.trace(text, limit=limit)
    recorded.save(out)
    tabled = print_rows(recorded.to_rows(), as_csv=as_csv, as_json=as_json)
    if not tabled:
        for name, axes in recorded.axes.items():
            shape = " x ".join(map(str, recorded[name].shape))
            typer.echo(f"{name:24}{shape:>16}  {', '.join(axes)}")
    typer.echo(f"saved {out}: {len(recorded.tokens):,} tokens", err=tabled)
    if "cut" in recorded.about:
        print_caution(f"caution: {recorded.about['cut']}", err=tabled)
