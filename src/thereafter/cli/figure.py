"""`thereafter figure`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import app


@app.command()
def figure(
    name: Annotated[
        str, typer.Argument(help="Name of the figure. Without it, all figures are listed.", show_default=False)
    ] = "",
    files: Annotated[
        list[Path] | None, typer.Argument(help="Saved measurements, traces or run folders.", metavar="FILE...")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write: .html, .png, .svg, .csv or .json. Default: NAME.html.")
    ] = None,
) -> None:
    """Draw a figure from saved measurements, traces or run folders.

    Example: thereafter figure training-curves runs/rnn runs/lstm --out curves.html
    """
    from thereafter.figures.catalogue import FIGURES, draw

    if not name:
        for known, row in FIGURES.items():
            typer.echo(f"{known:26}{row.shows}\n{'':26}from: {row.made_by}")
        return
    from thereafter.figures.export import write

    pictures = draw(name, files or [])
    place = write(pictures, out or Path(f"{name}.html"))
    for picture in pictures:
        typer.echo(f"{picture.title}: {picture.caption}")
    several = len(pictures) > 1 and place.suffix != ".html"
    typer.echo(f"saved {place}" + (f" and {len(pictures) - 1} more beside it" if several else ""))
