"""`thereafter gallery`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import app


@app.command()
def gallery(
    out: Annotated[Path, typer.Option(help="The folder the page and the pictures go to.")] = Path("gallery"),
    only: Annotated[str, typer.Option(help="Names of pictures, with commas between; all by default.")] = "",
    png: Annotated[bool, typer.Option("--png/--no-png", help="PNGs too, which need kaleido and a browser.")] = True,
    models: Annotated[
        Path | None, typer.Option(help="Where the trained models are kept; the cache folder by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of all trainings.")] = 0,
) -> None:
    """Build every picture of the books from small models: under ten minutes on two cores, then two.

    What can be drawn is written before the next model is trained; a picture trains only the models it shows.

    Example: thereafter gallery --out gallery --only gradient-decay,lstm-cell
    """
    from thereafter.folders import cache_folder
    from thereafter.gallery.build import Writer, build, find_pictures
    from thereafter.gallery.models import Models

    wanted = [name.strip() for name in only.split(",") if name.strip()]
    pictures = find_pictures(wanted)
    writer = Writer(out, png=png)
    built = build(pictures, Models(models or cache_folder() / "gallery", seed), writer.write)
    page = writer.page if built.figures else writer.write(built)
    for note in built.notes:
        typer.echo(note, err=True)
    typer.echo(f"{len(built.figures)} pictures, {sum(built.seconds.values()):.0f} s: {page}")
    for name, reason in built.failed.items():
        typer.echo(f"failed: {name}: {reason}", err=True)
    if built.failed:
        raise typer.Exit(1)
