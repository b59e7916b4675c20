"""`thereafter rank`."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer

from thereafter.cli.app import ArpaTokens, Run, app, load


@app.command()
def rank(
    run: Run,
    candidates: Annotated[
        list[str], typer.Argument(help="The texts to compare; - for lines of standard input.", show_default=False)
    ],
    context: Annotated[str, typer.Option(help="The text they follow; it gets no line end.")] = "",
    per: Annotated[str, typer.Option(help="sentence, or token or char to compare different lengths.")] = "sentence",
    lines: Annotated[bool, typer.Option("--lines", help="Candidates are whole lines: their ends count too.")] = False,
    tokens: ArpaTokens = "word",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, best first.")] = False,
) -> None:
    """Candidates of a speech recogniser or spell checker, the likeliest first, with their log probabilities.

    Example: thereafter rank runs/book "the cat sat on the mat" "the cat sad on the mat"
    """
    listed = _lines_of_standard_input() if candidates == ["-"] else candidates
    end = "\n" if lines else ""
    ranked = load(run, tokens).rank([text + end for text in listed], context, per=per)
    named = [(text.removesuffix(end) if end else text, logp) for text, logp in ranked]
    if as_json:
        finite = [{"text": text, "log_prob": logp if math.isfinite(logp) else None} for text, logp in named]
        typer.echo(json.dumps(finite, allow_nan=False))
        return
    for text, logp in named:
        typer.echo(f"{logp:12.4f}  {text}")


def _lines_of_standard_input() -> list[str]:
    """Each line a candidate, blank ones left out; one without any is an error of the source."""
    from thereafter.errors import EmptyCorpusError
    from thereafter.text.sources import resolve

    (source,) = resolve("-").parts.values()
    listed = [line for line in source.text().split("\n") if line.strip()]
    if not listed:
        raise EmptyCorpusError("standard input holds no candidates; expected one a line; try: printf 'a\\nb\\n' |")
    return listed
