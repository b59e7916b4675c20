"""Rows of tsv, csv and jsonl files, each with its line number; and pairs of sentences.

Cells of tsv are taken literally; those of csv are quoted by the rules of Python's csv module and separated by commas
(by semicolons if the first line has those and no comma); jsonl has one object per line, whose keys are the columns.
Blank lines are skipped. Rows of different lengths are an error that names the line.

Pairs (translations, summaries, questions and answers) are tab-separated (`Go.<TAB>Va !`; further columns and blank
lines are ignored), or two files of which line i is the pair of line i. White space around a sentence is removed. A pair
with an empty side is useless for training, and leaving it out silently would change a BLEU score. So it is an error
that names the line.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Never

from thereafter.errors import EmptyCorpusError, FormatError, OptionError, UnknownNameError
from thereafter.text.reading import place, read_lines

Path = str | os.PathLike[str]

_LONGEST_CELL = 1 << 24  # characters; Python's own bound is 131,072, less than a chapter
csv.field_size_limit(max(_LONGEST_CELL, csv.field_size_limit()))

_MOST_EMPTY, _SPARSEST = 1_000_000, 100  # cells of a table of objects, and cells for each value that there is

FORMATS = {"tsv": "tsv", "tab": "tsv", "csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl"}


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: strings, or in jsonl any values of JSON, None if an object lacks a key."""

    line: int
    cells: Sequence[object]


@dataclass(frozen=True)
class TextTable:
    """Rows of the same length; `names` of the columns if the file has them."""

    path: Path
    rows: list[TableRow]
    names: list[str] | None = None
    first_line: int = 1

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.rows[0].cells) if self.rows else len(self.names or ())

    def values(self, column: int) -> list[object]:
        """The values of a column, counted from 0."""
        return [row.cells[column] for row in self.rows]

    def describe_columns(self) -> str:
        """The names of the columns, for an error."""
        if self.names is not None:
            return "there are " + ", ".join(self.names)
        return f"its {self.width} columns have no names" if self.width > 1 else "it has 1 column without a name"


def read_table(
    path: Path, *, format: str | None = None, has_header: Callable[[list[TableRow]], bool], encoding: str | None = None
) -> TextTable:
    """The rows of a file; `has_header` decides whether the first row of a tsv or csv has the names of the columns.

    Without `format` it follows from the ending of the file (before `.gz`), or from the first line.
    """
    if format is not None and format not in FORMATS:
        raise UnknownNameError("format of rows", format, FORMATS)
    kind = FORMATS[format] if format else format_of(path, encoding)
    if kind == "jsonl":
        return _json_table(path, encoding)
    rows = list(stream_rows(path, kind, encoding))
    if not rows:
        return TextTable(path, [])
    first = rows[0]
    if has_header(rows):
        return TextTable(path, rows[1:], [str(cell).strip() for cell in first.cells], first.line)
    return TextTable(path, rows, None, first.line)


def stream_rows(
    path: Path, kind: str, encoding: str | None, advance: Callable[[float], None] | None = None
) -> Iterator[TableRow]:
    """The rows of a tsv or csv one by one, a header among them; all have as many cells as the first."""
    lines = read_lines(path, encoding=encoding, advance=advance)
    first: TableRow | None = None
    tab_rows = (TableRow(number, line.split("\t")) for number, line in enumerate(lines, start=1) if line.strip())
    for row in tab_rows if kind == "tsv" else _csv_rows(path, lines):
        first = first or row
        if len(row.cells) != len(first.cells):
            raise FormatError(
                f"{place(path, row.line)} has {columns(len(row.cells))} and line {first.line} has {len(first.cells)}; "
                "expected the same on every line; is there a separator inside a text?"
            )
        yield row


def columns(number: int) -> str:
    """A number of columns in words.

    >>> columns(1), columns(3)
    ('1 column', '3 columns')
    """
    return "1 column" if number == 1 else f"{number} columns"


def format_of(path: Path, encoding: str | None) -> str:
    """tsv, csv or jsonl, by the ending of a file, or by its first line."""
    suffix = os.path.splitext(os.fspath(path).removesuffix(".gz"))[1].lower().removeprefix(".")
    if suffix in FORMATS:
        return FORMATS[suffix]
    first = next((line for line in read_lines(path, encoding=encoding) if line.strip()), "")
    if first.lstrip().startswith("{"):
        return "jsonl"
    return "csv" if "," in first and "\t" not in first else "tsv"


