"""How far apart the rows of a series are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError

UNITS = {"row": "row", "s": "second", "min": "minute", "h": "hour", "D": "day", "B": "work day", "W": "week"}
UNITS |= {"M": "month", "Y": "year"}
"""The units of a step, with their names; a quarter is three months, work days are Monday to Friday."""
_SECONDS = {"s": 1, "min": 60, "h": 3600, "D": 86_400, "W": 7 * 86_400}
_MONTHS = {"M": 1, "Y": 12}


@dataclass(frozen=True)
class Frequency:
    """A step of so many units; months and years are those of the calendar. `row`: rows without times, counted.

    Stamps of months and years are all on one `day` of the month (in shorter months the last; 0: the day of the stamp
    that is continued), on the last day (`month_end`), or with `work_days` on the first or last work day.

    >>> str(Frequency("min", 15)), str(Frequency("h", 1))
    ('15 minutes', '1 hour')
    """

    unit: str = "row"
    step: int = 1
    month_end: bool = False
    day: int = 0
    work_days: bool = False

    def __post_init__(self) -> None:
        if self.unit not in UNITS or self.step < 1:
            raise FormatError(f"a frequency is {self.step} {self.unit!r}; expected 1 or more of {', '.join(UNITS)}")
        if not 0 <= self.day <= 31:
            raise FormatError(f"the day of a frequency is {self.day}; expected 1 to 31, or 0 for that of each stamp")

    @property
    def seconds(self) -> int | None:
        """The length of a step; None for work days, months, years and rows, which have none of their own."""
        length = _SECONDS.get(self.unit)
        return None if length is None else length * self.step

    def after(self, time: np.datetime64 | np.int64, steps: int) -> NDArray[np.datetime64] | NDArray[np.int64]:
        """The next so many times.

        >>> Frequency("M", 1).after(np.datetime64("2024-01-01T00:00:00"), 2).astype("datetime64[D]").tolist()
        [datetime.date(2024, 2, 1), datetime.date(2024, 3, 1)]
        """
        ahead = np.arange(1, steps + 1) * self.step
        if self.unit == "row":
            return (int(time) + ahead).astype(np.int64)
        begin = np.array(time, "datetime64[s]")
        if self.unit == "B":
            days = np.busday_offset(begin.astype("datetime64[D]"), ahead, roll="backward")
            second = begin.astype(np.int64) % _SECONDS["D"]
            return np.asarray(days.astype("datetime64[s]").astype(np.int64) + second, "datetime64[s]")
        if self.unit in _SECONDS:
            return (begin.astype(np.int64) + ahead * _SECONDS[self.unit]).astype("datetime64[s]")
        month, clock = begin.astype("datetime64[M]"), begin.astype(np.int64) % _SECONDS["D"]
        months = (month.astype(np.int64) + ahead * _MONTHS[self.unit]).astype("datetime64[M]")
        into = int((begin.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64))  # days, from 0
        days = (self if self.day else replace(self, day=into + 1)).days_of(months)
        return np.asarray(days.astype("datetime64[s]").astype(np.int64) + clock, "datetime64[s]")

    def days_of(self, month_N: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
        """The day of the stamp in each of these months.

        >>> months = np.array(["2024-02", "2024-03"], "datetime64[M]")
        >>> Frequency("M", day=30).days_of(months).tolist()
        [datetime.date(2024, 2, 29), datetime.date(2024, 3, 30)]
        """
        first_N, next_N = month_N.astype("datetime64[D]"), (month_N + 1).astype("datetime64[D]")
        if self.work_days and self.month_end:
            return np.busday_offset(next_N, -1, roll="forward")
        if self.work_days:
            return np.busday_offset(first_N, 0, roll="forward")
        return next_N - 1 if self.month_end else np.minimum(first_N + (self.day - 1), next_N - 1)

    def __str__(self) -> str:
        if self.unit == "M" and self.step == 3:
            return "1 quarter"
        return f"{self.step} {UNITS[self.unit]}{'' if self.step == 1 else 's'}"
