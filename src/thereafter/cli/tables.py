"""What commands print and save: tables, in the `form` that was asked for ("csv", "json" or ""), measurements and
figures; and notes about the text.

Notes say where plain text was brought into the form of a model's own text, and where words are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from thereafter.base.progress import print_caution, print_exactly, visible
from thereafter.base.tabular import Row, aligned, csv_text, json_text, write_table
from thereafter.cli.options import Numbers, Picture

if TYPE_CHECKING:
    from thereafter.figures.figure import Figure
    from thereafter.inspection.measurement import Measurement
    from thereafter.language_model import LanguageModel


SHOWN = 40
"""Rows that a terminal gets."""


def print_rows(rows: Sequence[Row], form: str) -> bool:
    """Print rows as CSV or JSON if either is asked for; whether it was."""
    if form:
        print_exactly(csv_text(rows) if form == "csv" else json_text(rows) + "\n")
    return form != ""


def print_aligned(rows: Sequence[Row], *, shown: int = SHOWN, hidden: Collection[str] = ()) -> None:
    """Print the first rows of a table in columns; `hidden` columns are in its file alone."""
    columns = [
        [name, *(_cell(row[name]) for row in rows[:shown])] for name in (rows[0] if rows else ()) if name not in hidden
    ]
    for line in aligned(columns, [False] * len(columns)):
        typer.echo(line)
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


def save(out: Path | None, *measurements: Measurement, quiet: bool) -> None:
    """Write measurements; of several each has its place in the name. `quiet`: standard output has a table."""
    if out is None:
        return
    for place, one in enumerate(measurements, start=1):
        path = out if len(measurements) == 1 else out.with_stem(f"{out.stem}-{place}")
        model = f": {one.about['model']}" if "model" in one.about else ""
        typer.echo(f"saved {one.save(path)}{model}", err=quiet)


def draw(pictures: list[Figure], figure: Path, *, quiet: bool) -> None:
    """Write pictures, and say so. `quiet`: standard output has a table."""
    from thereafter.figures.pictures import write

    typer.echo(f"drawn {write(pictures, figure)}", err=quiet)


@dataclass(frozen=True)
class Results:
    """Where the numbers of an instrument go: as a table to the standard output, to a file, and into a figure."""

    form: str = ""
    out: Numbers = None
    figure: Picture = None

    def report(
        self, measured: Measurement, print_text: Callable[[Measurement], None], pictures: Callable[[], list[Figure]]
    ) -> None:
        """Print a measurement as a table, or in words by `print_text`; then save and draw it."""
        if not print_rows(measured.to_rows(), self.form):
            print_text(measured)
        self.save(measured, pictures=pictures)

    def save(self, *measured: Measurement, pictures: Callable[[], list[Figure]]) -> None:
        """Write the file and draw the figure, if they are asked for."""
        save(self.out, *measured, quiet=bool(self.form))
        if self.figure is not None:
            draw(pictures(), self.figure, quiet=bool(self.form))


def tell_written(lm: LanguageModel, *texts: str) -> None:
    """On standard error: the first text that was rewritten, in the form the model reads."""
    if lm.writing is None:
        return
    rewritten = next((text for text in texts if lm.writing.applies(text)), None)
    if rewritten is not None:
        form = lm.normalise(rewritten)
        form = form if len(form) <= 80 else form[:80].rsplit(" ", 1)[0] + " ..."
        typer.echo(f"read as {form!r}, as the model's own text was written (--as-written: as it is)", err=True)


def tell_unknown(lm: LanguageModel, *texts: str) -> None:
    """On standard error: a warning where many words are unknown."""
    from thereafter.evaluation.scores import unknown_caution, unknown_share_of

    caution = unknown_caution(unknown_share_of(lm.tokenizer, map(lm.normalise, texts)))
    if caution:
        print_caution(f"caution: {caution}", err=True)
