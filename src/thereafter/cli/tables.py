"""What commands print: tables, with the options `--csv` and `--json`, and notes about the text.

Notes say where plain text was brought into the form of a model's own text, and where words are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.tabular import Row, check_ending, csv_text, json_text, write_table
from thereafter.base.terminal import print_caution, print_exactly, visible
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel


SHOWN = 40
"""Rows that a terminal gets."""


def _one_format(context: typer.Context, wanted: bool) -> bool:
    """Whether a format is wanted. Both at once are refused before anything is computed."""
    if wanted and (context.params.get("as_csv") or context.params.get("as_json")):
        raise OptionError(_BOTH)
    return wanted


_BOTH = "got both --csv and --json; expected one of them; try --csv"
AsCsv = Annotated[bool, typer.Option("--csv", callback=_one_format, help="Print the table as CSV.")]
AsJson = Annotated[bool, typer.Option("--json", callback=_one_format, help="Print the table as JSON.")]


def _table_file(path: Path | None) -> Path | None:
    """The file of a table. An unknown file ending is refused before anything is measured."""
    if path is not None:
        check_ending(path)
    return path


TableFile = Annotated[
    Path | None, typer.Option("--out", callback=_table_file, help="Write the table to this file: .csv, .tsv or .json.")
]


ItemColumn = Annotated[
    str | None,
    typer.Option(
        "--item",
        metavar="COLUMN",
        help="With --by COLUMN: the column that says which rows are one item in several conditions. Default: item.",
    ),
]


def print_rows(rows: Sequence[Row], *, as_csv: bool, as_json: bool) -> bool:
    """Print rows as CSV or JSON if either is asked for; whether it was."""
    if as_csv and as_json:
        raise OptionError(_BOTH)
    if as_csv:
        print_exactly(csv_text(rows))
    if as_json:
        print_exactly(json_text(rows) + "\n")
    return as_csv or as_json


def print_aligned(rows: Sequence[Row], *, shown: int = SHOWN, hidden: Collection[str] = ()) -> None:
    """Print the first rows of a table in columns; `hidden` columns are in its file alone."""
    columns = [
        [name, *(_cell(row[name]) for row in rows[:shown])] for name in (rows[0] if rows else ()) if name not in hidden
    ]
    widths = [max(map(len, column)) for column in columns]
    for cells in zip(*columns, strict=True):
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    if len(rows) > shown:
        typer.echo(f"... {len(rows) - shown:,} more rows; --out words.csv writes all of them")


def print_conditions(rows: Sequence[Row]) -> None:
    """Print the figures of conditions, and why some have no intervals."""
    from thereafter.evaluation.bootstrap import LEAST

    print_aligned(rows, shown=len(rows), hidden=("by",))
    if any(isinstance(items := row["items"], int) and items < LEAST for row in rows):
        typer.echo(f"no 95 % intervals where there are fewer than {LEAST} items")
    if not any(row["minus"] for row in rows):
        typer.echo("no paired differences: no column says which rows are one item in several conditions; try --item")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else visible(str(value), one_line=True)


def save_rows(rows: Sequence[Row], path: Path | None) -> None:
    """Write rows to a file, if one is given, and say so."""
    if path is not None:
        typer.echo(f"saved {write_table(rows, path)}", err=True)


def tell_written(lm: LanguageModel, *texts: str) -> None:
    """On standard error: the first text that was rewritten, in the form the model reads."""
    if lm.writing is None:
        return
    rewritten = next((text for text in texts if lm.writing.applies(text)), None)
    if rewritten is not None:
        form = _short(lm.normalise(rewritten))
        typer.echo(f"read as {form!r}, as the model's own text was written (--as-written: as it is)", err=True)


def tell_unknown(lm: LanguageModel, *texts: str) -> None:
    """On standard error: a warning where many words are unknown."""
    from thereafter.evaluation.scores import unknown_caution, unknown_share_of

    caution = unknown_caution(unknown_share_of(lm.tokenizer, map(lm.normalise, texts)))
    if caution:
        print_caution(f"caution: {caution}", err=True)


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:80].rsplit(" ", 1)[0] + " ..."
