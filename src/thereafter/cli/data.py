"""`thereafter data`: corpora by name."""

from __future__ import annotations

import typer

from thereafter.base.progress import print_exactly
from thereafter.base.tabular import Row
from thereafter.cli import data_app
from thereafter.cli.options import command
from thereafter.cli.tables import print_rows


@command(data_app, name="list")
def data_list(form: str = "") -> None:
    """List the named corpora and where each one is.

    Example: thereafter data list --csv
    """
    from thereafter.data import corpora

    cards = {name: corpora.card(name) for name in corpora.names()}
    rows: list[Row] = [
        {"name": name, "kind": card.kind, "tokens": card.tokens, "title": card.title, "status": corpora.status(name)}
        for name, card in cards.items()
    ]
    if print_rows(rows, form):
        return
    for row in rows:
        read_as = row["kind"] if row["tokens"] == "-" else row["tokens"]
        typer.echo(f"{row['name']:<16} {read_as:<15} {row['title']}\n{'':<33}{row['status']}")


@command(data_app, name="get")
def data_get(name: str) -> None:
    """Find, download or generate a corpus, check it, and print where its parts are.

    Example: thereafter data get tinyshakespeare

    Args:
        name: Name of the corpus.
    """
    from thereafter.data import corpora

    corpus = corpora.locate(name)
    typer.echo(f"{name}: {corpus.detail}")
    for part, path in corpus.parts.items():
        typer.echo(f"{part:<10} {path}")


@command(data_app, name="path")
def data_path(name: str) -> None:
    """Print the paths of a corpus' files, one per line. Nothing is downloaded.

    Example: wc -w $(thereafter data path ptb:test)

    Args:
        name: Name of the corpus, or one part of it: ptb:valid.
    """
    from thereafter.data import corpora
    from thereafter.errors import UnknownNameError

    corpus_name, _, part = name.partition(":")
    parts = corpora.locate(corpus_name, download=False).parts
    if part and part not in parts:
        raise UnknownNameError(f"part of {corpus_name}", part, parts)
    for path in [parts[part]] if part else parts.values():
        print_exactly(f"{path}\n")
