"""`thereafter figure`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.base.tabular import Row
from thereafter.cli.app import app
from thereafter.cli.tables import AsCsv, AsJson, print_rows
from thereafter.errors import OptionError


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
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Draw a figure from saved measurements, traces or run folders.

    --csv and --json are for the list of figures; the numbers of a figure are written by --out NAME.csv.

    Example: thereafter figure training-curves runs/rnn runs/lstm --out curves.html
    """
    from thereafter.figures.catalogue import FIGURES, draw

    if not name:
        rows: list[Row] = [
            {"name": known, "shows": row.shows, "takes": row.takes, "made_by": row.made_by}
            for known, row in FIGURES.items()
        ]
        if print_rows(rows, as_csv=as_csv, as_json=as_json):
            return
        for known, row in FIGURES.items():
            typer.echo(f"{known:26}{row.shows}\n{'':26}from: {row.made_by}")
        return
    if as_csv or as_json:
        raise OptionError(
            f"--csv and --json print the list of figures; for the numbers of this one try --out {name}.csv"
        )
    from thereafter.figures.export import write

    pictures = draw(name, files or [])
    place = write(pictures, out or Path(f"{name}.html"))
    for picture in pictures:
        typer.echo(f"{picture.title}: {picture.caption}")
    several = len(pictures) > 1 and place.suffix != ".html"
    typer.echo(f"saved {place}" + (f" and {len(pictures) - 1} more beside it" if several else ""))
