"""The chosen columns of one or several tables as arrays, block by block: times, names of series, numbers.

Shapes: N rows of all files together, C columns of numbers, F files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import FormatError
from thereafter.series.choosing import ChosenColumns, choose_columns
from thereafter.series.columns import CellBlock, TableLayout, is_missing, numbers_of, table_blocks, table_layout
from thereafter.series.table import ColumnChoice
from thereafter.series.times import EXAMPLES, StampReader, StampReading
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
