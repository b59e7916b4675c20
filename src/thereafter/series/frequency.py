"""How far apart the rows of a series are."""

from __future__ import annotations

from dataclasses import dataclass

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

    `month_end`: the stamps are the last days of their months.

    >>> str(Frequency("min", 15)), str(Frequency("h", 1))
    ('15 minutes', '1 hour')
    """

    unit: str = "row"
    step: int = 1
    month_end: bool = False

    def __post_init__(self) -> None:
        if self.unit not in UNITS or self.step < 1:
            raise FormatError(f"a frequency is {self.step} {self.unit!r}; expected 1 or more of {', '.join(UNITS)}")

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
        month = begin.astype("datetime64[M]")
        months = (month.astype(np.int64) + ahead * _MONTHS[self.unit]).astype("datetime64[M]")
        firsts, nexts = (one.astype("datetime64[s]").astype(np.int64) for one in (months, months + 1))
        into = int(begin.astype(np.int64) - month.astype("datetime64[s]").astype(np.int64))  # seconds within the month
        if self.month_end:
            return (nexts - _SECONDS["D"] + into % _SECONDS["D"]).astype("datetime64[s]")
        day, clock = divmod(into, _SECONDS["D"])
        last = nexts - _SECONDS["D"]  # the 31st is the 30th in a short month
        return np.asarray(np.minimum(firsts + day * _SECONDS["D"], last) + clock, "datetime64[s]")

    def __str__(self) -> str:
        if self.unit == "M" and self.step == 3:
            return "1 quarter"
        return f"{self.step} {UNITS[self.unit]}{'' if self.step == 1 else 's'}"
