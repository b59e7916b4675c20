"""A figure as its reader gets it: a plot, one line of caption, and the numbers behind it as a table."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thereafter.errors import OptionError
from thereafter.figures.plot import Plot

Cell = str | float | None
"""What a table has in one place: a word, a number, or nothing."""
Table = Mapping[str, Sequence[Cell]]
"""Columns by name, all of one length."""


@dataclass(frozen=True)
class Figure:
    """`plot` is a plotly figure without a title: `title` stands above it, `caption` below, wherever it is shown.

    The caption says in one line what was measured, on which model and text.
    """

    name: str
    title: str
    caption: str
    plot: Plot
    table: Table

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.table.items()}
        if len(set(lengths.values())) > 1:
            raise OptionError(f"the columns of {self.name!r} have the lengths {lengths}; expected one length")

    def words(self, column: str) -> list[str]:
        """A column of the table as words."""
        return [str(cell) for cell in self.table[column]]

    def numbers(self, column: str) -> list[float]:
        """A column of the table as numbers; a cell without one is NaN."""
        return [math.nan if cell is None else float(cell) for cell in self.table[column]]

    def csv(self) -> str:
        """The table as comma-separated values."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.table)
        writer.writerows(zip(*self.table.values(), strict=True))
        return out.getvalue()

    def _repr_mimebundle_(self, *include: object, **options: object) -> object:
        """In a notebook: the interactive plot."""
        return self.plot._repr_mimebundle_(*include, **options)
