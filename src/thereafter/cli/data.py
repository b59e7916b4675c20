"""`thereafter data`: corpora by name."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.cli.app import data_app


@data_app.command(name="list")
def data_list() -> None:
    """List the named corpora and where each one is."""
    from thereafter.data import corpora

    for name in corpora.names():
        card = corpora.card(name)
        typer.echo(f"{name:<16} {card.tokens:<6} {card.title}\n{'':<24}{corpora.status(name)}")


@data_app.command(name="get")
def data_get(name: Annotated[str, typer.Argument(help="Name of the corpus.")]) -> None:
    """Find, download or generate a corpus, check it, and print where its parts are.

    Example: thereafter data get tinyshakespeare
    """
    from thereafter.data import corpora

    corpus = corpora.locate(name)
    typer.echo(f"{name}: {corpus.detail}")
    for part, path in corpus.parts.items():
        typer.echo(f"{part:<10} {path}")


@data_app.command(name="path")
def data_path(
    name: Annotated[str, typer.Argument(help="Name of the corpus, or one part of it: ptb:valid.")],
) -> None:
    """Print the paths of a corpus' files, one per line. Nothing is downloaded.

    Example: wc -w $(thereafter data path ptb:test)
    """
    from thereafter.data import corpora
    from thereafter.errors import UnknownNameError

    corpus_name, _, part = name.partition(":")
    parts = corpora.locate(corpus_name, download=False).parts
    if part and part not in parts:
        raise UnknownNameError(f"part of {corpus_name}", part, parts)
    for path in [parts[part]] if part else parts.values():
        typer.echo(path)