def _csv_rows(path: Path, lines: Iterator[str]) -> Iterator[TableRow]:
    first = next(lines, "")
    delimiter = ";" if ";" in first and "," not in first else ","
    # strict: a quote that is never closed would otherwise swallow the rest of the file silently
    reader = csv.reader((line + "\n" for line in chain([first], lines)), delimiter=delimiter, strict=True)
    begun = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as fault:
            raise FormatError(
                f"the row at {place(path, begun)} is not csv ({fault}); expected a text with commas or line ends "
                'between double quotes, with "" for a quote inside; or use tsv or jsonl'
            ) from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield TableRow(begun, cells)
        begun = reader.line_num + 1


def _json_table(path: Path, encoding: str | None) -> TextTable:
    objects: list[tuple[int, dict[str, object]]] = []
    for number, line in enumerate(read_lines(path, encoding=encoding), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError) as fault:
            raise FormatError(
                f"{place(path, number)} is not JSON ({fault}); expected one object per line, such as "
                '{"text": "so long", "label": "1"}'
            ) from None
        if not isinstance(value, dict):
            raise FormatError(f"{place(path, number)} is a JSON {type(value).__name__}, expected an object in braces")
        objects.append((number, value))
    names = list(dict.fromkeys(name for _, fields in objects for name in fields))
    if len(names) * len(objects) > _MOST_EMPTY + _SPARSEST * sum(len(fields) for _, fields in objects):
        raise FormatError(
            f"{os.fspath(path)} has {len(objects):,} objects with {len(names):,} different keys, so that nearly all of "
            "the table would be empty; expected the same keys on every line; try one for the text and one for its label"
        )
    rows = [TableRow(number, [fields.get(name) for name in names]) for number, fields in objects]
    return TextTable(path, rows, names, objects[0][0] if objects else 1)


def require_characters(text: str, where: str) -> str:
    """A JSON string unchanged; FormatError if it has half of a surrogate pair, which JSON can encode."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise FormatError(
            f"{where} has a lone surrogate, which is no character; expected Unicode text; remove the row or correct it"
        )
    return text


def _no_constant(constant: str) -> Never:
    raise ValueError(f"{constant} is not a JSON value")


@dataclass(frozen=True)
class SentencePair:
    """A source sentence and its target; `line` is its line in the file.

    >>> SentencePair("Go.", "Va !").target
    'Va !'
    """

    source: str
    target: str
    line: int = field(default=0, compare=False)


def read_pairs(path: Path, *, source: int = 1, target: int = 2) -> list[SentencePair]:
    """The pairs of a tab-separated file; `source` and `target` are columns, counted from 1."""
    if min(source, target) < 1 or source == target:
        raise OptionError(
            f"source is column {source} and target column {target}; expected two different columns, counted from 1"
        )
    return _check_pairs(_pair_rows(path, source - 1, target - 1), os.fspath(path))


def read_two(source: Path, target: Path) -> list[SentencePair]:
    """The pairs of two files, line by line; both have the same number of lines."""
    sources, targets = (list(read_lines(path)) for path in (source, target))
    if len(sources) != len(targets):
        short, lines = (source, len(sources)) if len(sources) < len(targets) else (target, len(targets))
        raise FormatError(
            f"{os.fspath(source)} has {len(sources):,} lines and {os.fspath(target)} {len(targets):,}, expected the "
            f"same number in both; {os.fspath(short)} ends after line {lines}: is it cut short?"
        )
    both = zip(sources, targets, strict=True)
    rows = (SentencePair(text.strip(), other.strip(), line) for line, (text, other) in enumerate(both, start=1))
    return _check_pairs(rows, f"{os.fspath(source)} and {os.fspath(target)}")


def has_tabs(path: Path) -> bool:
    """Whether the first line of a file has two columns."""
    return any("\t" in line for line in islice(filter(str.strip, read_lines(path)), 1))


def _pair_rows(path: Path, source: int, target: int) -> Iterator[SentencePair]:
    needed = max(source, target) + 1
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < needed:
            raise FormatError(
                f"{place(path, number)} has {columns(len(cells))}, expected at least {needed}: a sentence, a tab and "
                "its pair"
            )
        yield SentencePair(cells[source].strip(), cells[target].strip(), number)


def _check_pairs(rows: Iterator[SentencePair], name: str) -> list[SentencePair]:
    pairs = list(rows)
    for pair in pairs:
        if not pair.source or not pair.target:
            side = "target" if pair.source else "source"
            raise FormatError(
                f"{place(name, pair.line)} has an empty {side}, expected words on both sides; correct the line or "
                "remove it"
            )
    if not pairs:
        raise EmptyCorpusError(f"{name} holds no pairs of sentences; expected at least one")
    return pairs
