"""`thereafter gallery`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import app


@app.command()
def gallery(
    out: Annotated[Path, typer.Option(help="Folder for the page and the pictures.")] = Path("gallery"),
    only: Annotated[str, typer.Option(help="Names of pictures, separated by commas. Default: all.")] = "",
    png: Annotated[
        bool, typer.Option("--png/--no-png", help="Write PNGs too; this needs kaleido and a browser.")
    ] = True,
    models: Annotated[
        Path | None, typer.Option(help="Folder of the trained models. Default: the cache folder.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of all training runs.")] = 0,
) -> None:
    """Draw the figures of the textbooks from small models that are trained here.

    The first time takes under ten minutes on two cores, later times two. Each picture is written as soon as its models
    are trained, and only the models it shows are trained.

    Example: thereafter gallery --out gallery --only gradient-decay,lstm-cell
    """
    from thereafter.base.folders import cache_folder
    from thereafter.gallery.build import GalleryWriter, build, find_pictures
    from thereafter.gallery.models import Models

    wanted = [name.strip() for name in only.split(",") if name.strip()]
    pictures = find_pictures(wanted)
    writer = GalleryWriter(out, png=png)
    built = build(pictures, Models(models or cache_folder() / "gallery", seed), writer.write)
    page = writer.page if built.figures else writer.write(built)
    for note in built.notes:
        typer.echo(note, err=True)
    typer.echo(f"{len(built.figures)} pictures, {sum(built.seconds.values()):.0f} s: {page}")
    for name, reason in built.failed.items():
        typer.echo(f"failed: {name}: {reason}", err=True)
    if built.failed:
        raise typer.Exit(1)
