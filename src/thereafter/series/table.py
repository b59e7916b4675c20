"""Series of numbers as arrays, one after the other, with their times; windows of them; the calendar as covariates.

A window is rows to read, and the rows after them to forecast. Parts are cut by time. A table is made longer for
forecasts: rows after the last one have no values, and of the covariates what the calendar knows.

Features of the calendar are known ahead: the place in the hour, day, week, month and year as sine and cosine, of what a
frequency makes differ from row to row. Hourly rows have an hour, monthly rows a month alone.

Shapes: N rows of all series together, S series, D targets, P past covariates, K covariates that are known ahead, W
windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.series.times import DAY, Floats, Frequency, Integers, Times


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns of a table are meant; what is left out is chosen from the table and printed.

    `time`: the time stamps; "row" where rows have none. `target`: what is forecast. `series`: the column that names the
    series, for a table with one row for each series and time. `past`: covariates known up to now. `known`: covariates
    known ahead, such as holidays or prices.
    """

    time: str = ""
    target: tuple[str, ...] = ()
    series: str = ""
    past: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeriesTable:
    """Series one after the other: series s is the rows bounds_S1[s] to bounds_S1[s + 1], ordered by time.

    Times of a series are regular: a row that is missing in the file stands here with missing values. A missing
    value is NaN in `values_ND`. Rows at the end of a series may have known covariates and no target: the future.
    """

    source: str
    names: tuple[str, ...]
    bounds_S1: Integers
    times_N: Times
    values_ND: Floats
    targets: tuple[str, ...]
    frequency: Frequency
    past_NP: Floats
    past: tuple[str, ...]
    known_NK: Floats
    known: tuple[str, ...]
    series_column: str = ""
    """The column that names the series, where one does."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """How the table was read, in sentences to print: its time column, frequency, gaps."""
    ends_now: bool = False
    """Whether only what follows its last values is asked for: all its rows are past."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def rows(self) -> int:
        return len(self.values_ND)

    def length(self, series: int) -> int:
        """The rows of a series."""
        return int(self.bounds_S1[series + 1] - self.bounds_S1[series])

    def values(self, series: int) -> Floats:
        """The targets of a series, [T, D]."""
        return self.values_ND[self.bounds_S1[series] : self.bounds_S1[series + 1]]

    def times(self, series: int) -> Times:
        """The times of a series, [T]."""
        return self.times_N[self.bounds_S1[series] : self.bounds_S1[series + 1]]


WHOLE = "100"
"""A split that gives everything to training."""
VALID = 0.1
"""The share of the rows that validates where no split is asked for; a horizon at least."""
AUTO = "auto"
"""The split of a training that asks for none: the last tenth of each series tests, the tenth before it validates. A
series of fewer than 4 such parts has no test."""

MOST_ROWS = 1_000_000
"""That a window may read or forecast."""


class Window(NamedTuple):
    """The place in a table at which a forecast is made: `origin` is the first row of its series to be forecast."""

    table: SeriesTable
    series: int
    origin: int


@dataclass(frozen=True)
class WindowFrame:
    """How windows are cut: rows that are read, rows that are forecast, rows of a season, rows between windows that are
    learned from."""

    lookback: int
    horizon: int
    season: int = 1
    stride: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 1 <= value <= MOST_ROWS:
                raise OptionError(f"{name} is {value}; expected 1 to {MOST_ROWS:,}")

    @property
    def is_seasonal(self) -> bool:
        """Whether a window has a season to repeat."""
        return self.lookback >= self.season > 1


@dataclass(frozen=True, eq=False)
class Windows(Sequence[Window]):
    """Windows of one table, in the order of series and time, made when they are asked for.

    `ends_S3`: the rows of each series at which training, validation and test end.
    """

    table: SeriesTable
    frame: WindowFrame
    ends_S3: Integers
    series_W: NDArray[np.int32]
    origin_W: Integers
    part: str = "all"

    def __len__(self) -> int:
        return len(self.origin_W)

    @overload
    def __getitem__(self, index: int) -> Window: ...
    @overload
    def __getitem__(self, index: slice) -> Windows: ...
    def __getitem__(self, index: int | slice) -> Window | Windows:
        if isinstance(index, slice):
            return replace(self, series_W=self.series_W[index], origin_W=self.origin_W[index])
        return Window(self.table, int(self.series_W[index]), int(self.origin_W[index]))

    def __iter__(self) -> Iterator[Window]:
        for series, origin in zip(self.series_W.tolist(), self.origin_W.tolist(), strict=True):
            yield Window(self.table, series, origin)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Windows):
            return NotImplemented
        same = np.array_equal(self.series_W, other.series_W) and np.array_equal(self.origin_W, other.origin_W)
        values, others = self.table.values_ND, other.table.values_ND
        return same and (values is others or np.array_equal(values, others, equal_nan=True))

    def chosen(self, keep_W: NDArray[np.bool_]) -> Windows:
        """Some of the windows."""
        return replace(self, series_W=self.series_W[keep_W], origin_W=self.origin_W[keep_W])

    def of_part(self, part: str, split: str) -> Windows:
        """The windows whose rows to forecast all lie in a part: "train", "valid", "test", or "all"."""
        return cut_windows(self.table, self.frame, part, split)

    def learned_rows(self, series: int) -> Floats:
        """The rows of a series that may be learned from, [T, D]."""
        return self.table.values(series)[: int(self.ends_S3[series, 0])]


