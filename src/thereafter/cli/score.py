"""`thereafter score`."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer

from thereafter.cli.app import ArpaTokens, Encoding, Run, app, load


@app.command()
def score(
    run: Run,
    source: Annotated[
        str | None, typer.Argument(help="What to score: a file, a folder, a 'glob*', - or a corpus.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Score this text instead of a source.")] = None,
    part: Annotated[str | None, typer.Option(help="The part of a corpus (default: test).")] = None,
    encoding: Encoding = None,
    tokens: ArpaTokens = "word",
    as_json: Annotated[bool, typer.Option("--json", help="All figures as JSON.")] = False,
) -> None:
    """Perplexity and bits per byte of a text under a model.

    Example: thereafter score runs/book other.txt
    """
    lm = load(run, tokens)
    result = lm.score(source, text=text, part=part, encoding=encoding)
    if as_json:
        finite = {name: None if value in (math.inf, -math.inf) else value for name, value in result.as_dict().items()}
        typer.echo(json.dumps(finite, allow_nan=False))
        return
    rows = {
        "text": result.name,
        "perplexity": f"{result.perplexity:.3f}",
        "bits per byte": f"{result.bits_per_byte:.4f}",
        "bits per char": f"{result.bits_per_char:.4f}",
        "tokens": f"{result.tokens:,} {result.tokenizer}",
        "vocabulary": f"{result.vocabulary:,}",
        "unknown": f"{result.unknown:,}",
        "context": result.context,
        "lines": f"{result.lines:,}",
        "bytes": f"{result.bytes:,}",
        "nats": f"{result.nats:.3f} and {result.spelling_nats:.3f} for spelling unknown forms",
    }
    for name, value in rows.items():
        typer.echo(f"{name:<14} {value}")
