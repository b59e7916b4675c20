"""What a user hands over as a table: a source of files, a data frame of pandas or polars, an array, some numbers.

What is in memory is written to a file once, so that all else reads a table; numbers are written exactly. Neither
package is imported: a frame is known by the module of its type. A few numbers alone are one series without times.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from datetime import time as clock_time
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.data.files import AnySource, Files, Parts, Spool
from thereafter.errors import OptionError, ThereafterError
from thereafter.series.columns import series_values
from thereafter.series.table import SeriesTable
from thereafter.series.times import Frequency, is_stamp

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

AnyTable: TypeAlias = "AnySource | NDArray[np.generic] | pd.DataFrame | pd.Series | pl.DataFrame | pl.Series"
"""A source of data, or a table in memory."""


@contextmanager
def naming(source: AnySource) -> Iterator[None]:
    """Errors inside name a table in memory by what it is, and not by the temporary file it was written to."""
    try:
        yield
    except ThereafterError as error:
        if isinstance(source, Files) and source.name in IN_MEMORY:
            text = str(error)
            for path in source.files:
                text = text.replace(os.fspath(path), source.name)
            error.args = (text,)
        raise


def as_source(table: AnyTable) -> AnySource:
    """Files as they are; a table in memory is written to a temporary file, which lives as long as what is returned."""
    if isinstance(table, str | os.PathLike | Files | Parts):
        return table
    if isinstance(table, Sequence):
        return list(table)
    return spool_frame(table)


_BLOCK = 20_000  # rows
IN_MEMORY = ("the array", "the data frame")
"""What tables in memory are called."""


_Column: TypeAlias = "NDArray[np.generic] | pl.Series"


def spool_frame(source: object) -> Files:
    """The rows as a temporary table, which lives as long as the files that are returned.

    The index of a pandas frame becomes a column if it has times or names; times without a name are called `time`. A
    numpy array has rows of times, [T] or [T, D]; its columns are `value`, or x1, x2, ...
    """
    name = IN_MEMORY[0] if isinstance(source, np.ndarray) else IN_MEMORY[1]
    columns = _columns(source)
    rows = len(columns[0][1]) if columns else 0
    clocks = [clock_of(_listed(values)) if any(map(is_zoned, _listed(values[:1]))) else "" for _, values in columns]

    def written() -> Iterator[str]:
        yield _lines([[name for name, _ in columns]])
        for begin in range(0, rows, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            cells = [cells_of(values[part], clock) for (_, values), clock in zip(columns, clocks, strict=True)]
            advance(len(cells[0]))
            yield _lines(zip(*cells, strict=True))

    with progress.task("writing the table", total=rows, unit="rows") as advance:
        spool = Spool.of_text(written(), name, ".csv")
    return Files(name, (spool.path,), spools=(spool,))


def _kind(source: object) -> tuple[str, str] | None:
    """The package and the name of the type a frame has or inherits from; None for all else."""
    for kind in type(source).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in ("pandas", "polars") and kind.__name__ in ("DataFrame", "Series"):
            return package, kind.__name__
    return None


def _columns(source: Any) -> list[tuple[str, _Column]]:
    """The columns of a table with their names."""
    if isinstance(source, np.ndarray):
        return _array_columns(source)
    match _kind(source):
        case "pandas", "Series":
            return _pandas_columns(source.to_frame("value" if source.name is None else source.name))
        case "pandas", _:
            return _pandas_columns(source)
        case "polars", kind:
            frame = source.to_frame() if kind == "Series" else source
            return [(_column_name(name or "value", ()), frame.get_column(name)) for name in frame.columns]
    raise OptionError(
        f"a table is a data frame of pandas or polars or an array of numpy, got {type(source).__name__}; try a path"
    )


def _array_columns(array: NDArray[np.generic]) -> list[tuple[str, _Column]]:
    if array.ndim not in (1, 2) or not array.size or array.dtype.kind not in "fiub":
        raise OptionError(
            f"the array has shape {list(array.shape)} and holds {array.dtype}; expected numbers, [T] or [T, D] with a "
            "row for each time"
        )
    columns = array.reshape(len(array), -1).T
    names = ["value"] if len(columns) == 1 else [f"x{k + 1}" for k in range(len(columns))]
    return list(zip(names, columns, strict=True))


def _pandas_columns(frame: pd.DataFrame) -> list[tuple[str, _Column]]:
    index, columns = frame.index, list[tuple[str, _Column]]()
    for level, label in enumerate(index.names):
        if _is_column(index, level):
            taken = [*(name for name, _ in columns), *map(str, frame.columns)]
            name = _column_name("time" if label is None else label, taken)
            columns.append((name, index.get_level_values(level).to_numpy()))
    return columns + [(_column_name(name, ()), frame.iloc[:, k].to_numpy()) for k, name in enumerate(frame.columns)]


def _is_column(index: pd.Index, level: int) -> bool:
    """Whether labels of rows are more than their numbers: named, one of several, or times."""
    if index.nlevels > 1 or index.names[level] is not None:
        return True
    values = index.get_level_values(level).to_numpy()
    if values.dtype.kind == "M":
        return True
    if not len(values) or values.dtype.kind in "iufb":
        return False
    return type(values[0]).__name__ == "Period" or is_stamp(str(values[0]))  # the period of a year is only a number


def _column_name(name: object, taken: Sequence[str]) -> str:
    """A name that is no number, since a line of numbers above a table would be read as its first row."""
    text = str(name)
    try:
        float(text)
    except ValueError:
        pass
    else:
        text = f"x{text}"
    while text in taken:
        text += "_"
    return text


def _lines(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


_NOTHING = frozenset({"<NA>", "NaT", "nan", "None"})
"""How missing values of pandas are written."""


def is_zoned(value: object) -> bool:
    """Whether a value is a time with a zone."""
    return isinstance(value, datetime) and value.tzinfo is not None


def clock_of(values: Iterable[object]) -> str:
    """How times of a zone with summer time are written: "local" dates where all are at midnight, else by "UTC"."""
    zoned = [value for value in values if isinstance(value, datetime) and value.tzinfo is not None]
    if len({value.utcoffset() for value in zoned}) < 2:
        return ""
    return "local" if all(value.time() == clock_time() for value in zoned) else "UTC"


def _listed(values: _Column) -> list[object]:
    cells: list[object] = values.tolist() if isinstance(values, np.ndarray) else values.to_list()
    return cells


def cells_of(values: _Column, clock: str = "") -> list[object]:
    """The cells of a column: numbers exactly, times as text, nothing where a value is missing."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        whole = values.astype("datetime64[s]")
        exact = bool((np.isnat(whole) | (whole.astype(values.dtype) == values)).all())
        texts = np.datetime_as_string(whole if exact else values.astype("datetime64[ns]")).tolist()
        return ["" if text == "NaT" else text for text in texts]
    return [cell_of(value, clock) for value in _listed(values)]


