"""Which column of a table is what: named by the user, or chosen by its first rows."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from thereafter.errors import FormatError, OptionError, UnknownNameError
from thereafter.series.columns import TableLayout, is_missing, number_of
from thereafter.series.table import ColumnChoice
from thereafter.series.times import EXAMPLES, NUMBER_FORMS, TEXT_FORMS, form_of

ROW = "row"
"""The name of the time column of a table whose rows are counted."""

_TIMELY = {"date", "datetime", "time", "timestamp", "ds", "day", "week", "month", "quarter", "year", "period", "epoch"}
_TIMELY |= {"utc", "unix"}
_COUNTED = {"", "t", "row", "rows", "index", "step", "unnamed: 0"}
_MOST = 0.5  # of the cells that are there: the others are errors with their lines
_SHOWN = 12  # names of columns in an error


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of a table by number, from 0. `perhaps_series`: a text column, which names series if times repeat."""

    time: int | None
    form: str
    targets: tuple[int, ...]
    series: int | None
    perhaps_series: int | None
    past: tuple[int, ...]
    known: tuple[int, ...]
    unused: tuple[str, ...]


def choose_columns(layout: TableLayout, choice: ColumnChoice) -> ChosenColumns:
    """The columns that were named, and those that the table leaves no doubt about."""
    series = _place_of(layout, choice.series, "series") if choice.series else None
    past = tuple(_place_of(layout, name, "past covariate") for name in choice.past)
    known = tuple(_place_of(layout, name, "known covariate") for name in choice.known)
    targets = tuple(_place_of(layout, name, "target") for name in choice.target)
    kinds = [_kind(layout, column) for column in range(layout.width)]
    taken = {*targets, *past, *known, *([] if series is None else [series])}
    time, form = _time(layout, choice, kinds, taken)
    taken |= set() if time is None else {time}
    texts = [k for k in range(layout.width) if kinds[k] == "text" and k not in taken]
    if time is None and texts and series is None and choice.time != ROW:
        raise _no_time(layout, kinds)
    if not targets:
        targets = (
            _target(layout, [k for k in range(layout.width) if kinds[k] == "numbers" and k not in taken], kinds),
        )
    roles = [*targets, *past, *known, *(k for k in (series, time) if k is not None)]
    twice = next((k for k in roles if roles.count(k) > 1), None)
    if twice is not None:
        raise OptionError(
            f"the column {layout.names[twice]!r} is named twice; expected one role for each column: time, series, "
            "target, past or known; try leaving one of them out"
        )
    perhaps = texts[0] if series is None and len(texts) == 1 and time is not None else None
    unused = tuple(layout.names[k] for k in range(layout.width) if k not in roles and k != perhaps)
    return ChosenColumns(time, form, targets, series, perhaps, past, known, unused)


