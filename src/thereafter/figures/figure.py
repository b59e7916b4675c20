"""A figure as its reader gets it: a plot, one line of caption, and the numbers behind it as a table.

A notebook shows it with its title and caption; `save` writes it as a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from thereafter.errors import OptionError
from thereafter.figures import notebook
from thereafter.figures.plot import Plot
from thereafter.registry import Registry
from thereafter.tabular import Row, Tabular, csv_text

_WRITERS = Registry("writer", {"files": "thereafter.figures.export:write"})

Cell = str | float | None
"""What a table has in one place: a word, a number, or nothing."""
Table = Mapping[str, Sequence[Cell]]
"""Columns by name, all of one length."""


@dataclass(frozen=True)
class Figure(Tabular):
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

    def to_rows(self) -> list[Row]:
        """The numbers behind the plot."""
        return [dict(zip(self.table, cells, strict=True)) for cells in zip(*self.table.values(), strict=True)]

    def csv(self) -> str:
        """The table as comma-separated values."""
        return csv_text(self.to_rows()) or ",".join(self.table) + "\n"

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it in the format that the name says: .html, .png, .svg, .csv or .json."""
        write: Callable[[Sequence[Figure], Path], Path] = _WRITERS.load("files")
        return write([self], Path(path))

    def _repr_html_(self) -> str:
        """Title, plot and caption as a piece of a page, with all that it needs."""
        return notebook.as_html(self.plot, self.title, self.caption)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """What a notebook shows: the interactive plot under its title and caption."""
        return notebook.bundle(self.plot, self.title, self.caption)
