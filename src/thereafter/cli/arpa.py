"""`thereafter arpa`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import Run, app, load


@app.command()
def arpa(
    run: Run,
    path: Annotated[
        Path,
        typer.Argument(
            help="File to write, - for standard output. A name that ends in .gz is compressed.", show_default=False
        ),
    ],
) -> None:
    """Write an n-gram model as an ARPA file, which KenLM and speech recognisers read.

    They read models of lines of words: train with --tokens word.

    Example: thereafter arpa runs/book book.arpa.gz
    """
    to_stdout = str(path) == "-"
    lm = load(run)
    written = lm.to_arpa(Path("/dev/stdout") if to_stdout else path)
    if lm.trained.context != "line":
        typer.echo("no </s> at line ends: KenLM does not read this file; train with --tokens word", err=True)
    if not to_stdout:
        typer.echo(written)
