"""Texts with labels: tsv, csv or jsonl (`text/tables.py`), one text per row; and one column of a table as a text.

Which columns? Those with usual names (TEXT_NAMES, LABEL_NAMES). Otherwise, as in sst2's `sentence<TAB>0`, by their
content: the label is the column with the fewest different values (more than one, if there are more than two columns);
the text is the longest of the others. An unclear guess is an error. The first row of a table is a header if one of its
names is usual, or if it has a word above a column of whole numbers. A trained run has its labels: the one column that
has no others is theirs, unless a usual name leads to another such column.

Labels are strings, also in JSON (`1` is "1", `true` is "true"). White space around texts and labels is removed.

A column that is read as a text has one row per line; line ends inside a cell become spaces.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count, islice

from thereafter.errors import EmptyCorpusError, FormatError, UnknownNameError
from thereafter.text.reading import batches, guess_encoding, place, read_lines
from thereafter.text.tables import (
    Path,
    TableRow,
    TextTable,
    columns,
    format_of,
    read_table,
    require_characters,
    stream_rows,
)

TEXT_NAMES = ("text", "sentence", "review", "content", "body", "document", "comment", "tweet", "question", "phrase")
LABEL_NAMES = ("label", "class", "sentiment", "category", "target", "polarity", "labels", "tag", "stars", "rating")
_ENOUGH = 20  # with fewer rows, labels may be mostly different
_FEW = 3  # rows with whole numbers below a word: fewer may be chance


@dataclass(frozen=True)
class LabelledText:
    """A text and its class; `line` is its line in the file.

    >>> LabelledText("a gripping movie", "1").label
    '1'
    """

    text: str
    label: str
    line: int = field(default=0, compare=False)


def read_labelled(path: Path, *, labels: Collection[str] = ()) -> list[LabelledText]:
    """The texts of a file with their labels; `labels` are those of a trained run, by which their column is known."""
    table = read_table(path, has_header=lambda rows: looks_like_header(rows) or _above_labels(rows, labels))
    if not table.rows:
        raise EmptyCorpusError(f"{os.fspath(path)} holds no rows; expected at least one text with a label")
    text_at, label_at = _text_and_label(table, labels)
    return [_labelled_text(table, row, text_at, label_at) for row in table.rows]


def require_known_labels(texts: Iterable[LabelledText], labels: Collection[str], path: Path) -> None:
    """FormatError for the first label that is not among the `labels` of the training data."""
    for text in texts:
        if text.label not in labels:
            raise FormatError(
                f"{place(path, text.line)} has the label {text.label!r}, which the training data never has; "
                f"expected one of {', '.join(sorted(labels))}"
            )


def looks_like_header(rows: list[TableRow]) -> bool:
    """Whether the first row of a table has the names of its columns: usual ones, or a word above whole numbers."""
    for at, cell in enumerate(map(str, rows[0].cells)):
        below = [str(row.cells[at]) for row in rows[1:]]
        name = cell.strip().lower()
        if name in TEXT_NAMES + LABEL_NAMES and cell not in below:  # "review" may be a label, but then it occurs again
            return True
        if name and not _is_whole(cell) and len(below) >= _FEW and all(map(_is_whole, below)):
            return True
    return False


def _above_labels(rows: list[TableRow], labels: Collection[str]) -> bool:
    """Whether the first row has names, one of them above a column of these labels and none of them."""
    if not labels or len(rows) < 2 or not all(str(cell).strip().isidentifier() for cell in rows[0].cells):
        return False
    columns = zip(*(row.cells for row in rows), strict=True)
    return any(_are_labels(below, labels) and not _are_labels([first], labels) for first, *below in columns)


def _are_labels(values: Iterable[object], labels: Collection[str]) -> bool:
    strings = map(_label_string, values)
    return all(value is not None and value.strip() in labels for value in strings)


def _is_whole(cell: str) -> bool:
    return cell.strip().removeprefix("-").isdecimal()


def _number(column: str) -> int | None:
    """The number in the name of a column, such as "2"; None for a real name."""
    return int(column) if column.removeprefix("-").isdecimal() else None


def _text_and_label(table: TextTable, labels: Collection[str]) -> tuple[int, int]:
    """The columns of the texts and the labels, counted from 0."""
    if table.width < 2:
        raise FormatError(
            f"{place(table.path, table.first_line)} has 1 column, expected a text and a label, separated by a tab "
            f"(tsv) or a comma (csv); {table.describe_columns()}"
        )
    text_at, label_at = _usual_column(table, TEXT_NAMES), _usual_column(table, LABEL_NAMES)
    if labels and not (label_at is not None and _are_labels(table.values(label_at), labels)):
        fitting = [at for at in range(table.width) if at != text_at and _are_labels(table.values(at), labels)]
        label_at = fitting[0] if len(fitting) == 1 else label_at
    if label_at is None:
        label_at = _likely_label(table, besides=text_at)
    return (_likely_text(table, besides=label_at) if text_at is None else text_at), label_at


def _usual_column(table: TextTable, usual: tuple[str, ...]) -> int | None:
    """The column with a usual name; None if only its content can tell."""
    places = (_named_column(name, table.names) for name in usual)
    return next((at for at in places if at is not None), None)


def _named_column(column: str, names: list[str] | None) -> int | None:
    """The index of the column of that name, ignoring case; None if there is none."""
    small = [name.lower() for name in names or ()]
    if names is not None and column in names:
        return names.index(column)
    return small.index(column.lower()) if column.lower() in small else None


def _likely_label(table: TextTable, besides: int | None) -> int:
    """The column that looks like labels: it has few different values, and none is missing."""
    kinds: list[tuple[bool, int, float, int]] = []
    for column in range(table.width):
        values = [_label_string(value) for value in table.values(column)]
        if column != besides and all(value is not None and value.strip() for value in values):
            different = len(set(values))
            length = sum(len(value or "") for value in values) / len(values)
            # a column with a single value is the last choice
            alone = different == 1 and len(values) > 1 and table.width > 2
            kinds.append((alone, different, length, -column))  # the shorter of two equals is the label
    kinds.sort()
    hint = f"{table.describe_columns()}; try a first row that names it: label"
    if not kinds or (len(kinds) > 1 and table.width > 2 and kinds[0][:2] == kinds[1][:2]):
        where = place(table.path, table.first_line)
        raise FormatError(f"no column is clearly the label, from {where} on: {hint}")
    _, different, _, at = kinds[0]
    if different > len(table.rows) / 2 and len(table.rows) >= _ENOUGH:
        raise FormatError(
            f"{os.fspath(table.path)} has no column that looks like labels: the likeliest, column {1 - at}, "
            f"has {different:,} different values in {len(table.rows):,} rows; {hint}"
        )
    return -at


def _likely_text(table: TextTable, besides: int) -> int:
    lengths = {
        column: sum(len(value) for value in table.values(column) if isinstance(value, str))
        for column in range(table.width)
        if column != besides
    }
    return max(lengths, key=lambda column: lengths[column])


def _labelled_text(table: TextTable, row: TableRow, text_at: int, label_at: int) -> LabelledText:
    text, label = row.cells[text_at], _label_string(row.cells[label_at])
    where = place(table.path, row.line)
    if not isinstance(text, str) or not text.strip():
        raise FormatError(
            f"{where} has {_describe(text)} for a text in {_column(table, text_at)}; expected words; "
            "remove the row or correct it"
        )
    if label is None or not label.strip():
        raise FormatError(
            f"{where} has {_describe(row.cells[label_at])} for a label in {_column(table, label_at)}; "
            "expected the name of a class"
        )
    require_characters(text + label, where)
    return LabelledText(text.strip(), label.strip(), row.line)


def _label_string(value: object) -> str | None:
    """A label as a string; None if the value cannot be a label."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return None


