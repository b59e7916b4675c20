"""A table with a row for each series and time, as series. Rows of several series may be mixed.

Shapes: N rows, C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError
from thereafter.series.columns import CellBlock, TableLayout, is_missing, numbers_of, table_blocks
from thereafter.series.labelled_series import LabelledSeries, LongColumns
from thereafter.series.times import TEXT_FORMS, StampReader
from thereafter.series.times import form_of as form_of_times
from thereafter.text.reading import place

_SAMPLE = 1_000  # cells by which the form of times is recognised


@dataclass
class _LongRows:
    """All rows of a table, as far as they were read."""

    series: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    lines: list[NDArray[np.int64]] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)

    def add(self, block: CellBlock, chosen: LongColumns, values_NC: NDArray[np.float64]) -> None:
        """One more block of rows."""
        self.series += block.columns[chosen.series]
        self.labels += block.columns[chosen.label] if chosen.label >= 0 else []
        self.times += block.columns[chosen.time] if chosen.time >= 0 else []
        self.lines.append(block.line_N)
        self.values.append(values_NC)


def read_long(layout: TableLayout, chosen: LongColumns, *, every_row: bool = False) -> list[LabelledSeries]:
    """The series of a table in the order of their first rows; with `every_row` each row is one."""
    rows = _LongRows()
    for block in table_blocks(layout):
        rows.add(block, chosen, block_numbers(layout, block, chosen.channels))
    names = tuple(layout.names[at] for at in chosen.channels)
    values_NC, line_N = np.concatenate(rows.values), np.concatenate(rows.lines)
    keys = list(map(str, range(1, len(line_N) + 1))) if every_row else [key.strip() for key in rows.series]
    _require(layout, keys, line_N, "series", chosen.series)
    labels = [label.strip() for label in rows.labels]
    _require(layout, labels, line_N, "label", chosen.label)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    code_N = np.fromiter((numbers[key] for key in keys), np.int64, len(keys))
    order_N = np.argsort(code_N, kind="stable")
    bounds = np.searchsorted(code_N[order_N], np.arange(len(numbers) + 1))
    if rows.times:
        _check_order(layout, chosen, rows.times, line_N, code_N)
    made = []
    for number, key in enumerate(numbers):
        at = order_N[bounds[number] : bounds[number + 1]]
        label = _label_of(layout, key, [labels[row] for row in at], line_N[at]) if labels else ""
        made.append(LabelledSeries(values_NC[at], label, key, names, int(line_N[at[0]])))
    return made


def block_numbers(layout: TableLayout, block: CellBlock, channels: Sequence[int]) -> NDArray[np.float64]:
    """The channels of some rows, [N, C]; FormatError for text and infinities."""
    columns = []
    for at in channels:
        numbers_N, wrong = numbers_of(block.columns[at], decimal_comma=layout.decimal_comma)
        infinite = np.flatnonzero(np.isinf(numbers_N[: wrong if wrong >= 0 else None]))
        wrong = int(infinite[0]) if len(infinite) else wrong
        if wrong >= 0:
            cell = block.columns[at][wrong].strip()[:40]
            raise FormatError(
                f"{place(layout.path, int(block.line_N[wrong]))} has {cell!r} in the channel {layout.names[at]!r}; "
                "expected a number, or an empty cell where it is missing"
            )
        columns.append(numbers_N)
    return np.stack(columns, 1)


def _require(layout: TableLayout, cells: list[str], line_N: NDArray[np.int64], role: str, at: int) -> None:
    """Every row says which series it is of, and its label."""
    for cell, line in zip(cells, line_N, strict=False):
        if is_missing(cell):
            raise FormatError(
                f"{place(layout.path, int(line))} has {cell!r} for the {role} in the column {layout.names[at]!r}; "
                f"expected a {role} in every row"
            )


def _label_of(layout: TableLayout, key: str, labels: list[str], line_T: NDArray[np.int64]) -> str:
    for label, line in zip(labels, line_T, strict=True):
        if label != labels[0]:
            raise FormatError(
                f"{place(layout.path, int(line))} gives the series {key!r} the label {label!r}, and line "
                f"{int(line_T[0])} {labels[0]!r}; expected one label for a whole series; try another column (series=)"
            )
    return labels[0]


def _check_order(
    layout: TableLayout, chosen: LongColumns, cells: list[str], line_N: NDArray[np.int64], code_N: NDArray[np.int64]
) -> None:
    """Times grow within every series: values are read in the order in which they stand."""
    order_N = np.argsort(code_N, kind="stable")
    same_N = np.diff(code_N[order_N]) == 0
    places = []
    for time_N in _times(layout, chosen, cells, line_N):
        wrong = np.flatnonzero(same_N & (np.diff(time_N[order_N]) <= 0))
        if not len(wrong):
            return
        places.append(order_N[wrong[0] + 1])
    at = int(places[0])
    raise FormatError(
        f"{place(layout.path, int(line_N[at]))} has the time {cells[at].strip()!r}, which is not after the row before "
        f"it in its series; expected times that grow; try sorting the table by {layout.names[chosen.series]!r} and "
        f"{layout.names[chosen.time]!r}"
    )


def _times(
    layout: TableLayout, chosen: LongColumns, cells: list[str], line_N: NDArray[np.int64]
) -> list[NDArray[np.float64]]:
    """The times of all rows, in each way in which they can be read."""
    numbers_N, wrong = numbers_of(cells, decimal_comma=layout.decimal_comma)
    if wrong < 0 and not np.isnan(numbers_N).any():
        return [numbers_N]
    form = form_of_times(cells[:_SAMPLE], TEXT_FORMS)
    if form is not None:
        reader = StampReader(form)
        wrong = reader.add(cells)
        if wrong < 0:
            return [reading.time_N.astype(np.float64) for reading in reader.readings() if reading.bad < 0]
    at = max(0, wrong) if wrong >= 0 else int(np.flatnonzero(np.isnan(numbers_N))[0])
    raise FormatError(
        f"{place(layout.path, int(line_N[at]))} has {cells[at].strip()[:40]!r} for the time in the column "
        f"{layout.names[chosen.time]!r}; expected a number or a date in every row, all written alike"
    )
