"""`thereafter rank`."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.cli.app import ArpaTokens, AsWritten, Device, Run, app, load
from thereafter.cli.tables import AsCsv, AsJson, TableFile, print_rows, save_rows
from thereafter.cli.written import tell_unknown, tell_written
from thereafter.tabular import Row


@app.command()
def rank(
    run: Run,
    candidates: Annotated[
        list[str],
        typer.Argument(help="Texts to rank; - reads one from each line of standard input.", show_default=False),
    ],
    context: Annotated[str, typer.Option(help="Text that comes before each of them; no line end is added.")] = "",
    per: Annotated[
        str, typer.Option(help="Log probability per sentence, or per token or char to compare different lengths.")
    ] = "sentence",
    lines: Annotated[bool, typer.Option("--lines", help="Texts are whole lines: score their line ends too.")] = False,
    tokens: ArpaTokens = "word",
    as_written: AsWritten = False,
    device: Device = "auto",
    out: TableFile = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Rank texts by log probability, the most likely first: rescoring for speech recognition or spelling.

    Example: thereafter rank runs/book "the cat sat on the mat" "the cat sad on the mat"
    """
    texts = _lines_of_standard_input() if candidates == ["-"] else candidates
    end = "\n" if lines else ""
    lm = load(run, tokens, as_written=as_written, device=device)
    ranked = lm.rank([text + end for text in texts], context, per=per)
    tell_written(lm, context, *texts)
    tell_unknown(lm, *texts)
    named = [(text.removesuffix(end) if end else text, logp) for text, logp in ranked]
    rows: list[Row] = [{"text": text, "log_prob": logp} for text, logp in named]
    save_rows(rows, out)
    if print_rows(rows, as_csv=as_csv, as_json=as_json):
        return
    for text, logp in named:
        typer.echo(f"{logp:12.4f}  {text}")


def _lines_of_standard_input() -> list[str]:
    """Each line as a candidate, without blank lines; no candidate at all is an error."""
    from thereafter.errors import EmptyCorpusError
    from thereafter.text.sources import resolve

    (source,) = resolve("-").parts.values()
    lines = [line for line in source.text().split("\n") if line.strip()]
    if not lines:
        raise EmptyCorpusError("standard input holds no candidates; expected one a line; try: printf 'a\\nb\\n' |")
    return lines
