"""Tables as columns of cells: CSV by commas, semicolons, tabs or bars, plain or gzip, in blocks of rows.

A table may be larger than memory: a block is all that is ever in it. The first rows say how the table is written.
Cells become numbers: missing ones, and those with a decimal point or comma.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError, SourceError
from thereafter.series.times import is_stamp
from thereafter.text.reading import guess_encoding, place, read_lines

_BLOCK = 20_000  # rows
_SAMPLE = 1_000  # rows by which columns are recognised
SHOWN = 12
"""Names of columns in an error."""
_SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}
_LONGEST_LINE_LOOKED_AT = 1 << 16


@dataclass(frozen=True)
class CellBlock:
    """Some rows of a table: their line numbers, and their cells by column."""

    line_N: NDArray[np.int64]
    columns: list[tuple[str, ...]]


@dataclass(frozen=True)
class TableLayout:
    """How a table is written, and its first rows by column."""

    path: Path
    separator: str
    names: tuple[str, ...]
    has_header: bool
    decimal_comma: bool
    encoding: str | None
    sample: tuple[tuple[str, ...], ...]
    first_line: int

    @property
    def width(self) -> int:
        return len(self.names)


def table_layout(path: Path, named: Sequence[str] = ()) -> TableLayout:
    """Look at the first rows of a table; a first row that has one of the `named` columns is its header."""
    encoding = guess_encoding(path)
    separator = _separator(path, encoding)
    lines, rows = next(_row_blocks(path, separator, encoding, _SAMPLE, None), ([], []))
    if not rows:
        raise SourceError(
            f"{os.fspath(path)} has no rows; expected a table of times and numbers; is it the right file?"
        )
    _check_width(path, lines, rows, len(rows[0]))
    comma = separator == ";" and any(has_decimal_comma(cell) for row in rows for cell in row)
    first = [cell.strip() for cell in rows[0]]
    header = not set(first).isdisjoint(named) or _is_header(rows, decimal_comma=comma)
    names = first if header else [str(k + 1) for k in range(len(first))]
    body = rows[1:] if header else rows
    if not body:
        raise SourceError(f"{os.fspath(path)} has a line of names and no rows; expected a table of times and numbers")
    return TableLayout(path, separator, tuple(names), header, comma, encoding, tuple(zip(*body, strict=True)), lines[0])


def table_blocks(
    layout: TableLayout, advance: Callable[[float], None] | None = None, *, counted: bool = False
) -> Iterator[CellBlock]:
    """The rows of a table without its header, block by block; every row has as many cells as the first.

    `counted`: rows have no times, so one without any content keeps its place between the others.
    """
    is_first = layout.has_header
    width = layout.width if counted else 0
    for lines, rows in _row_blocks(layout.path, layout.separator, layout.encoding, _BLOCK, advance, width):
        _check_width(layout.path, lines, rows, layout.width)
        begin, is_first = (1 if is_first else 0), False
        if len(rows) > begin:
            yield CellBlock(np.array(lines[begin:], np.int64), list(zip(*rows[begin:], strict=True)))


def _row_blocks(
    path: Path, separator: str, encoding: str | None, size: int, advance: Callable[[float], None] | None, width: int = 0
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Rows with their line numbers; rows without any content are left out.

    With a `width` those between other rows stay, as so many empty cells. In a single column an empty line is such a
    row, unless every other line is empty.
    """
    empty_lines: list[int] = []  # rows without content, until a row with content follows
    counts_lines = width == 1 and not _is_double_spaced(path, encoding)
    begun = False
    text = (line + "\n" for line in read_lines(path, encoding=encoding, advance=advance))
    # strict: a quote that is never closed would otherwise swallow the rest of the file
    reader = csv.reader(text, delimiter=separator, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            rows = list(islice(reader, size))
        except csv.Error as fault:
            raise FormatError(
                f"{place(path, reader.line_num)} is not a row of a table ({fault}); expected cells between "
                f'{_SEPARATORS[separator]}; try: close its quotes, or write "" for a quote inside a text'
            ) from None
        if not rows:
            return
        if reader.line_num - begin + 1 == len(rows):
            lines = list(range(begin, begin + len(rows)))
        else:  # line ends inside cells
            lines = []
            for row in rows:
                lines.append(begin)
                begin += 1 + sum(cell.count("\n") for cell in row)
        if empty_lines or not all(map(any, rows)):
            filled = [any(row) or row == [""] for row in rows]  # "" alone is the missing value of a single column
            if width:
                numbered, lines, rows = list(zip(lines, rows, filled, strict=True)), [], []
                for line, row, has_content in numbered:
                    if has_content:
                        lines += [*empty_lines, line]
                        rows += [*([[""] * width] * len(empty_lines)), row]
                        empty_lines.clear()
                        begun = True
                    elif begun and (row or counts_lines):
                        empty_lines.append(line)
            else:
                lines, rows = list(compress(lines, filled)), list(compress(rows, filled))
        if rows:
            begun = True
            yield lines, rows


def _check_width(path: Path, lines: list[int], rows: list[list[str]], width: int) -> None:
    if set(map(len, rows)) == {width}:
        return
    line, row = next((line, row) for line, row in zip(lines, rows, strict=True) if len(row) != width)
    raise FormatError(
        f"{place(path, line)} has {len(row)} cells and the first row has {width}; expected the same number in every "
        "row; is there a separator inside a text, or a note below the table?"
    )


def _separator(path: Path, encoding: str | None) -> str:
    """The first of tab, semicolon, comma and bar that stands in each of the first lines equally often, or at all."""
    lines = [line for line in islice(read_lines(path, encoding=encoding), 50) if line.strip()]
    if not lines or max(map(len, lines)) > _LONGEST_LINE_LOOKED_AT:
        return "," if not lines or "," in lines[0] else "\t"
    counts = {separator: [line.count(separator) for line in lines] for separator in _SEPARATORS}
    even = [separator for separator in _SEPARATORS if counts[separator][0] and len(set(counts[separator])) == 1]
    some = [separator for separator in _SEPARATORS if counts[separator][0]]
    return (even or some or [","])[0]


def _is_double_spaced(path: Path, encoding: str | None) -> bool:
    """Whether every other line is empty, as where line ends were written twice."""
    lines = list(islice(read_lines(path, encoding=encoding), 50))
    return len(lines) > 2 and not any(line.strip() for line in lines[1::2])


def _is_header(rows: list[list[str]], *, decimal_comma: bool) -> bool:
    """Whether the first row names the columns: none of its cells is a number or a time, unlike those below."""

    def is_value(cell: str) -> bool:
        return is_stamp(cell) or number_of(cell, decimal_comma=decimal_comma) is not None

    first = rows[0]
    if any(is_value(cell) and not is_missing(cell) for cell in first):
        return False
    for column, name in enumerate(first):
        below = [row[column] for row in rows[1:] if not is_missing(row[column])]
        if name.strip() and (not below or sum(map(is_value, below)) * 2 > len(below)):
            return True
    return False


MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "-", "?", "."})
"""How a missing value is written, in lower case."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity)", re.IGNORECASE | re.ASCII)
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in MISSING


def has_decimal_comma(cell: str) -> bool:
    """Whether a cell is a number such as 3,14."""
    return _COMMA_NUMBER.fullmatch(cell.strip()) is not None


def number_of(cell: str, *, decimal_comma: bool = False) -> float | None:
    """The number in a cell, NaN where it is missing, None where it is something else.

    >>> number_of(" 1.5e3 "), number_of("3,14", decimal_comma=True), number_of("1_000"), number_of("NA")
    (1500.0, 3.14, None, nan)
    """
    text = cell.strip()
    if text.lower() in MISSING:
        return math.nan
    if decimal_comma:
        text = text.replace(",", ".")
    return float(text) if _NUMBER.fullmatch(text) else None


def numbers_of(cells: Sequence[str], *, decimal_comma: bool = False) -> tuple[NDArray[np.float64], int]:
    """The numbers of a column, and the place of the first cell that is none (-1 if all are)."""
    plain = [cell.replace(",", ".") for cell in cells] if decimal_comma else cells
    joined = "".join(plain)
    if joined.isascii() and "_" not in joined:  # float reads digits of all scripts and 1_000, which are no numbers here
        try:
            return np.fromiter(map(float, plain), np.float64, len(plain)), -1
        except ValueError:
            pass
    numbers = np.full(len(cells), np.nan)
    for index, cell in enumerate(cells):
        number = number_of(cell, decimal_comma=decimal_comma)
        if number is None:
            return numbers, index
        numbers[index] = number
    return numbers, -1


def list_names(names: Sequence[str]) -> str:
    """Names in a sentence, the first of many."""
    shown = ", ".join(name or "(no name)" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
