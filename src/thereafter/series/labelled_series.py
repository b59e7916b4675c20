"""Series of numbers with a label each: one of them, those of a table with a row for each series and time, a question.

In a table, columns hold the series, its label, time and channels; rows of several series may be mixed. What is not
named by the user is chosen by usual names, and else by content: a time is a column of time stamps, a series the one
column of text that is left, and the channels are all other columns of numbers. For `predict` a user hands over an
array, a list of numbers or a line of text. Shapes: N rows, T steps, C channels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np

from thereafter.errors import FormatError, OptionError, nearest
from thereafter.series import columns as sheet
from thereafter.series.columns import CellBlock, TableLayout, list_names
from thereafter.series.times import TEXT_FORMS, Floats, Integers, StampReader, is_stamp
from thereafter.series.times import form_of as form_of_times
from thereafter.text.labelled import LABEL_NAMES
from thereafter.text.reading import place


@dataclass(frozen=True, eq=False)
class LabelledSeries:
    """The values of every step, NaN where one is missing; `label` is empty where it is asked for.

    >>> LabelledSeries(np.array([[1.0], [2.0]]), "up", "a") == LabelledSeries(np.array([[1.0], [2.0]]), "up", "b")
    True
    """

    values_TC: Floats
    label: str = ""
    name: str = ""
    channels: tuple[str, ...] = ("value",)
    line: int = 0
    """Where it begins in its file; 0 where it is a file of its own."""

    def __len__(self) -> int:
        return len(self.values_TC)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LabelledSeries)
            and self.label == other.label
            and self.channels == other.channels
            and np.array_equal(self.values_TC, other.values_TC, equal_nan=True)
        )

    def __hash__(self) -> int:
        return hash((self.label, self.values_TC.tobytes()))

    def asked(self) -> LabelledSeries:
        """The same without its label."""
        return replace(self, label="")

    def flat(self) -> LabelledSeries:
        """One row of many columns as the steps of one channel, up to the last value."""
        values_T = self.values_TC.reshape(-1)
        seen = np.flatnonzero(~np.isnan(values_T))
        end = int(seen[-1]) + 1 if len(seen) else len(values_T)
        return replace(self, values_TC=values_T[:end, None], channels=("value",))


SERIES_NAMES = ("series", "series_id", "id", "unique_id", "case", "case_id", "sample", "sequence", "item_id", "name")
_COUNTED = re.compile(r"\d$")
TIME_NAMES = ("time", "timestamp", "date", "datetime", "ds", "step", "t", "index", "dim_t", "row")


@dataclass(frozen=True)
class LabelColumns:
    """The columns that a user names; empty ones are chosen."""

    label: str = ""
    series: str = ""
    time: str = ""
    channels: tuple[str, ...] = ()


@dataclass(frozen=True)
class LongColumns:
    """The places of the columns, counted from 0; `label` and `time` are -1 where there is none."""

    label: int
    series: int
    time: int
    channels: tuple[int, ...]


def long_columns(layout: TableLayout, given: LabelColumns, *, labelled: bool = True) -> LongColumns:
    """The columns of a table with a row for each series and time; FormatError where they cannot be told."""
    where = os.fspath(layout.path)
    if not layout.has_header:
        raise FormatError(
            f"{where} has no names above its {layout.width} columns; expected columns such as series, time, value, "
            "label; or one row per series, the label first; try adding a line of names"
        )
    label = _named(layout, given.label, "label", LABEL_NAMES)
    if label < 0 and labelled:
        raise FormatError(
            f"{where} has no column of labels: it has {list_names(layout.names)}; expected one named label; try naming "
            "it (label=COLUMN, --set label=COLUMN)"
        )
    series = _named(layout, given.series, "series", SERIES_NAMES, besides=(label,))
    time = _time(layout, given.time, besides=(label, series))
    left = [at for at in range(layout.width) if at not in (label, series, time)]
    if series < 0:
        words = [at for at in left if not is_numeric(layout, at)]
        if len(words) != 1:
            raise FormatError(
                f"{where} has no column that names the series: it has {list_names(layout.names)}; expected one named "
                "series, or the values of a series in one row; try naming it (series=COLUMN, --set series=COLUMN)"
            )
        series = words[0]
    if (
        not given.series
        and len(layout.sample[series]) > 1
        and len(set(layout.sample[series])) == len(layout.sample[series])
    ):
        raise FormatError(
            f"{where} has another series in every row, by its column {layout.names[series]!r}; expected several rows "
            "for each; try naming the column (series=COLUMN, --set series=COLUMN)"
        )
    left = [at for at in left if at != series]
    return LongColumns(label, series, time, _channels(layout, given.channels, left))


def wide_columns(layout: TableLayout, given: LabelColumns, least: int) -> LongColumns | None:
    """The label and the values of a table with a series in every row, under names that are counted (v1, v2, ...).

    None where it is no such table.
    """
    if not layout.has_header or given.series or given.channels:
        return None
    label = _named(layout, given.label, "label", LABEL_NAMES)
    values = tuple(at for at in range(layout.width) if at != label)
    counted = all(_COUNTED.search(layout.names[at]) for at in values)
    if label < 0 or len(values) < least or not counted or not all(is_numeric(layout, at) for at in values):
        return None
    return LongColumns(label, label, -1, values)


def plain_columns(layout: TableLayout, given: LabelColumns) -> tuple[int, tuple[int, ...]]:
    """The time (-1: none) and the channels of a file that is one series; FormatError where a column is text."""
    time = _time(layout, given.time, besides=())
    return time, _channels(layout, given.channels, [at for at in range(layout.width) if at != time])


def is_numeric(layout: TableLayout, at: int) -> bool:
    """Whether a column has numbers, as far as its first rows say."""
    return all(sheet.number_of(cell, decimal_comma=layout.decimal_comma) is not None for cell in layout.sample[at])


def _named(layout: TableLayout, given: str, role: str, usual: Iterable[str], besides: tuple[int, ...] = ()) -> int:
    if given:
        if given not in layout.names:
            raise FormatError(
                f"{os.fspath(layout.path)} has no column {given!r} for the {role}; it has {list_names(layout.names)}; "
                f"{nearest(given, list(layout.names))}"
            )
        return layout.names.index(given)
    names = [name.lower() for name in layout.names]
    return next((names.index(name) for name in usual if name in names and names.index(name) not in besides), -1)


def _time(layout: TableLayout, given: str, besides: tuple[int, ...]) -> int:
    usual = TIME_NAMES if layout.has_header else ()
    time = _named(layout, given, "time", usual, besides)
    if time >= 0:
        return time
    stamps = []
    for at, cells in enumerate(layout.sample):
        values = [cell for cell in cells if not sheet.is_missing(cell)]
        if at not in besides and values and all(is_stamp(cell) and sheet.number_of(cell) is None for cell in values):
            stamps.append(at)
    return stamps[0] if len(stamps) == 1 else -1


def _channels(layout: TableLayout, given: tuple[str, ...], left: list[int]) -> tuple[int, ...]:
    if given:
        return tuple(_named(layout, name, "channels", ()) for name in given)
    words = [layout.names[at] for at in left if not is_numeric(layout, at)]
    if words:
        raise FormatError(
            f"{os.fspath(layout.path)} has text in {list_names(words)}; expected numbers in every channel; try naming "
            "the channels (channels=a,b, --set channels=a,b)"
        )
    if not left:
        raise FormatError(f"{os.fspath(layout.path)} has no column of numbers for a channel; expected at least one")
    return tuple(left)


_SAMPLE = 1_000  # cells by which the form of times is recognised


@dataclass
class _LongRows:
    """All rows of a table, as far as they were read."""

    series: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    lines: list[Integers] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)

    def add(self, block: CellBlock, chosen: LongColumns, values_NC: Floats) -> None:
        """One more block of rows."""
        self.series += block.columns[chosen.series]
        self.labels += block.columns[chosen.label] if chosen.label >= 0 else []
        self.times += block.columns[chosen.time] if chosen.time >= 0 else []
        self.lines.append(block.line_N)
        self.values.append(values_NC)


def read_long(layout: TableLayout, chosen: LongColumns, *, every_row: bool = False) -> list[LabelledSeries]:
    """The series of a table in the order of their first rows; with `every_row` each row is one."""
    rows = _LongRows()
    for block in sheet.table_blocks(layout):
        rows.add(block, chosen, sheet.block_numbers(layout, block, chosen.channels))
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


def _require(layout: TableLayout, cells: list[str], line_N: Integers, role: str, at: int) -> None:
    """Every row says which series it is of, and its label."""
    for cell, line in zip(cells, line_N, strict=False):
        if sheet.is_missing(cell):
            raise FormatError(
                f"{place(layout.path, int(line))} has {cell!r} for the {role} in the column {layout.names[at]!r}; "
                f"expected a {role} in every row"
            )


def _label_of(layout: TableLayout, key: str, labels: list[str], line_T: Integers) -> str:
    for label, line in zip(labels, line_T, strict=True):
        if label != labels[0]:
            raise FormatError(
                f"{place(layout.path, int(line))} gives the series {key!r} the label {label!r}, and line "
                f"{int(line_T[0])} {labels[0]!r}; expected one label for a whole series; try another column (series=)"
            )
    return labels[0]


def _check_order(
    layout: TableLayout, chosen: LongColumns, cells: list[str], line_N: Integers, code_N: Integers
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


def _times(layout: TableLayout, chosen: LongColumns, cells: list[str], line_N: Integers) -> list[Floats]:
    """The times of all rows, in each way in which they can be read."""
    numbers_N, wrong = sheet.numbers_of(cells, decimal_comma=layout.decimal_comma)
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


_EXAMPLE = "a numpy array [steps] or [steps, channels], a list of numbers, or text such as '0.1 0.2 0.3'"


def is_one_series(given: object) -> bool:
    """Whether a user hands over one series: anything but a list, or a list of numbers, in which None is missing."""
    if not isinstance(given, list | tuple):
        return True
    return bool(given) and all(one is None or (isinstance(one, Real) and not isinstance(one, bool)) for one in given)


def series_of(given: object) -> LabelledSeries:
    """A series without a label: see `columns.series_values`; of a `LabelledSeries` its label is ignored."""
    if isinstance(given, LabelledSeries):
        return given.asked()
    values_TC = sheet.series_values(given, _EXAMPLE)
    if np.isnan(values_TC).all():
        raise OptionError(
            f"the series to classify has {values_TC.size:,} missing values and no number; expected {_EXAMPLE}"
        )
    names = ("value",) if values_TC.shape[1] == 1 else tuple(str(k + 1) for k in range(values_TC.shape[1]))
    return LabelledSeries(values_TC, channels=names)


def with_channels(one: LabelledSeries, names: Sequence[str]) -> LabelledSeries:
    """The series with its channels in this order; those without names of their own are taken as they come."""
    if one.channels == tuple(names):
        return one
    count = len(one.channels)
    if count == len(names) and (count == 1 or all(name.isdecimal() for name in one.channels)):
        return replace(one, channels=tuple(names))
    if set(names) <= set(one.channels):
        places = [one.channels.index(name) for name in names]
        return replace(one, values_TC=one.values_TC[:, places], channels=tuple(names))
    series = f"the series {one.name!r}" if one.name else "the series"
    raise OptionError(
        f"{series} has {_spelled_channels(one.channels)}; expected {_spelled_channels(names)}, as the training series "
        "had; try a numpy array [steps, channels], or text with ; between the steps"
    )


def _spelled_channels(names: Sequence[str]) -> str:
    return f"the {'channel' if len(names) == 1 else 'channels'} {', '.join(names)}"