def _describe(value: object) -> str:
    if value is None:
        return "nothing"
    return "an empty cell" if isinstance(value, str) else f"the {type(value).__name__} {str(value)[:40]}"


def _column(table: TextTable, column: int) -> str:
    return f"column {column + 1}" if table.names is None else f"the column {table.names[column]!r}"


_PIECE = 1 << 18
_LOOKED_AT = 50  # rows by which a header is recognised


def read_column(
    path: Path, column: str, *, encoding: str | None = None, advance: Callable[[float], None] | None = None
) -> Iterator[str]:
    """The cells of a column in pieces, each cell a line. `column` is a name, or a number from 1 (-1 is the last)."""
    rows, names = _open_table(path, column, encoding, advance)
    return map("".join, batches(_lines(path, rows, column, names), _PIECE))


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
    named = _number(column) is None and _named_column(column, names) is not None
    return names if named or looks_like_header(rows) else None


def _lines(path: Path, rows: Iterable[TableRow], column: str, names: list[str] | None) -> Iterator[str]:
    at: int | None = None
    for row in rows:
        if at is None:
            at = _place_of(path, row, column, names)
        cell = row.cells[at]
        text = cell if isinstance(cell, str) else "" if cell is None else json.dumps(cell, ensure_ascii=False)
        require_characters(text, place(path, row.line))
        yield text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ") + "\n"


def _place_of(path: Path, row: TableRow, column: str, names: list[str] | None) -> int:
    """The number of the column, from 0."""
    if (named := _named_column(column, names)) is not None:
        return named
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