def cell_of(value: object, clock: str) -> object:
    """One cell: a number, or text."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if value != value else value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if clock and isinstance(value, datetime) and value.tzinfo is not None:
        value = value.replace(tzinfo=None) if clock == "local" else value.astimezone(UTC)
    text = str(value)
    return "" if text in _NOTHING else text


def table_of_numbers(given: object) -> SeriesTable:
    """One series without times, from a text of numbers, a list or an array [T] or [T, D]."""
    values_TD = series_values(given, "numbers, such as '1.5 2 2.5'; a table is given by its path to forecast (--last)")
    if np.isnan(values_TD).all(0).any():
        which = "a series" if values_TD.shape[1] == 1 else "a column of a series"
        raise OptionError(
            f"{which} has {len(values_TD):,} missing values and no number; expected at least one number to go on from; "
            "try the last rows that have values"
        )
    times_T, empty = np.arange(len(values_TD)), np.empty((len(values_TD), 0))
    names = ("value",) if values_TD.shape[1] == 1 else tuple(f"x{at + 1}" for at in range(values_TD.shape[1]))
    bounds = np.array([0, len(values_TD)], np.int64)
    return SeriesTable(
        "numbers", ("value",), bounds, times_T, values_TD, names, Frequency(), empty, (), empty, (), ends_now=True
    )
