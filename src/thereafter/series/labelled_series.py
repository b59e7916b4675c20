"""One series of numbers with its label, and which columns of a table hold the series, its label, time and channels.

What is not named by the user is chosen by usual names, and else by content: a time is a column of time stamps, a series
the one column of text that is left, and the channels are all other columns of numbers. Shapes: T steps, C channels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError, nearest
from thereafter.series.columns import TableLayout, is_missing, number_of
from thereafter.series.times import is_stamp
from thereafter.text.labelled import LABEL_NAMES


@dataclass(frozen=True, eq=False)
class LabelledSeries:
    """The values of every step, NaN where one is missing; `label` is empty where it is asked for.

    >>> LabelledSeries(np.array([[1.0], [2.0]]), "up", "a") == LabelledSeries(np.array([[1.0], [2.0]]), "up", "b")
    True
    """

    values_TC: NDArray[np.float64]
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
            f"{where} has no column of labels: it has {_list(layout.names)}; expected one named label; try naming it "
            "(label=COLUMN, --set label=COLUMN)"
        )
    series = _named(layout, given.series, "series", SERIES_NAMES, besides=(label,))
    time = _time(layout, given.time, besides=(label, series))
    left = [at for at in range(layout.width) if at not in (label, series, time)]
    if series < 0:
        words = [at for at in left if not is_numeric(layout, at)]
        if len(words) != 1:
            raise FormatError(
                f"{where} has no column that names the series: it has {_list(layout.names)}; expected one named "
                "series, or the values of a series in one row; try naming it (series=COLUMN, --set series=COLUMN)"
            )
        series = words[0]
    if not given.series and len(layout.sample[series]) > 1 and _all_differ(layout.sample[series]):
        raise FormatError(
            f"{where} has another series in every row, by its column {layout.names[series]!r}; expected several rows "
            "for each; try naming the column (series=COLUMN, --set series=COLUMN)"
        )
    left = [at for at in left if at != series]
    return LongColumns(label, series, time, _channels(layout, given.channels, left))


def wide_columns(layout: TableLayout, given: LabelColumns, least: int) -> tuple[int, tuple[int, ...]] | None:
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
    return label, values


def plain_columns(layout: TableLayout, given: LabelColumns) -> tuple[int, tuple[int, ...]]:
    """The time (-1: none) and the channels of a file that is one series; FormatError where a column is text."""
    time = _time(layout, given.time, besides=())
    return time, _channels(layout, given.channels, [at for at in range(layout.width) if at != time])


def is_numeric(layout: TableLayout, at: int) -> bool:
    """Whether a column has numbers, as far as its first rows say."""
    return all(number_of(cell, decimal_comma=layout.decimal_comma) is not None for cell in layout.sample[at])


def _named(layout: TableLayout, given: str, role: str, usual: Iterable[str], besides: tuple[int, ...] = ()) -> int:
    if given:
        if given not in layout.names:
            raise FormatError(
                f"{os.fspath(layout.path)} has no column {given!r} for the {role}; it has {_list(layout.names)}; "
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
    stamps = [at for at in range(layout.width) if at not in besides and _is_stamps(layout.sample[at])]
    return stamps[0] if len(stamps) == 1 else -1


def _channels(layout: TableLayout, given: tuple[str, ...], left: list[int]) -> tuple[int, ...]:
    if given:
        return tuple(_named(layout, name, "channels", ()) for name in given)
    words = [layout.names[at] for at in left if not is_numeric(layout, at)]
    if words:
        raise FormatError(
            f"{os.fspath(layout.path)} has text in {_list(words)}; expected numbers in every channel; try naming the "
            "channels (channels=a,b, --set channels=a,b)"
        )
    if not left:
        raise FormatError(f"{os.fspath(layout.path)} has no column of numbers for a channel; expected at least one")
    return tuple(left)


def _is_stamps(cells: tuple[str, ...]) -> bool:
    values = [cell for cell in cells if not is_missing(cell)]
    return bool(values) and all(is_stamp(cell) and number_of(cell) is None for cell in values)


def _all_differ(cells: tuple[str, ...]) -> bool:
    return len(set(cells)) == len(cells)


def _list(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:12]) + (f" and {len(listed) - 12} more" if len(listed) > 12 else "")
