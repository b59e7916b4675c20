"""A figure as its reader gets it: a plot, one line of caption, and the numbers behind it as a table.

A notebook shows it with its title and caption; `save` writes it as a file.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from os import PathLike
from pathlib import Path

from thereafter.errors import OptionError
from thereafter.figures.plot import Plot
from thereafter.packages import require
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
        return as_html(self.plot, self.title, self.caption)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """What a notebook shows: the interactive plot under its title and caption."""
        return bundle(self.plot, self.title, self.caption)


# A plot as a notebook shows it: with its title, and its caption below that.
#
# Two forms of one picture: plotly's own, which JupyterLab and VS Code draw, and HTML for every other page. plotly's
# script (5 MB) is written into the HTML of the first figure of a session only, as plotly itself does it.


PLOTLY = "application/vnd.plotly.v1+json"
HTML = "text/html"
_TITLE, _LINE = 44, 17
_shown = count()


def bundle(plot: Plot, title: str, caption: str) -> dict[str, object]:
    """The picture by the type of its contents."""
    return {PLOTLY: titled(plot, title, caption), HTML: as_html(plot, title, caption, script=next(_shown) == 0)}


def as_html(plot: Plot, title: str, caption: str, *, script: bool = True) -> str:
    """Title, plot and caption as a piece of a page; with plotly's script, unless the page has it already."""
    drawn = plot.to_html(full_html=False, include_plotlyjs=script, config={"displaylogo": False})
    return f"<h4>{escape(title)}</h4>{drawn}<p>{escape(caption)}</p>"


def titled(plot: Plot, title: str, caption: str) -> dict[str, object]:
    """plotly's description of a copy of the plot that has the title and the caption above it."""
    copy: Plot = require("plotly.graph_objects", "drawing a picture").Figure(plot)
    width, height = int(copy.layout.width or 760), int(copy.layout.height or 460)
    lines = textwrap.wrap(caption, max(30, width // 7)) or [""]
    above, before = _TITLE + _LINE * len(lines), int(copy.layout.margin.t or 0)
    words = {"text": escape(title, quote=False), "x": 0.02, "xanchor": "left", "y": 1 - 16 / (height + above)}
    words["yanchor"], words["yref"] = "top", "container"
    subtitle = {"text": "<br>".join(escape(line, quote=False) for line in lines), "font": {"size": 12}}
    copy.update_layout(title={**words, "subtitle": subtitle}, height=height + above, margin={"t": before + above})
    described: dict[str, object] = json.loads(copy.to_json())
    return described
