"""`thereafter neighbours`."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.base.tabular import Row
from thereafter.cli.app import Run, app, load
from thereafter.cli.tables import AsCsv, AsJson, TableFile, print_rows, save_rows


@app.command()
def neighbours(
    run: Run,
    word: Annotated[str, typer.Argument(help="A token of the model, with or without its leading space.")],
    k: Annotated[int, typer.Option("-k", "--k", help="Number of words to list.")] = 10,
    out: TableFile = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """List the words with the most similar embeddings, by cosine similarity (neural models).

    Example: thereafter neighbours runs/book cat -k 5

    Example: thereafter neighbours runs/book cat -k 100 --out cat.csv
    """
    near = load(run).neighbours(word, k)
    rows: list[Row] = [{"token": piece, "cosine": cosine} for piece, cosine in near]
    save_rows(rows, out)
    if print_rows(rows, as_csv=as_csv, as_json=as_json):
        return
    for piece, cosine in near:
        typer.echo(f"{cosine:9.6f}  {piece!r}")
