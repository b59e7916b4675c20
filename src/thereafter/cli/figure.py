"""`figure` draws saved measurements, `gallery` figures of the textbooks; `kernels` says how this machine computes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.base.tabular import Row
from thereafter.cli import app
from thereafter.cli.options import command
from thereafter.cli.tables import print_rows
from thereafter.errors import OptionError


@command(app)
def figure(
    name: Annotated[str, typer.Argument(show_default=False)] = "",
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE...")] = None,
    out: Path | None = None,
    form: str = "",
) -> None:
    """Draw a figure from saved measurements, traces or run folders.

    --csv and --json are for the list of figures; the numbers of a figure are written by --out NAME.csv.

    Example: thereafter figure training-curves runs/rnn runs/lstm --out curves.html

    Args:
        name: Name of the figure. Without it, all figures are listed.
        files: Saved measurements, traces or run folders.
        out: File to write: .html, .png, .svg, .csv or .json. Default: NAME.html.
    """
    from thereafter.figures.catalogue import FIGURES, draw

    if not name:
        rows: list[Row] = [
            {"name": known, "shows": row.shows, "takes": row.takes, "made_by": row.made_by}
            for known, row in FIGURES.items()
        ]
        if print_rows(rows, form):
            return
        for known, row in FIGURES.items():
            typer.echo(f"{known:26}{row.shows}\n{'':26}from: {row.made_by}")
        return
    if form:
        raise OptionError(
            f"--csv and --json print the list of figures; for the numbers of this one try --out {name}.csv"
        )
    from thereafter.figures.pictures import write

    pictures = draw(name, files or [])
    place = write(pictures, out or Path(f"{name}.html"))
    for picture in pictures:
        typer.echo(f"{picture.title}: {picture.caption}")
    several = len(pictures) > 1 and place.suffix != ".html"
    typer.echo(f"saved {place}" + (f" and {len(pictures) - 1} more beside it" if several else ""))


@command(app)
def gallery(
    out: Path = Path("gallery"),
    only: str = "",
    png: Annotated[bool, typer.Option("--png/--no-png")] = True,
    models: Path | None = None,
    seed: int = 0,
) -> None:
    """Draw the figures of the textbooks from small models that are trained here.

    The first time takes under ten minutes on two cores, later times two. Each picture is written as soon as its models
    are trained, and only the models it shows are trained.

    Example: thereafter gallery --out gallery --only gradient-decay,lstm-cell

    Args:
        out: Folder for the page and the pictures.
        only: Names of pictures, separated by commas. Default: all.
        png: Write PNGs too; this needs kaleido and a browser.
        models: Folder of the trained models. Default: the cache folder.
        seed: Random seed of all training runs.
    """
    from thereafter.base.storage import cache_folder
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


@command(app)
def kernels(form: str = "") -> None:
    """List the kernels of recurrent layers: which run on this machine, and why the others do not.

    Also what is known about the processor, where each figure comes from, and what follows from them: the tiles that
    products are made of, and what the threads of a scan share. THEREAFTER_VECTORS=16x32 (bytes x registers) and
    THEREAFTER_CACHES=L1d=64K,L2=1M take the place of what was read.

    Example: thereafter kernels
    """
    import numpy  # noqa: F401, torch would import it, and lose a Ctrl-C that falls into that
    import torch

    from thereafter.base import spinning
    from thereafter.base.processor import processor, tiling, usable
    from thereafter.kernels import switches
    from thereafter.kernels.scan import KERNELS, sharing_lines

    lines = {name: KERNELS.load(name).status() for name in KERNELS}
    lines |= processor().lines() | tiling().lines()
    lines["threads"] = f"torch uses {torch.get_num_threads()} of {usable()} processors"
    lines["waiting"] = spinning.line()
    lines |= sharing_lines()
    lines["bfloat16"] = switches.onednn_status()
    rows: list[Row] = [{"name": name, "status": text} for name, text in lines.items()]
    if print_rows(rows, form):
        return
    for name, text in lines.items():
        typer.echo(f"{name:<10} {text}")
