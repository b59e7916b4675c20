"""`thereafter surprisal`: -log2 p of every word of a text, under one model or several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.config import Table
from thereafter.base.progress import print_caution
from thereafter.cli import app
from thereafter.cli import options as opt
from thereafter.cli.options import chosen, command
from thereafter.cli.score import item_context, load_mixture, scoring_options
from thereafter.cli.tables import print_aligned, print_conditions, print_rows, save_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.inspection.surprisal import Surprisals

_HIDDEN = ("position", "line_end", "spelling_bits", "unknown", "bare_", "length", "log_frequency", "rank", "context")
_WIDE = 30  # a column of the user's table that is wider, such as that of the texts, is in the file alone


@command(app, opt.PART, *opt.SWITCHES)
def surprisal(
    runs: Annotated[list[str], typer.Argument(metavar="RUN... SOURCE")],
    text: str | None = None,
    part: str | None = None,
    encoding: str | None = None,
    loading: opt.Loading = opt.LOADING,
    context: opt.ItemContext = None,
    items: bool = False,
    by: str = "word",
    item: opt.ItemColumn = None,
    detail: Annotated[bool | None, typer.Option("--detail/--no-detail")] = None,
    top: int | None = None,
    out: Annotated[Path | None, typer.Option(callback=opt.table_or_arrays)] = None,
    figure: Annotated[Path | None, typer.Option(callback=opt.figure_file)] = None,
    form: str = "",
    **switches: object,
) -> None:
    """Surprisal of every word of a text, -log2 p in bits, under one model or several: one row per word.

    The bits of all rows add up to those of thereafter score. Words are what stands between white space, so models of
    different tokens stand side by side.

    Example: thereafter surprisal runs/book other.txt --out words.csv

    Example: thereafter surprisal runs/ngram runs/lstm --text "the cat sat on the mat" --detail --figure cat.html

    The sentences of an experiment are items: name the column of a table, or add --items. Its other columns are kept.

    Example: thereafter surprisal runs/book stimuli.csv:sentence --out words.csv

    Example: thereafter surprisal runs/book stimuli.csv:sentence --by condition

    The run of a forecaster takes a table of series instead: -log p of every point, in nats, and which are unusual.

    Example: thereafter surprisal runs/sales sales.csv --out points.csv

    Args:
        runs: One run folder or several, then the text: a file, a folder, a 'glob*', - or a corpus name.
        text: Read this text instead of a source.
        by: What a row is: word, token, sentence or line; or a column of the table, such as condition: means by
            condition with intervals, and paired differences by item.
        detail: Add rank, entropy, context and the likeliest tokens. Default: off; for items all but the tokens.
        top: Likeliest tokens with --detail (default 3).
        out: Write the table: .csv, .tsv, .json, or .npz (which thereafter figure reads).
        figure: Draw the coloured text, or the points: .html, .png or .svg.
    """
    import thereafter
    from thereafter.evaluation.text_units import UNITS
    from thereafter.runs.folder import holds_task

    if item is not None and by in UNITS:
        raise OptionError(f"--item is {item!r} and --by is {by}; expected a column after --by; try --by condition")
    if top is not None and not detail:
        raise OptionError(f"--top is {top} and --detail is off; add --detail")
    names, source = _split(runs, text)
    if any(holds_task(Path(name)) for name in names):
        of_texts: Table = {"text": text, "part": part, "encoding": encoding, "detail": detail, **switches}
        of_texts |= {
            "by": None if by == "word" else by,
            "as_written": loading.as_written,
            "context": context,
            "items": items,
        }
        _print_points(names, source, loading.device, list(chosen(of_texts)), out, figure, form)
        return
    mixed = bool(switches["mix"]) or switches["weights"] is not None
    if mixed and len(names) > 1:
        raise OptionError(f"got --mix or --weights with {len(names)} runs; expected one run; try: RUN --mix OTHER")
    models = [load_mixture(names[0], switches, loading)] if mixed else [loading.load(name) for name in names]
    table = thereafter.surprisal(
        models,
        source,
        text=text,
        part=part,
        encoding=encoding,
        by=by if by in UNITS else "line",
        names=None if switches["mix"] else [Path(name).name or name for name in names],
        detail=detail,
        context=item_context(context, items=items),
        top=3 if top is None else top,
        **scoring_options(switches),
    )
    rows = table.to_rows() if by in UNITS else table.conditions(by, item).to_rows()
    if not print_rows(rows, form):
        if by not in UNITS:
            print_conditions(rows)
        elif out is None:
            # a terminal has no room for all columns
            named = next(iter(table.readings[0].rows), {})
            wide = {name for name in named if name in rows[0] and any(len(str(row[name])) > _WIDE for row in rows)}
            print_aligned(
                rows, hidden=wide | {name for name in rows[0] if name not in named and name.startswith(_HIDDEN)}
            )
    typer.echo(table.context, err=bool(form))
    for number, reading in enumerate(table.readings if not form else ()):
        typer.echo(_sums(table, number))
        for note in reading.notes:
            print_caution(f"  {note}")
    if out is not None and out.suffix.lower() == opt.ARRAYS:
        typer.echo(f"saved {table.measurement().save(out)}", err=True)
    else:
        save_rows(rows, out)
    if figure is not None:
        typer.echo(f"saved {table.figure().save(figure)}", err=True)


def _print_points(
    names: list[str],
    source: str | None,
    device: str,
    of_texts: list[str],
    out: Path | None,
    figure: Path | None,
    form: str,
) -> None:
    """The surprise of every point of a table under a forecaster: the sums and the most unusual points.

    All of them as CSV or JSON, or to a file.
    """
    from thereafter.base.tabular import check_ending
    from thereafter.task_model import load_task

    if len(names) > 1 or source is None or of_texts:
        got = f"{len(names)} runs" if len(names) > 1 else ", ".join(f"--{name.replace('_', '-')}" for name in of_texts)
        raise OptionError(
            f"{names[0]} holds a task, whose points are measured on one table; got {got}; try: thereafter surprisal "
            f"{names[0]} data.csv"
        )
    if out is not None:
        check_ending(out)
    table = load_task(names[0], device=device).surprises(source)
    rows = table.to_rows() if form or out is not None else []
    if not print_rows(rows, form):
        typer.echo(str(table))
    save_rows(rows, out)
    if figure is not None:
        from thereafter.figures import unusual_points

        typer.echo(f"saved {unusual_points(table).save(figure)}", err=True)


def _split(runs: list[str], text: str | None) -> tuple[list[str], str | None]:
    """The runs, and the source after them where no text is given."""
    if text is not None:
        return runs, None
    if len(runs) < 2:
        raise OptionError(
            f"got {runs[0]!r} and no text; expected a run and a source; "
            f'try: thereafter surprisal {runs[0]} book.txt, or --text "..."'
        )
    return runs[:-1], runs[-1]


def _sums(table: Surprisals, number: int) -> str:
    reading = table.readings[number]
    bits, spelling = float(table.bits(number).sum()), float(table.spelling_bits(number).sum())
    unknown = int(reading.costs.unknown_T.sum())
    spelled = f" and {spelling:,.1f} for the spelling of {unknown:,} unknown tokens" if unknown else ""
    return (
        f"{reading.model}: {bits:,.1f} bits{spelled} over {table.words:,} words, {len(reading.costs.ids):,} "
        f"{reading.tokenizer.name} tokens; {table.bits_per_word(number):.2f} bits per word"
    )
