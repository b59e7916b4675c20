"""How far apart times are, and the grid that they stand on: rows that are missing get their place.

Shapes: N rows of all series together, S series.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.series.frequency import Frequency
from thereafter.series.times import DAY

_MOST_MISSING = 10  # times the rows that are there, where most rows are one step apart
_MOST_THIN = 2  # grid rows for each row, where the step is only the greatest common divisor


@dataclass(frozen=True)
class Spacing:
    """The frequency of a table, and the place of each row within its series, counted in steps from its first row."""

    frequency: Frequency
    place_N: NDArray[np.int64]
    label: str
    """The frequency in words."""


@dataclass(frozen=True)
class UnevenStep:
    """A row that does not stand on the grid: its number, its distance to the row before, and the usual one."""

    row: int
    step: int
    usual: int


def spacing_of(time_N: NDArray[np.int64], bounds_S1: NDArray[np.int64], *, counted: bool) -> Spacing | UnevenStep:
    """The grid of times that rise within each series; `counted`: they are plain numbers, not seconds."""
    steps, rows = _steps(time_N, bounds_S1)
    if not len(steps):
        frequency = Frequency("row" if counted else "D")
        return Spacing(frequency, np.zeros(len(time_N), np.int64), str(frequency))
    usual = _most_common(steps)
    if not counted and usual >= 28 * DAY:
        months = _months(time_N, bounds_S1)
        if months is not None:
            return months
    if not counted and usual == DAY:
        work_days = _work_days(time_N, bounds_S1, steps)
        if work_days is not None:
            return work_days
    step = _step(steps, usual)
    if step is None:
        uneven = int(np.flatnonzero(steps % usual != 0)[0]) if (steps % usual != 0).any() else int(steps.argmax())
        return UnevenStep(int(rows[uneven]), int(steps[uneven]), usual)
    frequency = Frequency("row", step) if counted else _of_seconds(step)
    return Spacing(frequency, _places(time_N, bounds_S1) // step, str(frequency))


def _steps(time_N: NDArray[np.int64], bounds_S1: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distances of rows to the row before in the same series, and the numbers of those rows."""
    inner = np.ones(len(time_N), bool)
    inner[bounds_S1[:-1][bounds_S1[:-1] < len(time_N)]] = False
    rows = np.flatnonzero(inner)
    return time_N[rows] - time_N[rows - 1], rows


def _most_common(steps: NDArray[np.int64]) -> int:
    values, counts = np.unique(steps, return_counts=True)
    return int(values[counts.argmax()])


def _step(steps: NDArray[np.int64], usual: int) -> int | None:
    """The step of the grid: the usual one, or the greatest common divisor if that leaves few gaps."""
    if not (steps % usual).any() and steps.sum() / usual <= _MOST_MISSING * len(steps) + 1000:
        return usual
    divisor = int(np.gcd.reduce(steps))
    return divisor if steps.sum() <= divisor * _MOST_THIN * len(steps) else None


def _places(number_N: NDArray[np.int64], bounds_S1: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distances to the first row of the same series."""
    lengths = np.diff(bounds_S1)
    begins = bounds_S1[:-1][lengths > 0]
    return number_N - np.repeat(number_N[begins], lengths[lengths > 0])


def _of_seconds(step: int) -> Frequency:
    for unit, length in (("W", 7 * DAY), ("D", DAY), ("h", 3600), ("min", 60)):
        if step % length == 0:
            return Frequency(unit, step // length)
    return Frequency("s", step)


def _work_days(time_N: NDArray[np.int64], bounds_S1: NDArray[np.int64], steps: NDArray[np.int64]) -> Spacing | None:
    """The grid of Mondays to Fridays, if there are weeks and never a Saturday or Sunday."""
    day = time_N // DAY
    if ((day + 3) % 7 > 4).any() or (steps % DAY).any() or np.count_nonzero(steps == 3 * DAY) < 2:
        return None
    number = np.busday_count(np.datetime64("1600-01-03"), day.astype("datetime64[D]")).astype(np.int64)
    frequency = Frequency("B")
    return Spacing(frequency, _places(number, bounds_S1), str(frequency))


def _months(time_N: NDArray[np.int64], bounds_S1: NDArray[np.int64]) -> Spacing | None:
    """The grid of months, if the stamps are the same day of their months, the last ones, or first or last work days."""
    stamps = time_N.astype("datetime64[s]")
    month, at = stamps.astype("datetime64[M]"), stamps.astype("datetime64[D]")
    number = month.astype(np.int64)
    steps, _ = _steps(number, bounds_S1)
    if (steps < 1).any() or (time_N % DAY != time_N[0] % DAY).any():
        return None
    step = _step(steps, _most_common(steps))
    if step is None:
        return None
    unit, count = ("Y", step // 12) if step % 12 == 0 else ("M", step)
    day = int((at - month.astype("datetime64[D]")).astype(np.int64).max()) + 1
    patterns = {
        " (last days)": Frequency(unit, count, month_end=True),
        "": Frequency(unit, count, day=day),
        " (last work days)": Frequency(unit, count, month_end=True, work_days=True),
        " (first work days)": Frequency(unit, count, work_days=True),
    }
    fitting = {kind: one for kind, one in patterns.items() if (one.days_of(month) == at).all()}
    if not fitting:
        return None
    kind, frequency = next(iter(fitting.items()))
    label = str(frequency) + ("" if "" in fitting else kind)
    return Spacing(frequency, _places(number, bounds_S1) // step, label)
