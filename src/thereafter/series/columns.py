"""Tables as columns of cells: CSV by commas, semicolons, tabs or bars, plain or gzip, in blocks of rows.

A table may be larger than memory: a block is all that is ever in it. The first rows say how the table is written.
Cells become numbers: missing ones, and those with a decimal point or comma. Which column is what is named by the user,
or chosen by the first rows of the table.
"""

from __future__ import annotations

import csv
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from pathlib import Path

import numpy as np

from thereafter.errors import FormatError, OptionError, SourceError, UnknownNameError
from thereafter.series.table import ColumnChoice
from thereafter.series.times import EXAMPLES, NUMBER_FORMS, TEXT_FORMS, Floats, Integers, form_of, is_stamp
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

    line_N: Integers
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
    text = read_lines(path, encoding=encoding)
    first_lines = list(islice(text, 50))
    separator = _separator(first_lines)
    lines, rows = next(_row_blocks(path, chain(first_lines, text), separator, _SAMPLE), ([], []))
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
    text = read_lines(layout.path, encoding=layout.encoding, advance=advance)
    counts_lines = width == 1 and not _is_double_spaced(layout)
    for lines, rows in _row_blocks(layout.path, text, layout.separator, _BLOCK, width, counts_lines):
        _check_width(layout.path, lines, rows, layout.width)
        begin, is_first = (1 if is_first else 0), False
        if len(rows) > begin:
            yield CellBlock(np.array(lines[begin:], np.int64), list(zip(*rows[begin:], strict=True)))


