"""`thereafter compare`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import Encoding, SourceName, app


@app.command()
def compare(
    source: SourceName,
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="With commas: unigram, ngram-3, lstm, lstm:char ... (unigram, ngram, average, window, rnn, gru, lstm, "
            "mingru, transformer)."
        ),
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(help="How often each neural model reads the text; by its size, so that it takes some minutes."),
    ] = None,
    tokens_budget: Annotated[int | None, typer.Option(help="Instead: tokens each is trained on.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Instead: minutes of training; slow models then read less than others.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Train each neural model so often (1); the table shows mean and spread.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Instead: train each once, with this seed (0).")] = None,
    tokens: Annotated[
        str | None, typer.Option(help="word, prose, char, byte or bpe, where a model names none.")
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(help="parameters: neural models as large as the LSTM, or the first; or a number such as 2M."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Keeps everything, and goes on where it stopped; by default runs/compare-NAME."),
    ] = None,
    encoding: Encoding = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any option of training: --set lstm.hidden=200."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Train models on the same text with the same budget and compare them: a table, and a page with curves.

    Example: thereafter compare python-docs --models ngram,lstm,lstm:char --epochs 5 --seeds 3
    """
    from thereafter.comparing.compare import compare as run
    from thereafter.comparing.entries import LADDER
    from thereafter.training.recipes import parse_settings

    named = {
        "tokens": tokens,
        "epochs": epochs,
        "tokens_budget": tokens_budget,
        "minutes": minutes,
        "seeds": seeds,
        "seed": seed,
        "match": match,
        "out": out,
        "encoding": encoding,
    }
    options = parse_settings(settings or ()) | {name: value for name, value in named.items() if value is not None}
    command = shlex.join(["thereafter", *sys.argv[1:]])
    found = run(source, **{**options, "models": models or LADDER, "base": "runs", "command": command})
    if as_json:
        typer.echo(found.to_json())
        return
    typer.echo(found.table())
    for note in found.notes:
        typer.echo(f"note: {note}")
    typer.echo("")
    for sentence in found.advice():
        typer.echo(sentence)
    typer.echo(f"saved  {found.folder}")
