"""Series of numbers for the Forecast panel: built-in ones by name, and tables that were pasted or opened."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from thereafter.data import corpora
from thereafter.errors import FormatError, OptionError, ThereafterError
from thereafter.ready.tasks import READY_TASKS, ReadyForecaster
from thereafter.series.reading import read_series
from thereafter.series.table import ColumnChoice, SeriesTable
from thereafter.series.windows import observed_ends
from thereafter.serving.schema import Answer


class OfferedSeriesAnswer(Answer):
    """A series by name; `seasonal` where its rows have a season. `networks`: ready models that were trained on it."""

    name: str
    title: str
    seasonal: bool
    networks: list[str]


class OfferedAnswer(Answer):
    """`solved`: forecasters that are fitted on the spot, the simplest first."""

    series: list[OfferedSeriesAnswer]
    solved: list[str]


OWN = "own"
"""A table of the visitor's."""
SOLVED = ("naive", "seasonal-naive", "drift", "ar", "linear")
"""Forecasters that are fitted on the spot."""
MOST_ROWS = 4_000
"""Rows of a series that are used: the last ones."""
LEAST_ROWS = 30
_TITLES = {
    "noisy-sine": "noisy sine (generated)",
    "seasonal": "hourly load with two seasons (generated)",
    "mackey-glass": "Mackey-Glass, chaotic (generated)",
    "ett": "electricity transformer, oil temperature (ETTh1)",
}
_SEASONAL = ("seasonal", "ett")
_TARGETS = {"ett": "OT"}
SeriesName = Literal["noisy-sine", "seasonal", "mackey-glass", "ett", "own"]
_KEPT = 16  # series that are kept in memory


@dataclass(frozen=True)
class OpenedSeries:
    """One series of a table, its last rows; `key` is another for another content, and what it is known by."""

    key: str
    table: SeriesTable = field(compare=False)
    notes: tuple[str, ...] = field(compare=False)


def offered_series() -> OfferedAnswer:
    """The series by name that are on this machine, and the forecasters that are fitted on the spot."""
    forecasters = [one for one in READY_TASKS if isinstance(one, ReadyForecaster)]
    rows = [
        OfferedSeriesAnswer(
            name=name,
            title=title,
            seasonal=name in _SEASONAL,
            networks=[f"ready:{one.name}" for one in forecasters if one.series == name],
        )
        for name, title in _TITLES.items()
        if _is_here(name)
    ]
    return OfferedAnswer(series=rows, solved=list(SOLVED))


def open_series(name: str, text: str = "", target: str = "") -> OpenedSeries:
    """A built-in series by name, or the table `text`; of several series in it the first."""
    if name == OWN:
        return _read_text(text, target)
    if not _is_here(name):
        raise OptionError(f"the series {name!r} is not on this machine; pick another one of the list")
    return _read_named(name, target or _TARGETS.get(name, ""))


def _is_here(name: str) -> bool:
    return corpora.card(name).builtin or corpora.status(name).startswith(("found", "in the cache"))


@lru_cache(maxsize=_KEPT)
def _read_named(name: str, target: str) -> OpenedSeries:
    card = corpora.card(name)
    parts = corpora.locate(name, download=False).parts
    return _opened(f"{name} {target}", read_series([parts[card.default_part or "text"]], _columns(target)), name)


@lru_cache(maxsize=_KEPT)
def _read_text(text: str, target: str) -> OpenedSeries:
    if not text.strip():
        raise OptionError("the table is empty; expected rows of times and numbers, such as: 2024-01-01,3.5")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text(text, encoding="utf-8")
        try:
            table = read_series([path], _columns(target))
        except ThereafterError as error:
            raise FormatError(_for_the_page(str(error), path)) from error
    digest = hashlib.sha256(f"{target}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return _opened(digest, table, "the table")


def _for_the_page(sentence: str, path: Path) -> str:
    """A visitor knows the table, not where it was put, and a field of the page, not an option of the shell.

    >>> _for_the_page("a.csv has the columns x, y; expected one; try --target x", Path("a.csv"))
    'the table has the columns x, y; expected one; try the field “Column to forecast”'
    """
    fault, _, remedy = sentence.replace(str(path), "the table").rpartition("; try ")
    if not fault or "--" not in remedy:
        return f"{fault}; try {remedy}" if fault else remedy
    if "--target" in remedy:
        return f"{fault}; try the field “Column to forecast”"
    return f"{fault}; try a table with one column of times, or with none"


def _columns(target: str) -> ColumnChoice:
    return ColumnChoice(target=(target,) if target else ())


def _opened(key: str, table: SeriesTable, source: str) -> OpenedSeries:
    notes = [note for note in table.notes if not note.startswith("not used")]
    if len(table) > 1:
        notes.append(f"of {len(table):,} series the first is shown: {table.names[0]}")
    end = int(observed_ends(table)[0])
    begin = max(0, end - MOST_ROWS)
    if end - begin < LEAST_ROWS:
        raise OptionError(f"the series has {end - begin} rows; expected at least {LEAST_ROWS}; try a longer table")
    if begin:
        notes.append(f"of {end:,} rows the last {end - begin:,} are used")
    offset = int(table.bounds_S1[0])
    rows = slice(offset + begin, offset + end)
    empty = np.empty((end - begin, 0))
    one = replace(
        table,
        source=source,
        names=table.names[:1],
        bounds_S1=np.array([0, end - begin], np.int64),
        times_N=table.times_N[rows],
        values_ND=table.values_ND[rows, :1],
        targets=table.targets[:1],
        past_NP=empty,
        past=(),
        known_NK=empty,
        known=(),
    )
    return OpenedSeries(key, one, tuple(notes))