def _row_blocks(
    path: Path, text: Iterable[str], separator: str, size: int, width: int = 0, counts_lines: bool = False
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Rows with their line numbers; rows without any content are left out.

    With a `width` those between other rows stay, as so many empty cells. `counts_lines`: an empty line is such a row.
    """
    empty_lines: list[int] = []  # rows without content, until a row with content follows
    begun = False
    # strict: a quote that is never closed would otherwise swallow the rest of the file
    reader = csv.reader((line + "\n" for line in text), delimiter=separator, strict=True)
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


def _separator(first_lines: list[str]) -> str:
    """The first of tab, semicolon, comma and bar that stands in each of the first lines equally often, or at all."""
    lines = [line for line in first_lines if line.strip()]
    if not lines or max(map(len, lines)) > _LONGEST_LINE_LOOKED_AT:
        return "," if not lines or "," in lines[0] else "\t"
    counts = {separator: [line.count(separator) for line in lines] for separator in _SEPARATORS}
    even = [separator for separator in _SEPARATORS if counts[separator][0] and len(set(counts[separator])) == 1]
    some = [separator for separator in _SEPARATORS if counts[separator][0]]
    return (even or some or [","])[0]


def _is_double_spaced(layout: TableLayout) -> bool:
    """Whether every other line of a single column is empty, as where line ends were written twice."""
    lines = list(islice(read_lines(layout.path, encoding=layout.encoding), 50))
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


def numbers_of(cells: Sequence[str], *, decimal_comma: bool = False) -> tuple[Floats, int]:
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


def block_numbers(layout: TableLayout, block: CellBlock, columns: Sequence[int]) -> Floats:
    """Some columns of a block, [N, C]; FormatError with the line of a cell that is text or infinite."""
    numbers_NC = np.empty((len(block.line_N), len(columns)))
    for at, column in enumerate(columns):
        numbers_NC[:, at], wrong = numbers_of(block.columns[column], decimal_comma=layout.decimal_comma)
        infinite = np.flatnonzero(np.isinf(numbers_NC[: wrong if wrong >= 0 else None, at]))
        wrong = int(infinite[0]) if len(infinite) else wrong
        if wrong >= 0:
            raise FormatError(
                f"{place(layout.path, int(block.line_N[wrong]))} has {block.columns[column][wrong].strip()[:40]!r} in "
                f"the column {layout.names[column]!r}; expected a finite number such as 3.14, or an empty cell where "
                "it is missing; try mending that cell"
            )
    return numbers_NC


def series_values(given: object, expected: str) -> Floats:
    """A series that a user hands over, [T, C]: an array, a list of numbers, or a text; OptionError for all else.

    In a text, numbers have spaces or commas between them, and steps of several channels ;.

    >>> series_values("1 2 3", "numbers").shape, series_values("1 2; 3 4; 5 6", "numbers").shape
    ((3, 1), (3, 2))
    """
    shown = repr(given)
    wrong = OptionError(f"a series is {shown if len(shown) < 60 else shown[:57] + '...'}; expected {expected}")
    if isinstance(given, str):
        rows = [row.replace(",", " ").split() for row in given.split(";") if row.strip()]
        values, odd = numbers_of([cell for row in rows for cell in row])
        if not rows or odd >= 0 or len(set(map(len, rows))) > 1:
            raise wrong
        values = values.reshape(len(rows), -1) if len(rows) > 1 else values
    else:
        try:
            values = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            raise wrong from None
    values_TC = values[:, None] if values.ndim == 1 else values
    if values_TC.ndim != 2 or not values_TC.size or np.isinf(values_TC).any():
        remedy = "; try list(array) for several series" if values.ndim > 2 else ""
        raise OptionError(
            f"a series is an array of the shape {list(values.shape)}; expected finite numbers, [steps] or [steps, "
            f"channels], with at least one step: {expected}{remedy}"
        )
    return values_TC


def list_names(names: Sequence[str]) -> str:
    """Names in a sentence, the first of many."""
    shown = ", ".join(name or "(no name)" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


ROW = "row"
"""The name of the time column of a table whose rows are counted."""

_TIMELY = {"date", "datetime", "time", "timestamp", "ds", "day", "week", "month", "quarter", "year", "period", "epoch"}
_TIMELY |= {"utc", "unix"}
_COUNTED = {"", "t", "row", "rows", "index", "step", "unnamed: 0"}
_MOST = 0.5  # of the cells that are there: the others are errors with their lines


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of a table by number, from 0. `perhaps_series`: a text column, which names series if times repeat."""

    time: int | None
    form: str
    targets: tuple[int, ...]
    series: int | None
    perhaps_series: int | None
    past: tuple[int, ...]
    known: tuple[int, ...]
    unused: tuple[str, ...]


def choose_columns(layout: TableLayout, choice: ColumnChoice) -> ChosenColumns:
    """The columns that were named, and those that the table leaves no doubt about."""
    series = _place_of(layout, choice.series, "series") if choice.series else None
    past = tuple(_place_of(layout, name, "past covariate") for name in choice.past)
    known = tuple(_place_of(layout, name, "known covariate") for name in choice.known)
    targets = tuple(_place_of(layout, name, "target") for name in choice.target)
    kinds = [_kind(layout, column) for column in range(layout.width)]

    def free(kind: str) -> list[int]:
        """The columns of a kind that are nothing else."""
        return [k for k in range(layout.width) if kinds[k] == kind and k not in taken]

    taken = {*targets, *past, *known, *([] if series is None else [series])}
    time, form = _time(layout, choice, free)
    taken |= set() if time is None else {time}
    texts = free("text")
    if time is None and texts and series is None and choice.time != ROW:
        raise _no_time(layout, kinds)
    targets = targets or (_target(layout, free("numbers"), kinds),)
    roles = [*targets, *past, *known, *(k for k in (series, time) if k is not None)]
    twice = next((k for k in roles if roles.count(k) > 1), None)
    if twice is not None:
        raise OptionError(
            f"the column {layout.names[twice]!r} is named twice; expected one role for each column: time, series, "
            "target, past or known; try leaving one of them out"
        )
    perhaps = texts[0] if series is None and len(texts) == 1 and time is not None else None
    unused = tuple(layout.names[k] for k in range(layout.width) if k not in roles and k != perhaps)
    return ChosenColumns(time, form, targets, series, perhaps, past, known, unused)


def _place_of(layout: TableLayout, name: str, role: str) -> int:
    """The number of a column, from 0, by its name, its name in other case, or its number from 1 (-1 is the last)."""
    same = [k for k, other in enumerate(layout.names) if other == name]
    same = same or [k for k, other in enumerate(layout.names) if other.lower() == name.strip().lower()]
    if len(same) > 1:
        raise FormatError(
            f"{os.fspath(layout.path)} has {len(same)} columns called {name!r}; expected one; try its number, "
            f"such as {same[0] + 1}, or other names"
        )
    if same:
        return same[0]
    if re.fullmatch(r"-?\d{1,6}", name, re.ASCII):
        number = int(name)
        place = number - 1 if number > 0 else layout.width + number
        if number and 0 <= place < layout.width:
            return place
    if not layout.has_header:
        raise OptionError(
            f"{os.fspath(layout.path)} has no column {name!r}: its first line has no names; expected the number of "
            f"the {role}, 1 to {layout.width}"
        )
    raise UnknownNameError(f"column of {os.fspath(layout.path)}", name, [one for one in layout.names if one])


def _kind(layout: TableLayout, column: int) -> str:
    """numbers, times, text or empty."""
    cells = [cell for cell in layout.sample[column] if not is_missing(cell)]
    if not cells:
        return "empty"
    good = sum(number_of(cell, decimal_comma=layout.decimal_comma) is not None for cell in cells)
    if good > len(cells) / 2:
        return "numbers"
    return "times" if form_of(cells, TEXT_FORMS, _MOST) else "text"


def _time(layout: TableLayout, choice: ColumnChoice, free: Callable[[str], list[int]]) -> tuple[int | None, str]:
    """The column of the times and the form that they have; None where rows are to be counted."""
    if choice.time == ROW and ROW not in layout.names:
        return None, ""
    if choice.time:
        column = _place_of(layout, choice.time, "time")
        return column, _form_of_named(layout, column)
    times = free("times") or [k for k in free("numbers") if _is_number_time(layout, k, free("text"))]
    if len(times) > 1:
        names = [layout.names[k] for k in times]
        first = names[0] or str(times[0] + 1)
        raise FormatError(
            f"{os.fspath(layout.path)} has {len(times)} columns that could be the time ({list_names(names)}); "
            f"expected one; try {both_ways('time', first)}"
        )
    if not times:
        return None, ""
    return times[0], _form_of_named(layout, times[0])


def _form_of_named(layout: TableLayout, column: int) -> str:
    """The form of the times in a column that is the time."""
    cells = [cell for cell in layout.sample[column] if not is_missing(cell)]
    name = layout.names[column]
    number_forms = NUMBER_FORMS[::-1] if _is_counted(name) else NUMBER_FORMS
    form = form_of(cells, TEXT_FORMS, _MOST) or form_of(cells, number_forms, _MOST)
    if form is None:
        odd = next((cell for cell in cells if form_of([cell], (*TEXT_FORMS, *NUMBER_FORMS)) is None), "nothing")
        raise FormatError(
            f"the time column {name!r} of {os.fspath(layout.path)} has {odd.strip()[:40]!r}; expected time stamps such "
            f"as {EXAMPLES}; try writing them so, or --time row (time='row'), which counts the rows"
        )
    return form


def _is_counted(name: str) -> bool:
    return name.strip().lower() in _COUNTED


def _is_number_time(layout: TableLayout, column: int, texts: list[int]) -> bool:
    """Whether a column of whole numbers is a time: called so, and rising, at least where text columns do not change."""
    name = layout.names[column].strip()
    words = set(re.split(r"[^a-z]+", name.lower()))
    if not (layout.has_header and (words & _TIMELY or _is_counted(name))):
        return False
    cells = layout.sample[column]
    if form_of(cells, NUMBER_FORMS) is None:
        return False
    numbers = [int(float(cell)) for cell in cells]
    labels = list(zip(*(layout.sample[k] for k in texts), strict=True)) if texts else [()] * len(numbers)
    steps = zip(numbers, numbers[1:], labels, labels[1:], strict=False)
    return all(before < after or label != other for before, after, label, other in steps)


def _target(layout: TableLayout, numbers: list[int], kinds: list[str]) -> int:
    if len(numbers) == 1:
        return numbers[0]
    path = os.fspath(layout.path)
    if not numbers:
        described = ", ".join(f"{layout.names[k] or '(no name)'} ({kinds[k]})" for k in range(min(layout.width, SHOWN)))
        raise FormatError(
            f"{path} has no column of numbers to forecast: its columns are {described}; expected numbers such as "
            "3.14; try --target COLUMN"
        )
    names = [layout.names[k] or str(k + 1) for k in numbers]
    raise FormatError(
        f"{path} has {len(names)} columns of numbers ({list_names(names)}); expected the name of the target; try "
        f"{both_ways('target', names[-1])}, or several: --target {shlex.quote(f'{names[0]},{names[-1]}')}"
    )


def both_ways(option: str, name: str) -> str:
    """A column's name as an option of a command, quoted where a shell needs it, and as an argument in Python."""
    return f"--{option} {shlex.quote(name)} ({option}={name!r})"


def _no_time(layout: TableLayout, kinds: list[str]) -> FormatError:
    described = []
    for k in range(min(layout.width, SHOWN)):
        example = next((cell.strip()[:20] for cell in layout.sample[k] if not is_missing(cell)), "")
        described.append(f"{layout.names[k] or '(no name)'} ({kinds[k]}, {example!r})")
    return FormatError(
        f"{os.fspath(layout.path)} has no column of times: its columns are {', '.join(described)}; expected time "
        f"stamps such as {EXAMPLES}; try --time COLUMN, or --time row (time='row'), which counts the rows"
    )
