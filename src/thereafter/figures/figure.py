"""A picture as its reader gets it: a plotly figure, one line of caption, and the numbers behind it as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thereafter.errors import OptionError

Table = Mapping[str, Sequence[Any]]
"""Columns by name, all of one length."""


@dataclass(frozen=True)
class Figure:
    """`plot` is a plotly figure without a title: `title` stands above it, `caption` below, wherever it is shown.

    The caption says in one line what was measured, on which model and text.
    """

    name: str
    title: str
    caption: str
    plot: Any
    table: Table

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.table.items()}
        if len(set(lengths.values())) > 1:
            raise OptionError(f"the columns of {self.name!r} have the lengths {lengths}; expected one length")

    def csv(self) -> str:
        """The table as comma-separated values."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.table)
        writer.writerows(zip(*self.table.values(), strict=True))
        return out.getvalue()

    def _repr_mimebundle_(self, *given: Any, **named: Any) -> Any:
        """In a notebook: the interactive plot."""
        return self.plot._repr_mimebundle_(*given, **named)
