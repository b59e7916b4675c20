"""`thereafter rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.base.tabular import Row
from thereafter.cli.app import ArpaTokens, AsWritten, Device, Run, app, load
from thereafter.cli.tables import AsCsv, AsJson, TableFile, print_rows, save_rows, tell_unknown, tell_written
from thereafter.data.finding import TABLE_ENDINGS, split_column
from thereafter.errors import EmptyCorpusError, OptionError


@app.command()
def rank(
    run: Run,
    candidates: Annotated[
        list[str],
        typer.Argument(
            help="Texts to rank; - for the lines of standard input, stimuli.csv:sentence for a column of a table.",
            show_default=False,
        ),
    ],
    context: Annotated[
        str,
        typer.Option(
            metavar="TEXT|item",
            help="Text that comes before each of them; no line end is added. item: nothing, a fresh state.",
        ),
    ] = "item",
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

    Prints natural logarithms. KenLM's are log10, of lines: add --lines and divide by 2.302585.

    Example: thereafter rank runs/book "the cat sat on the mat" "the cat sad on the mat"
    """
    texts = _lines(candidates[0]) if _is_source(candidates) else candidates
    if context == "document" or context.isdecimal():
        raise OptionError(
            f"--context is {context}, and the texts are alternatives, so none is read after another; expected the text "
            "before each, or item; try --context item"
        )
    end, context = "\n" if lines else "", "" if context == "item" else context
    lm = load(run, tokens, as_written=as_written, device=device)
    ranked = lm.rank([text + end for text in texts], context, per=per)
    tell_written(lm, context, *texts)
    tell_unknown(lm, *texts)
    named = [(text.removesuffix(end) if end else text, logp) for text, logp in ranked]
    rows: list[Row] = [{"text": text, "log_prob": logp} for text, logp in named]
    save_rows(rows, out)
    after = f"after {context!r}" if context else "from a fresh state (--context TEXT: after a text)"
    typer.echo(f"context {'text' if context else 'item'}: each text is read {after}", err=True)
    if print_rows(rows, as_csv=as_csv, as_json=as_json):
        return
    for text, logp in named:
        typer.echo(f"{logp:12.4f}  {text}")


def _is_source(candidates: list[str]) -> bool:
    """Whether the candidates are named: by -, or by a table, which alone is no candidate."""
    table = Path(split_column(candidates[0])[0])
    return candidates == ["-"] or (len(candidates) == 1 and table.suffix in TABLE_ENDINGS and table.is_file())


def _lines(source: str) -> list[str]:
    """Each line, or row of a column, as a candidate, without blank ones; no candidate at all is an error."""
    from thereafter.training.finding import find_texts
    from thereafter.training.options import TextSettings

    (text,) = find_texts(source, None, TextSettings()).parts.values()
    lines = [line for line in text.text().split("\n") if line.strip()]
    if not lines:
        name = "standard input" if source == "-" else source
        raise EmptyCorpusError(f"{name} holds no candidates; expected one a line; try: printf 'a\\nb\\n' |")
    return lines
