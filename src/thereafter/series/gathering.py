"""Columns of one or several tables as arrays, block by block: times, names of series, numbers.

Which column is what is named by the user, or chosen by the first rows of the table.

Shapes: N rows of all files together, C columns of numbers, F files.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import FormatError, OptionError, UnknownNameError
from thereafter.series.columns import (
    SHOWN,
    CellBlock,
    TableLayout,
    is_missing,
    list_names,
    number_of,
    numbers_of,
    table_blocks,
    table_layout,
)
from thereafter.series.table import ColumnChoice
from thereafter.series.times import EXAMPLES, NUMBER_FORMS, TEXT_FORMS, StampReader, StampReading, form_of
from thereafter.text.reading import place

_MOST_SERIES = 200_000


@dataclass(frozen=True)
class GatheredRows:
    """The rows of all files in the order in which they stand there. `readings`: the times in each possible way; empty
    where rows have none. `code_N`: the series of each row, by its place in `labels`; None without such a column.
    `name`: that of a single series, its targets: the same whatever its file is called."""

    name: str
    paths: tuple[Path, ...]
    begin_F1: NDArray[np.int64]
    line_N: NDArray[np.int64]
    readings: tuple[StampReading, ...]
    form: str
    zones: dict[str, int]
    code_N: NDArray[np.int64] | None
    labels: tuple[str, ...]
    number_NC: NDArray[np.float64]

    @property
    def rows(self) -> int:
        return len(self.line_N)

    def place(self, row: int) -> str:
        """The line of a row, in words."""
        file = int(np.searchsorted(self.begin_F1, row, side="right")) - 1
        return place(self.paths[file], int(self.line_N[row]))


def gather_rows(paths: Sequence[Path], choice: ColumnChoice) -> tuple[GatheredRows, TableLayout, ChosenColumns]:
    """Read the columns that were named or chosen; the layout and the choice are those of the first file."""
    given = (choice.time, choice.series, *choice.target, *choice.past, *choice.known)
    words = [name for name in given if name and not name.lstrip("-").isdecimal()]
    layout = table_layout(paths[0], words)
    columns = choose_columns(layout, choice)
    collector = _Collector(layout, columns)
    with progress.task("reading the table", total=sum(map(os.path.getsize, paths)), unit="bytes") as advance:
        for number, path in enumerate(paths):
            here, chosen = layout, columns
            if number:
                here = table_layout(path, words)
                chosen = _same_columns(here, layout, columns)
            collector.begin()
            counted = chosen.time is None and chosen.series is None
            for block in table_blocks(here, advance, counted=counted):
                collector.add(here, chosen, block)
    return collector.gathered(tuple(paths)), layout, columns


def _same_columns(here: TableLayout, first: TableLayout, columns: ChosenColumns) -> ChosenColumns:
    """The columns of another file that have the names of those in the first."""

    def at(column: int) -> int:
        if here.has_header != first.has_header or (not here.has_header and here.width != first.width):
            raise FormatError(
                f"{os.fspath(here.path)} is not laid out as {os.fspath(first.path)}: only one of them has names, or "
                "they have different numbers of columns; expected the same columns in all files"
            )
        if first.names[column] not in here.names:
            raise FormatError(
                f"{os.fspath(here.path)} has no column {first.names[column]!r} as {os.fspath(first.path)} has; "
                f"expected the same columns in all files; it has {', '.join(here.names)}"
            )
        return here.names.index(first.names[column])

    def perhaps(column: int | None) -> int | None:
        return None if column is None else at(column)

    return replace(
        columns,
        time=perhaps(columns.time),
        series=perhaps(columns.series),
        perhaps_series=perhaps(columns.perhaps_series),
        targets=tuple(map(at, columns.targets)),
        past=tuple(map(at, columns.past)),
        known=tuple(map(at, columns.known)),
    )


class _Collector:
    """Takes blocks of cells and keeps arrays."""

    def __init__(self, layout: TableLayout, columns: ChosenColumns) -> None:
        self._name = ", ".join(layout.names[column] for column in columns.targets)
        self._stamps = StampReader(columns.form) if columns.time is not None else None
        self._codes: dict[str, int] = {}
        self._keeps_codes = columns.series is not None or columns.perhaps_series is not None
        self._begins: list[int] = []
        self._rows = 0
        self._line_blocks: list[NDArray[np.int64]] = []
        self._code_blocks: list[NDArray[np.int64]] = []
        self._number_blocks: list[NDArray[np.float64]] = []

    def begin(self) -> None:
        """The next file begins."""
        self._begins.append(self._rows)

    def add(self, layout: TableLayout, columns: ChosenColumns, block: CellBlock) -> None:
        if self._stamps is not None and columns.time is not None:
            self._add_times(layout, columns.time, self._stamps, block)
        if self._keeps_codes:
            self._add_codes(layout, columns, block)
        wanted = (*columns.targets, *columns.past, *columns.known)
        numbers = np.empty((len(block.line_N), len(wanted)))
        for at, column in enumerate(wanted):
            numbers[:, at] = _numbers(layout, column, block)
        self._number_blocks.append(numbers)
        self._line_blocks.append(block.line_N)
        self._rows += len(block.line_N)

    def gathered(self, paths: tuple[Path, ...]) -> GatheredRows:
        """All blocks as one."""
        codes = np.concatenate(self._code_blocks) if self._keeps_codes and self._code_blocks else None
        numbers = np.concatenate(self._number_blocks)
        self._number_blocks.clear()
        return GatheredRows(
            self._name,
            paths,
            np.array([*self._begins, self._rows], np.int64),
            np.concatenate(self._line_blocks),
            () if self._stamps is None else tuple(self._stamps.readings()),
            "" if self._stamps is None else self._stamps.form,
            {} if self._stamps is None else self._stamps.zones,
            codes,
            tuple(self._codes),
            numbers,
        )

    def _add_times(self, layout: TableLayout, column: int, stamps: StampReader, block: CellBlock) -> None:
        cells = block.columns[column]
        bad = stamps.add(cells)
        if bad < 0:
            return
        where, cell = place(layout.path, int(block.line_N[bad])), cells[bad].strip()
        got = "no time" if is_missing(cell) else f"the time {cell[:40]!r}"
        raise FormatError(
            f"{where} has {got} in the column {layout.names[column]!r}; expected a time stamp as in the other rows "
            f"({layout.sample[column][0].strip()[:40]!r}), such as {EXAMPLES}; try mending or leaving out that row"
        )

    def _add_codes(self, layout: TableLayout, columns: ChosenColumns, block: CellBlock) -> None:
        column = columns.perhaps_series if columns.series is None else columns.series
        if column is None:
            return
        cells = [cell.strip() for cell in block.columns[column]]
        if columns.series is not None and "" in cells:
            where = place(layout.path, int(block.line_N[cells.index("")]))
            raise FormatError(
                f"{where} has an empty cell in the column {layout.names[column]!r}; expected the name of a series in "
                "every row; try filling it in"
            )
        codes = self._codes
        self._code_blocks.append(np.array([codes.setdefault(cell, len(codes)) for cell in cells], np.int64))
        if len(codes) > _MOST_SERIES:
            if columns.series is not None:
                raise FormatError(
                    f"the column {layout.names[column]!r} of {os.fspath(layout.path)} names more than "
                    f"{_MOST_SERIES:,} series; expected fewer; is it the right column?"
                )
            self._keeps_codes = False
            self._code_blocks.clear()
            self._codes.clear()


def _numbers(layout: TableLayout, column: int, block: CellBlock) -> NDArray[np.float64]:
    """The numbers of a column; FormatError with the line of a cell that is text or infinite."""
    cells = block.columns[column]
    numbers, bad = numbers_of(cells, decimal_comma=layout.decimal_comma)
    name = layout.names[column]
    if bad >= 0:
        raise FormatError(
            f"{place(layout.path, int(block.line_N[bad]))} has {cells[bad].strip()[:40]!r} in the column {name!r}; "
            "expected a number such as 3.14, or an empty cell where it is missing; try mending that cell"
        )
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        at = int(infinite[0])
        raise FormatError(
            f"{place(layout.path, int(block.line_N[at]))} has {cells[at].strip()[:40]!r} in the column {name!r}, which "
            "is infinite; expected a finite number; try an empty cell, which counts as missing"
        )
    return numbers


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
