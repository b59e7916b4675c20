"""Answers as tables: rows of named values, as CSV, JSON, a pandas data frame, or HTML in a notebook.

A class that inherits from `Tabular` defines its rows; everything else follows. pandas is imported only for a data
frame.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, overload

from thereafter.base.packages import require
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, object]
"""A row of a table: values by the name of their column, the same names in every row."""
ENDINGS = (".csv", ".tsv", ".json")
_PLAIN = frozenset((str, int, float, bool))
_SHOWN = 20  # rows of a table in a notebook; the rest is counted


class Tabular(ABC):
    """Something that can be read as a table."""

    @abstractmethod
    def to_rows(self) -> list[Row]:
        """The rows, each with the same columns."""

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | PathLike[str]) -> Path: ...
    def to_csv(self, path: str | PathLike[str] | None = None) -> str | Path:
        """The table as CSV: written to a file, or returned as text where no path is given."""
        text = csv_text(self.to_rows())
        if path is None:
            return text
        return _write(Path(path), text)

    def to_pandas(self) -> DataFrame:
        """The table as a pandas data frame; pandas is an optional package."""
        pandas = require("pandas", "a data frame")
        frame: DataFrame = pandas.DataFrame.from_records(self.to_rows())
        return frame

    def _repr_html_(self) -> str:
        """The first rows, as a notebook shows them."""
        return html_table(self.to_rows())


@dataclass(frozen=True, repr=False)
class PlainTable(Tabular):
    """Rows that are a table of their own, such as the description of a measurement.

    >>> print(PlainTable(({"name": "norm", "axes": "layer"}, {"name": "token", "axes": "step"})))
    name   axes
    norm   layer
    token  step
    """

    rows: tuple[Row, ...]

    def to_rows(self) -> list[Row]:
        """The rows."""
        return list(self.rows)

    def __str__(self) -> str:
        return text_table(self.rows)

    __repr__ = __str__


def free_names(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Names of columns, each as it is, or with an ending where a table has such a column already.

    >>> free_names(["item", "word", "word_table"], ["word", "bits"])
    {'item': 'item', 'word': 'word_table_table', 'word_table': 'word_table'}
    """
    own = dict.fromkeys(names)
    free = {}
    for name in own:
        free[name] = name
        while free[name] in taken or (free[name] != name and free[name] in own):
            free[name] += "_table"
    return free


def csv_text(rows: Sequence[Row], separator: str = ",") -> str:
    """Rows as CSV with a header; a list in a cell becomes its parts with spaces between, None nothing.

    >>> csv_text([{"word": "cat", "bits": 2.5}, {"word": "a, b", "bits": None}])
    'word,bits\\ncat,2.5\\n"a, b",\\n'
    """
    text = io.StringIO()
    if rows:
        names = list(rows[0])
        table = csv.writer(text, delimiter=separator, lineterminator="\n")
        table.writerow(names)
        # there may be a row for each word of a book: most cells are plain, and not looked at twice
        cells = ([row.get(name) for name in names] for row in rows)
        table.writerows([value if type(value) in _PLAIN else _cell(value) for value in line] for line in cells)
    return text.getvalue()


def json_text(rows: Sequence[Row]) -> str:
    """Rows as a JSON list of objects; a number that is not finite becomes null, since JSON has no other word for it.

    >>> json_text([{"word": "cat", "bits": float("inf")}])
    '[{"word": "cat", "bits": null}]'
    """
    return json.dumps([finite(row) for row in rows], ensure_ascii=False, allow_nan=False)


def finite(value: object) -> object:
    """The value with None in the place of every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list | tuple) else value


def check_ending(path: str | PathLike[str], more: Sequence[str] = ()) -> None:
    """Refuse a file name that says another format than a table can have, or one of `more`; call it before anything is
    measured."""
    name, endings = Path(path), (*ENDINGS, *more)
    if name.suffix.lower() not in endings:
        raise OptionError(f"{name.name!r} ends in {name.suffix!r}; expected {', '.join(endings)}; try {name.stem}.csv")


def write_table(rows: Sequence[Row], path: str | PathLike[str]) -> Path:
    """Write rows to a file in the format that its name says: `.csv`, `.tsv` (tabs) or `.json`."""
    target = Path(path)
    check_ending(target)
    ending = target.suffix.lower()
    text = json_text(rows) + "\n" if ending == ".json" else csv_text(rows, "\t" if ending == ".tsv" else ",")
    return _write(target, text)


def html_table(rows: Sequence[Row], most: int = _SHOWN) -> str:
    """The first rows as an HTML table, with a line that counts the rest; every value is escaped."""
    if not rows:
        return "<p>no rows</p>"
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_readable(value))}</td>" for value in row.values()) + "</tr>"
        for row in rows[:most]
    )
    rest = f"<p>{len(rows) - most:,} more rows</p>" if len(rows) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def text_table(rows: Sequence[Row]) -> str:
    """Rows as aligned text with a header: the names to the left, numbers to the right."""
    if not rows:
        return "no rows"
    columns = [[name, *(_readable(row[name]) for row in rows)] for name in rows[0]]
    are_numbers = [all(isinstance(row[name], int | float | None) for row in rows) for name in rows[0]]
    return "\n".join(aligned(columns, are_numbers))


def aligned(columns: Sequence[Sequence[str]], to_right: Sequence[bool], gap: str = "  ") -> list[str]:
    """The lines of columns side by side, each cell to the left or `to_right` of its column.

    >>> aligned([["name", "a"], ["size", "7"]], [False, True])
    ['name  size', 'a        7']
    """
    sides = (">" if right else "<" for right in to_right)
    layout = [f"{side}{max(map(len, column))}" for column, side in zip(columns, sides, strict=True)]
    rows = zip(*columns, strict=True)
    return [gap.join(map(format, cells, layout)).rstrip() for cells in rows]


def facts_html(facts: Row, title: str) -> str:
    """A title over a table with one fact per row: a model in a notebook; what is off or 0 is left out."""
    rows: list[Row] = [{"fact": name, "value": value} for name, value in facts.items() if value]
    return f"<p>{html.escape(title)}</p>{html_table(rows, most=len(rows))}"


def _cell(value: object) -> object:
    if isinstance(value, dict):
        return json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _readable(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(_cell(value))


def _write(path: Path, text: str) -> Path:
    from thereafter.base.storage import write_text  # here, since it imports numpy, and `--help` answers without that

    write_text(path, text)
    return path
