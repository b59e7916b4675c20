"""`thereafter neighbours`."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.cli.app import Run, app, load


@app.command()
def neighbours(
    run: Run,
    word: Annotated[str, typer.Argument(help="A token of the model, with or without its leading space.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many words to list.")] = 10,
) -> None:
    """List the words with the most similar embeddings, by cosine similarity (neural models).

    Example: thereafter neighbours runs/book cat -k 5
    """
    for piece, cosine in load(run).neighbours(word, k):
        typer.echo(f"{cosine:9.6f}  {piece!r}")
