"""One column of a table as a text: one row a line, line ends inside a cell become spaces."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice

from thereafter.errors import FormatError, UnknownNameError
from thereafter.text.labelled import TEXT_NAMES, looks_like_header
from thereafter.text.lines import guess_encoding, place, read_lines
from thereafter.text.tables import Path, TableRow, columns, format_of, read_table, require_characters, stream_rows

_PIECE = 1 << 18
_LOOKED_AT = 50  # rows by which a header is recognised


def read_column(
    path: Path, column: str, *, encoding: str | None = None, advance: Callable[[float], None] | None = None
) -> Iterator[str]:
    """The cells of a column in pieces, each cell a line. `column` is a name, or a number from 1 (-1 is the last)."""
    rows, names = _open_table(path, column, encoding, advance)
    return _pieces(_cells(path, rows, column, names))


def read_rows(path: Path, column: str, *, encoding: str | None = None) -> list[dict[str, object]]:
    """All columns of the rows that `read_column` gives a cell of; those without a name are `column_1`, ..."""
    rows, names = _open_table(path, column, encoding)
    return [dict(zip(names or map("column_{}".format, count(1)), row.cells, strict=False)) for row in rows]


def describe_table(path: Path, encoding: str | None = None) -> tuple[str, str]:
    """The columns of a table in words, and `PATH:COLUMN` for the one that seems to hold the text."""
    encoding = encoding or guess_encoding(pathlib.Path(path))
    if (kind := format_of(path, encoding)) == "jsonl":
        line = next((line for line in read_lines(path, encoding=encoding) if line.strip()), "{}")
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        names, rows = (list(record), [TableRow(1, list(record.values()))]) if isinstance(record, dict) else ([], [])
    else:
        rows = list(islice(stream_rows(path, kind, encoding), _LOOKED_AT))
        names = [str(cell).strip() for cell in rows[0].cells] if rows else []
    sizes = [sum(len(cell) for row in rows if isinstance(cell := row.cells[at], str)) for at in range(len(names))]
    longest = max(range(len(names)), key=sizes.__getitem__, default=0)
    if rows and kind != "jsonl" and not looks_like_header(rows) and not all(map(str.isidentifier, names)):
        return f"{columns(len(names))} without names", f"{os.fspath(path)}:{longest + 1}"
    usual = next((name for name in names if name.lower() in TEXT_NAMES), names[longest] if names else "COLUMN")
    return f"the columns {', '.join(names) or '(none)'}", shlex.quote(f"{os.fspath(path)}:{usual}")


def _open_table(
    path: Path, column: str, encoding: str | None, advance: Callable[[float], None] | None = None
) -> tuple[Iterator[TableRow], list[str] | None]:
    """The rows of a table without its header, and the names of its columns, if it has names."""
    encoding = encoding or guess_encoding(pathlib.Path(path))
    kind = format_of(path, encoding)
    if kind == "jsonl":
        table = read_table(path, format="jsonl", has_header=lambda rows: True, encoding=encoding)
        if advance is not None:
            advance(os.path.getsize(path))
        return iter(table.rows), table.names
    rows = stream_rows(path, kind, encoding, advance)
    first = list(islice(rows, _LOOKED_AT))
    names = _header(first, column)
    rows = chain(first[1:] if names is not None else first, rows)
    if names is None and first:
        names = None if _number(column) is not None else [str(cell).strip() for cell in first[0].cells]
    return rows, names


def _header(rows: list[TableRow], column: str) -> list[str] | None:
    """The names in the first row, if it has names."""
    if not rows:
        return None
    names = [str(cell).strip() for cell in rows[0].cells]
    named = _number(column) is None and column.lower() in [name.lower() for name in names]
    return names if named or looks_like_header(rows) else None


def _cells(path: Path, rows: Iterable[TableRow], column: str, names: list[str] | None) -> Iterator[str]:
    at: int | None = None
    for row in rows:
        if at is None:
            at = _place_of(path, row, column, names)
        cell = row.cells[at]
        text = cell if isinstance(cell, str) else "" if cell is None else json.dumps(cell, ensure_ascii=False)
        require_characters(text, place(path, row.line))
        yield text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def _place_of(path: Path, row: TableRow, column: str, names: list[str] | None) -> int:
    """The number of the column, from 0."""
    small = [name.lower() for name in names or ()]
    if names is not None and column in names:
        return names.index(column)
    if column.lower() in small:
        return small.index(column.lower())
    number, width = _number(column), len(row.cells)
    if number is None:
        raise UnknownNameError(f"column of {os.fspath(path)}", column, names or [str(k + 1) for k in range(width)])
    at = number - 1 if number > 0 else width + number
    if number == 0 or not 0 <= at < width:
        listed = "" if names is None else f" ({', '.join(names)})"
        raise FormatError(
            f"{place(path, row.line)} has {columns(width)}{listed}, so column {number} is none of them; "
            f"expected 1 to {width}, or -1 for the last"
        )
    return at


def _number(column: str) -> int | None:
    return int(column) if column.removeprefix("-").isdecimal() else None


def _pieces(cells: Iterable[str]) -> Iterator[str]:
    """Lines in pieces of some hundred thousand characters."""
    lines: list[str] = []
    length = 0
    for cell in cells:
        lines.append(cell + "\n")
        length += len(cell) + 1
        if length >= _PIECE:
            yield "".join(lines)
            lines, length = [], 0
    if lines:
        yield "".join(lines)