def list_names(names: Sequence[str]) -> str:
    """Names in a sentence, the first of many."""
    shown = ", ".join(name or "(no name)" for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _place_of(layout: TableLayout, name: str, role: str) -> int:
    """The number of a column, from 0, by its name, its name in other case, or its number from 1 (-1 is the last)."""
    same = [k for k, other in enumerate(layout.names) if other == name]
    same = same or [k for k, other in enumerate(layout.names) if other.lower() == name.strip().lower()]
    if len(same) > 1:
        raise FormatError(
            f"{os.fspath(layout.path)} has {len(same)} columns called {name!r}; expected one; try its number, "
            f"such as {same[0] + 1}, or other names"
        )
    if same:
        return same[0]
    if re.fullmatch(r"-?\d{1,6}", name, re.ASCII):
        number = int(name)
        place = number - 1 if number > 0 else layout.width + number
        if number and 0 <= place < layout.width:
            return place
    if not layout.has_header:
        raise OptionError(
            f"{os.fspath(layout.path)} has no column {name!r}: its first line has no names; expected the number of "
            f"the {role}, 1 to {layout.width}"
        )
    raise UnknownNameError(f"column of {os.fspath(layout.path)}", name, [one for one in layout.names if one])


def _kind(layout: TableLayout, column: int) -> str:
    """numbers, times, text or empty."""
    cells = [cell for cell in layout.sample[column] if not is_missing(cell)]
    if not cells:
        return "empty"
    good = sum(number_of(cell, decimal_comma=layout.decimal_comma) is not None for cell in cells)
    if good > len(cells) / 2:
        return "numbers"
    return "times" if form_of(cells, TEXT_FORMS, _MOST) else "text"


def _time(layout: TableLayout, choice: ColumnChoice, kinds: list[str], taken: set[int]) -> tuple[int | None, str]:
    """The column of the times and the form that they have; None where rows are to be counted."""
    if choice.time == ROW and ROW not in layout.names:
        return None, ""
    if choice.time:
        column = _place_of(layout, choice.time, "time")
        return column, _form_of_named(layout, column)
    times = [k for k in range(layout.width) if kinds[k] == "times" and k not in taken]
    if not times:
        text = [k for k in range(layout.width) if kinds[k] == "text" and k not in taken]
        numbers = [k for k in range(layout.width) if kinds[k] == "numbers" and k not in taken]
        times = [k for k in numbers if _is_number_time(layout, k, text)]
    if len(times) > 1:
        names = [layout.names[k] for k in times]
        first = names[0] or str(times[0] + 1)
        raise FormatError(
            f"{os.fspath(layout.path)} has {len(times)} columns that could be the time ({list_names(names)}); "
            f"expected one; try {both_ways('time', first)}"
        )
    if not times:
        return None, ""
    return times[0], _form_of_named(layout, times[0])


def _form_of_named(layout: TableLayout, column: int) -> str:
    """The form of the times in a column that is the time."""
    cells = [cell for cell in layout.sample[column] if not is_missing(cell)]
    name = layout.names[column]
    number_forms = NUMBER_FORMS[::-1] if _is_counted(name) else NUMBER_FORMS
    form = form_of(cells, TEXT_FORMS, _MOST) or form_of(cells, number_forms, _MOST)
    if form is None:
        odd = next((cell for cell in cells if form_of([cell], (*TEXT_FORMS, *NUMBER_FORMS)) is None), "nothing")
        raise FormatError(
            f"the time column {name!r} of {os.fspath(layout.path)} has {odd.strip()[:40]!r}; expected time stamps such "
            f"as {EXAMPLES}; try writing them so, or --time row (time='row'), which counts the rows"
        )
    return form


def _is_counted(name: str) -> bool:
    return name.strip().lower() in _COUNTED


def _is_number_time(layout: TableLayout, column: int, texts: list[int]) -> bool:
    """Whether a column of whole numbers is a time: called so, and rising, at least where text columns do not change."""
    name = layout.names[column].strip()
    words = set(re.split(r"[^a-z]+", name.lower()))
    if not (layout.has_header and (words & _TIMELY or _is_counted(name))):
        return False
    cells = layout.sample[column]
    if form_of(cells, NUMBER_FORMS) is None:
        return False
    numbers = [int(float(cell)) for cell in cells]
    labels = list(zip(*(layout.sample[k] for k in texts), strict=True)) if texts else [()] * len(numbers)
    steps = zip(numbers, numbers[1:], labels, labels[1:], strict=False)
    return all(before < after or label != other for before, after, label, other in steps)


def _target(layout: TableLayout, numbers: list[int], kinds: list[str]) -> int:
    if len(numbers) == 1:
        return numbers[0]
    path = os.fspath(layout.path)
    if not numbers:
        described = ", ".join(
            f"{layout.names[k] or '(no name)'} ({kinds[k]})" for k in range(min(layout.width, _SHOWN))
        )
        raise FormatError(
            f"{path} has no column of numbers to forecast: its columns are {described}; expected numbers such as "
            "3.14; try --target COLUMN"
        )
    names = [layout.names[k] or str(k + 1) for k in numbers]
    raise FormatError(
        f"{path} has {len(names)} columns of numbers ({list_names(names)}); expected the name of the target; try "
        f"{both_ways('target', names[-1])}, or several: --target {shlex.quote(f'{names[0]},{names[-1]}')}"
    )


def both_ways(option: str, name: str) -> str:
    """A column's name as an option of a command, quoted where a shell needs it, and as an argument in Python."""
    return f"--{option} {shlex.quote(name)} ({option}={name!r})"


def _no_time(layout: TableLayout, kinds: list[str]) -> FormatError:
    described = []
    for k in range(min(layout.width, _SHOWN)):
        example = next((cell.strip()[:20] for cell in layout.sample[k] if not is_missing(cell)), "")
        described.append(f"{layout.names[k] or '(no name)'} ({kinds[k]}, {example!r})")
    return FormatError(
        f"{os.fspath(layout.path)} has no column of times: its columns are {', '.join(described)}; expected time "
        f"stamps such as {EXAMPLES}; try --time COLUMN, or --time row (time='row'), which counts the rows"
    )