def observed_ends(table: SeriesTable) -> Integers:
    """The row of each series after its last value."""
    seen_N: NDArray[np.bool_] = np.logical_not(np.isnan(table.values_ND).all(1))
    ends = [np.flatnonzero(seen_N[begin:end]) for begin, end in zip(table.bounds_S1, table.bounds_S1[1:], strict=False)]
    return np.array([int(at[-1]) + 1 if len(at) else 0 for at in ends], np.int64)


def split_ends(rows: int, split: str, horizon: int) -> tuple[int, int, int]:
    """Where training, validation and test end among so many rows.

    >>> split_ends(1000, "70/10/20", 24), split_ends(1000, "", 24), split_ends(100, "60/20", 5)
    ((700, 800, 1000), (900, 1000, 1000), (75, 100, 100))
    >>> split_ends(1000, "auto", 24), split_ends(100, "auto", 25), split_ends(100, "auto", 26)
    ((800, 900, 1000), (50, 75, 100), (74, 100, 100))
    """
    if split in ("", AUTO):
        valid = min(rows, max(round(VALID * rows), horizon))
        test = valid if split == AUTO and 4 * valid <= rows else 0
        return rows - test - valid, rows - test, rows
    sizes = _sizes(split)
    total = sum(sizes)
    if total <= 100:  # shares
        train, valid, test = (round(rows * part / max(1, total)) for part in np.cumsum(sizes).tolist())
        return train, valid, test
    if total > rows:
        raise OptionError(f"split is {split!r}, {total:,} rows in all; got {rows:,}; try shares, such as 70/10/20")
    train, valid, test = np.cumsum(sizes).tolist()
    return train, valid, test


def check_split(split: str) -> None:
    """OptionError for a split that leaves no rows to learn from or to validate on, whatever the table."""
    if split in ("", AUTO):
        return
    sizes = _sizes(split)
    for size, use in zip(sizes, ("learn from", "validate on"), strict=False):
        if not size:
            raise OptionError(
                f"split is {split!r}, with no rows to {use}; expected some to learn from and some to validate on, such "
                "as 70/10/20 or 90/10; try leaving it out: the last tenth tests, the one before it validates"
            )


def has_test(split: str) -> bool:
    """Whether a split has rows to test on."""
    return split == AUTO or split.count("/") == 2


