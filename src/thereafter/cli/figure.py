"""`thereafter figure`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import app


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="The figure; without one, all are listed.", show_default=False)] = "",
    files: Annotated[
        list[Path] | None, typer.Argument(help="Saved measurements, traces or run folders.", metavar="FILE...")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The picture: .html, .png, .svg, .csv or .json.")] = None,
) -> None:
    """Draw a figure from saved measurements, traces or run folders.

    Example: thereafter figure training-curves runs/rnn runs/lstm --out curves.html
    """
    from thereafter.figures.catalogue import FIGURES, draw

    if not name:
        for known, entry in FIGURES.items():
            typer.echo(f"{known:26}{entry.shows}\n{'':26}from: {entry.made_by}")
        return
    from thereafter.figures.export import write

    drawn = draw(name, files or [])
    place = write(drawn, out or Path(f"{name}.html"))
    for one in drawn:
        typer.echo(f"{one.title}: {one.caption}")
    typer.echo(
        f"saved {place}" + (f" and {len(drawn) - 1} more beside it" * (len(drawn) > 1 and place.suffix != ".html"))
    )
