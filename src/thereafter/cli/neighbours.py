"""`thereafter neighbours`."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.cli.app import Run, app, load


@app.command()
def neighbours(
    run: Run,
    word: Annotated[str, typer.Argument(help="A token of the model, with or without the space before it.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many.")] = 10,
) -> None:
    """The words a neural model holds for most alike: the cosines of their embeddings.

    Example: thereafter neighbours runs/book cat -k 5
    """
    for piece, cosine in load(run).neighbours(word, k):
        typer.echo(f"{cosine:9.6f}  {piece!r}")
