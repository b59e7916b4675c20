"""Times of series: stamps in the forms in which tables have them, how far apart rows are, the grid they stand on.

Stamps become seconds since 1970.

Text: 2016-07, 2016-07-01, 2016-07-01 13:00[:00[.000]] with a T or a space and with or without a zone, with / for -;
1.7.2016, 01/07/2016, 7/1/2016 1:00 PM; 1 Jul 2016, 01-Jul-2016, July 2016, July 1, 2016; 1959Q1, 1959-Q1.
Numbers, where a column is called after a time: years, 20160701, seconds or milliseconds since 1970, or a plain count.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.datetime64] | Integers
"""Seconds since 1970 as datetime64[s], or the numbers of the rows where a table has no times."""

DAY = 86_400
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]0+)?)?)?\s?(?P<half>[AaPp][Mm])?"
_ZONE = r"(?P<zone>\s?(?:Z|UTC|GMT)|\s?[+-]\d\d(?::?\d\d)?)?"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII | re.IGNORECASE)


_PATTERNS = {
    "date": _pattern(
        rf"(?P<year>\d{{4}})(?P<between>[-/.])(?P<month>\d\d?)(?:(?P=between)(?P<day>\d\d?)(?:[ T]{_CLOCK}{_ZONE})?)?"
    ),
    "day first": _pattern(rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{{4}})(?:[ T,]\s?{_CLOCK}{_ZONE})?"),
    "day and month": _pattern(
        rf"(?P<first>\d\d?)(?P<between>[-/])(?P<other>\d\d?)(?P=between)(?P<year>\d{{4}})(?:[ T,]\s?{_CLOCK}{_ZONE})?"
    ),
    "month name": _pattern(rf"(?:(?P<day>\d\d?)[-\s.]\s?)?{_MONTH}[-\s,]\s?(?P<year>\d{{4}})(?:[ T]{_CLOCK}{_ZONE})?"),
    "month name first": _pattern(rf"{_MONTH}[-\s](?P<day>\d\d?),?[-\s]\s?(?P<year>\d{{4}})(?:[ T]{_CLOCK}{_ZONE})?"),
    "quarter": _pattern(r"(?P<year>\d{4})[-\s]?Q(?P<quarter>[1-4])"),
    "year": _pattern(r"(?P<year>\d{4})(?:\.0*)?"),
    "compact": _pattern(r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?:\.0*)?"),
    "seconds": _pattern(r"(?P<count>-?\d{9,10})(?:\.0*)?"),
    "milliseconds": _pattern(r"(?P<count>-?\d{9,10})000(?:\.0*)?"),
    "count": _pattern(r"(?P<count>[+-]?\d{1,17})(?:\.0*)?"),
}
TEXT_FORMS = ("date", "day first", "day and month", "month name", "month name first", "quarter")
"""Forms that are times whatever their column is called."""
NUMBER_FORMS = ("year", "compact", "seconds", "milliseconds", "count")
"""Forms that are times only in a column that is called after a time, or that was named as the time."""
EXAMPLES = "2016-07-01 13:00:00, 2016-07-01, 2016-07, 01/07/2016, 1959Q1 or a year"

_PLAIN = re.compile(r"\d{4}-\d\d(?:-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?)?", re.ASCII)
_SINCE = (1000, 2999)  # years that a table may have


def is_stamp(cell: str) -> bool:
    """Whether a cell is a time whatever its column is called.

    >>> is_stamp("2016-07-01"), is_stamp("1.7.2016"), is_stamp("2016"), is_stamp("1.72")
    (True, True, False, False)
    """
    text = cell.strip()
    return any(_PATTERNS[form].fullmatch(text) for form in TEXT_FORMS)


def form_of(cells: Sequence[str], forms: Sequence[str], share: float = 1.0) -> str | None:
    """The first form that so many of the cells have.

    >>> form_of(["1949-01", "1949-02"], TEXT_FORMS), form_of(["1949", "1950"], NUMBER_FORMS)
    ('date', 'year')
    """
    for form in forms:
        reader = StampReader(form)
        good = sum(reader.parse(cell) is not None for cell in cells)
        if cells and good >= share * len(cells):
            return form
    return None


@dataclass(frozen=True)
class StampReading:
    """The times of a column, read in one way; `bad`: the place of a date that no calendar has, -1 if there is none."""

    way: str
    time_N: Integers
    bad: int = -1


@dataclass
class StampReader:
    """Reads a column of times block by block; `zones` are the time zones in it, "" for a stamp without one."""

    form: str
    zones: dict[str, int] = field(default_factory=dict)
    """The zones by the row in which each stands first."""
    _blocks: list[Integers] = field(default_factory=list)
    _rows: int = 0

    def add(self, cells: Sequence[str]) -> int:
        """Read some cells; the place of the first that is no time of this form, -1 if all are."""
        block = self._quick(cells)
        if block is None:
            block = np.zeros((len(cells), 4), np.int64)
            for index, cell in enumerate(cells):
                parsed = self.parse(cell)
                if parsed is None:
                    return index
                *numbers, zone = parsed
                self.zones.setdefault(zone, self._rows + index)
                block[index] = numbers
            if self.form != "day and month":
                block = _seconds(block) if self.form not in ("seconds", "milliseconds", "count") else block[:, 0].copy()
        else:
            self.zones.setdefault("", self._rows)
        self._blocks.append(block)
        self._rows += len(cells)
        return -1

    def readings(self) -> list[StampReading]:
        """The times of all cells, in each way in which they can be read."""
        if self.form != "day and month":
            return [StampReading("", np.concatenate(self._blocks) if self._blocks else np.zeros(0, np.int64))]
        block = np.concatenate(self._blocks)
        ways = {"day first": block[:, [0, 2, 1, 3]], "month first": block}
        readings = [_calendar_reading(way, numbers) for way, numbers in ways.items()]
        possible = [reading for reading in readings if reading.bad < 0]
        return possible or [max(readings, key=lambda reading: reading.bad)]

    def parse(self, cell: str) -> tuple[int, int, int, int, str] | None:
        """Year, month, day, second of the day and zone; of a count only the first; None if a cell is no such time."""
        match = _PATTERNS[self.form].fullmatch(cell.strip())
        return None if match is None else _PARSERS.get(self.form, _parse_date)(match)

    def _quick(self, cells: Sequence[str]) -> Integers | None:
        """The usual forms, many at once; None where that does not do."""
        if self.form != "date" or not all(map(_PLAIN.fullmatch, cells)):
            return None
        try:
            return np.array(cells, dtype="datetime64[s]").astype(np.int64)
        except ValueError:  # a day that does not exist: which one is asked of `parse`
            return None


def _parse_date(match: re.Match[str]) -> tuple[int, int, int, int, str] | None:
    parts = match.groupdict()
    year = int(parts["year"])
    if parts.get("quarter"):
        month = 3 * int(parts["quarter"]) - 2
    elif parts.get("name"):
        month = 1 + _MONTHS.index(parts["name"][:3].lower())
    else:
        month = int(parts.get("month") or 1)
    day = int(parts.get("day") or 1)
    second = _second_of_day(parts)
    if second is None or not _SINCE[0] <= year <= _SINCE[1] or not 1 <= month <= 12:
        return None
    if not 1 <= day <= monthrange(year, month)[1]:
        return None
    return year, month, day, second, _zone(parts)


def _parse_day_and_month(match: re.Match[str]) -> tuple[int, int, int, int, str] | None:
    """Both numbers as they stand: which of them is the day is decided over the whole column."""
    parts = match.groupdict()
    first, other, year = int(parts["first"]), int(parts["other"]), int(parts["year"])
    second = _second_of_day(parts)
    if second is None or not _SINCE[0] <= year <= _SINCE[1] or not (1 <= first <= 31 and 1 <= other <= 31):
        return None
    if first > 12 and other > 12:
        return None
    return year, first, other, second, _zone(parts)


def _parse_count(match: re.Match[str]) -> tuple[int, int, int, int, str]:
    return int(match["count"]), 0, 0, 0, ""


_PARSERS: dict[str, Callable[[re.Match[str]], tuple[int, int, int, int, str] | None]] = {
    "day and month": _parse_day_and_month,
    **dict.fromkeys(("seconds", "milliseconds", "count"), _parse_count),
}


def _second_of_day(parts: dict[str, str | None]) -> int | None:
    hour, half = int(parts.get("hour") or 0), (parts.get("half") or "").lower()
    minute, second = int(parts.get("minute") or 0), int(parts.get("second") or 0)
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return 3600 * hour + 60 * minute + second


def _zone(parts: dict[str, str | None]) -> str:
    zone = (parts.get("zone") or "").strip().upper()
    if zone in ("Z", "UTC", "GMT", "+00", "+0000", "+00:00", "-00:00"):
        return "UTC"
    return f"{zone[:3]}:{zone[3:].removeprefix(':') or '00'}" if zone else ""


def _seconds(block_N4: Integers) -> Integers:
    """Year, month, day and second of the day as seconds since 1970."""
    month = (block_N4[:, 0] - 1970) * 12 + block_N4[:, 1] - 1
    begin = month.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64)
    return begin + (block_N4[:, 2] - 1) * DAY + block_N4[:, 3]


def _calendar_reading(way: str, block_N4: Integers) -> StampReading:
    """The times of these dates, if all of them exist."""
    month = block_N4[:, 1]
    bad = np.flatnonzero(month > 12)
    if not len(bad):
        begin = ((block_N4[:, 0] - 1970) * 12 + month - 1).astype("datetime64[M]")
        days = ((begin + 1).astype("datetime64[D]") - begin.astype("datetime64[D]")).astype(np.int64)
        bad = np.flatnonzero(block_N4[:, 2] > days)
    if len(bad):
        return StampReading(way, np.zeros(0, np.int64), int(bad[0]))
    return StampReading(way, _seconds(block_N4))


UNITS = {"row": "row", "s": "second", "min": "minute", "h": "hour", "D": "day", "B": "work day", "W": "week"}
UNITS |= {"M": "month", "Y": "year"}
"""The units of a step, with their names; a quarter is three months, work days are Monday to Friday."""
_SECONDS = {"s": 1, "min": 60, "h": 3600, "D": DAY, "W": 7 * DAY}


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

    def after(self, time: np.datetime64 | np.int64, steps: int) -> NDArray[np.datetime64] | Integers:
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
            second = begin.astype(np.int64) % DAY
            return np.asarray(days.astype("datetime64[s]").astype(np.int64) + second, "datetime64[s]")
        if self.unit in _SECONDS:
            return (begin.astype(np.int64) + ahead * _SECONDS[self.unit]).astype("datetime64[s]")
        month, clock = begin.astype("datetime64[M]"), begin.astype(np.int64) % DAY
        months = (month.astype(np.int64) + ahead * (12 if self.unit == "Y" else 1)).astype("datetime64[M]")
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


_MOST_MISSING = 10  # times the rows that are there, where most rows are one step apart
_MOST_THIN = 2  # grid rows for each row, where the step is only the greatest common divisor


@dataclass(frozen=True)
class Spacing:
    """The frequency of a table, and the place of each row within its series, counted in steps from its first row."""

    frequency: Frequency
    place_N: Integers
    label: str
    """The frequency in words."""


@dataclass(frozen=True)
class UnevenStep:
    """A row that does not stand on the grid: its number, its distance to the row before, and the usual one."""

    row: int
    step: int
    usual: int


def spacing_of(time_N: Integers, bounds_S1: Integers, *, counted: bool) -> Spacing | UnevenStep:
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


def _steps(time_N: Integers, bounds_S1: Integers) -> tuple[Integers, Integers]:
    """The distances of rows to the row before in the same series, and the numbers of those rows."""
    inner = np.ones(len(time_N), bool)
    inner[bounds_S1[:-1][bounds_S1[:-1] < len(time_N)]] = False
    rows = np.flatnonzero(inner)
    return time_N[rows] - time_N[rows - 1], rows


def _most_common(steps: Integers) -> int:
    values, counts = np.unique(steps, return_counts=True)
    return int(values[counts.argmax()])


def _step(steps: Integers, usual: int) -> int | None:
    """The step of the grid: the usual one, or the greatest common divisor if that leaves few gaps."""
    if not (steps % usual).any() and steps.sum() / usual <= _MOST_MISSING * len(steps) + 1000:
        return usual
    divisor = int(np.gcd.reduce(steps))
    return divisor if steps.sum() <= divisor * _MOST_THIN * len(steps) else None


def _places(number_N: Integers, bounds_S1: Integers) -> Integers:
    """Distances to the first row of the same series."""
    lengths = np.diff(bounds_S1)
    begins = bounds_S1[:-1][lengths > 0]
    return number_N - np.repeat(number_N[begins], lengths[lengths > 0])


def _of_seconds(step: int) -> Frequency:
    for unit, length in (("W", 7 * DAY), ("D", DAY), ("h", 3600), ("min", 60)):
        if step % length == 0:
            return Frequency(unit, step // length)
    return Frequency("s", step)


def _work_days(time_N: Integers, bounds_S1: Integers, steps: Integers) -> Spacing | None:
    """The grid of Mondays to Fridays, if there are weeks and never a Saturday or Sunday."""
    day = time_N // DAY
    if ((day + 3) % 7 > 4).any() or (steps % DAY).any() or np.count_nonzero(steps == 3 * DAY) < 2:
        return None
    number = np.busday_count(np.datetime64("1600-01-03"), day.astype("datetime64[D]")).astype(np.int64)
    frequency = Frequency("B")
    return Spacing(frequency, _places(number, bounds_S1), str(frequency))


def _months(time_N: Integers, bounds_S1: Integers) -> Spacing | None:
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
