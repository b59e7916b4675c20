"""The calendar as numbers that are known ahead: the place in the hour, day, week, month and year as sine and cosine.

Only what a frequency makes differ from row to row: hourly rows have an hour, monthly rows a month alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.series.frequency import Frequency
from thereafter.series.table import Times
from thereafter.series.times import DAY

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


def calendar_features(times_N: Times, frequency: Frequency) -> NDArray[np.float64]:
    """The features of these times, [N, K]: each row is a function of its own time alone."""
    cycles = _CYCLES.get(frequency.unit, ())
    features = np.empty((len(times_N), 2 * len(cycles)))
    for at, cycle in enumerate(cycles):
        angle = 2 * np.pi * _share(np.asarray(times_N, "datetime64[s]"), cycle)
        features[:, 2 * at] = np.sin(angle)
        features[:, 2 * at + 1] = np.cos(angle)
    return features


def _share(times_N: NDArray[np.datetime64], cycle: str) -> NDArray[np.float64]:
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