def cut_windows(
    table: SeriesTable, frame: WindowFrame, part: str, split: str = "", after_S: Integers | None = None
) -> Windows:
    """The windows of a part of every series.

    A window may look back into earlier parts, never ahead: all rows it forecasts lie in its own part. Training windows
    begin where a whole window can be read, or in the middle of a series that is too short for that; or after so many
    rows of a series (`after_S`, where it is not 0).
    """
    observed_S = observed_ends(table)
    ends_S3 = np.array([split_ends(int(rows), split, frame.horizon) for rows in observed_S], np.int64).reshape(-1, 3)
    series, origins = [], []
    for at in range(len(table)):
        train, valid, test = ends_S3[at].tolist()
        begin, end = {"train": (0, train), "valid": (train, valid), "test": (valid, test)}.get(part, (0, test))
        if part not in ("valid", "test"):
            begin = frame.lookback if frame.lookback + frame.horizon <= end else max(1, min(frame.lookback, end // 2))
        if after_S is not None and after_S[at]:
            begin = int(after_S[at])
        origin_W = np.arange(max(begin, 1), end - frame.horizon + 1, frame.stride if part == "train" else 1)
        origins.append(origin_W)
        series.append(np.full(len(origin_W), at, np.int32))
    empty = [np.empty(0, np.int64)]
    joined = np.concatenate(origins or empty).astype(np.int64)
    return Windows(table, frame, ends_S3, np.concatenate(series or empty).astype(np.int32), joined, part)


def _sizes(split: str) -> list[int]:
    """The three numbers of a split; 0 for a part that it does not name."""
    texts = [text.strip() for text in split.split("/")]
    if not all(text.isascii() and text.isdigit() for text in texts):
        raise OptionError(f"split is {split!r}; expected whole numbers with / between them, such as 70/10/20")
    sizes = [int(text) for text in texts]
    if len(sizes) > 3:
        raise OptionError(f"split is {split!r}; expected two or three parts, such as 70/10/20")
    return sizes + [0] * (3 - len(sizes))


def extend_table(table: SeriesTable, rows: int, *, calendar: bool) -> SeriesTable:
    """The table with so many rows after the last value of every series; `calendar`: its features are known there."""
    more_S = np.maximum(0, rows - (np.diff(table.bounds_S1) - observed_ends(table)))
    more_S[np.diff(table.bounds_S1) == 0] = 0
    if not more_S.any():
        return table
    added = len(calendar_names(table.frequency)) if calendar else 0
    stamps, values, past, known = [], [], [], []
    for at, more in enumerate(more_S.tolist()):
        part = slice(int(table.bounds_S1[at]), int(table.bounds_S1[at + 1]))
        after = table.frequency.after(table.times_N[part][-1], more) if more else table.times_N[:0]
        columns = np.full((more, len(table.known)), np.nan)
        if added:
            columns[:, len(table.known) - added :] = calendar_features(after, table.frequency)
        stamps += [table.times_N[part].astype(np.int64), after.astype(np.int64)]
        values += [table.values_ND[part], np.full((more, len(table.targets)), np.nan)]
        past += [table.past_NP[part], np.full((more, len(table.past)), np.nan)]
        known += [table.known_NK[part], columns]
    times_N = np.concatenate(stamps)
    return replace(
        table,
        bounds_S1=np.concatenate(([0], np.cumsum(np.diff(table.bounds_S1) + more_S))).astype(np.int64),
        times_N=times_N.astype("datetime64[s]") if np.issubdtype(table.times_N.dtype, np.datetime64) else times_N,
        values_ND=np.concatenate(values),
        past_NP=np.concatenate(past),
        known_NK=np.concatenate(known),
    )


_CYCLES = {
    "s": ("minute", "hour", "weekday", "monthday", "yearday"),
    "min": ("minute", "hour", "weekday", "monthday", "yearday"),
    "h": ("hour", "weekday", "monthday", "yearday"),
    "D": ("weekday", "monthday", "yearday"),
    "B": ("weekday", "monthday", "yearday"),
    "W": ("yearday",),
    "M": ("month",),
}
"""By the unit of a frequency; years and counted rows have none."""


def calendar_names(frequency: Frequency) -> tuple[str, ...]:
    """The names of the features of such rows.

    >>> calendar_names(Frequency("M", 1)), calendar_names(Frequency("Y", 1))
    (('month_sin', 'month_cos'), ())
    """
    return tuple(f"{cycle}_{wave}" for cycle in _CYCLES.get(frequency.unit, ()) for wave in ("sin", "cos"))


def calendar_features(times_N: Times, frequency: Frequency) -> Floats:
    """The features of these times, [N, K]: each row is a function of its own time alone."""
    cycles = _CYCLES.get(frequency.unit, ())
    features = np.empty((len(times_N), 2 * len(cycles)))
    for at, cycle in enumerate(cycles):
        angle = 2 * np.pi * _share(np.asarray(times_N, "datetime64[s]"), cycle)
        features[:, 2 * at] = np.sin(angle)
        features[:, 2 * at + 1] = np.cos(angle)
    return features


def _share(times_N: NDArray[np.datetime64], cycle: str) -> Floats:
    """How much of the cycle has gone by, from 0 to 1."""
    second = times_N.astype(np.int64)
    day = second // DAY
    if cycle == "minute":
        return second % 3600 / 3600.0
    if cycle == "hour":
        return second % DAY / DAY
    if cycle == "weekday":
        return (day + 3) % 7 / 7.0  # Monday is 0
    month = times_N.astype("datetime64[M]")
    if cycle == "month":
        return month.astype(np.int64) % 12 / 12.0
    begin, end = month, month + 1
    if cycle == "yearday":
        year = times_N.astype("datetime64[Y]")
        begin, end = year.astype("datetime64[M]"), (year + 1).astype("datetime64[M]")
    first = begin.astype("datetime64[D]").astype(np.int64)
    length = end.astype("datetime64[D]").astype(np.int64) - first
    return (day - first) / length


def thinned(windows: Windows, most: int) -> Windows:
    """At most so many of the windows, evenly chosen."""
    if len(windows) <= most:
        return windows
    keep_W = np.zeros(len(windows), np.bool_)
    keep_W[np.linspace(0, len(windows) - 1, most).round().astype(np.int64)] = True
    return windows.chosen(keep_W)


def end_of(table: SeriesTable, series: int) -> Window:
    """The window whose forecast begins after the last value of a series."""
    return Window(table, series, int(observed_ends(table)[series]))
