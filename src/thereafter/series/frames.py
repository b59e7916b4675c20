"""Data frames of pandas and polars, and arrays of numpy, as files: written once, so that all else reads a table.

Neither package is imported: a frame is known by the module of its type. Numbers are written exactly.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from datetime import time as clock_time
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.data.files import Files, Spool
from thereafter.errors import OptionError
from thereafter.series.times import is_stamp

_BLOCK = 20_000  # rows
_PACKAGES = ("pandas", "polars")
IN_MEMORY = ("the array", "the data frame")
"""What tables in memory are called."""


class _Column(Protocol):
    def to_numpy(self) -> NDArray[np.generic]: ...


class _PlacedColumns(Protocol):
    def __getitem__(self, place: tuple[slice, int], /) -> _Column: ...


@runtime_checkable
class _Index(Protocol):
    """The labels of pandas' rows: `levels` of them are columns of their own."""

    @property
    def names(self) -> Sequence[object]: ...
    @property
    def nlevels(self) -> int: ...
    def get_level_values(self, level: int, /) -> _Column: ...
    def __len__(self) -> int: ...


@runtime_checkable
class _PandasFrame(Protocol):
    @property
    def iloc(self) -> _PlacedColumns: ...
    @property
    def index(self) -> _Index: ...
    @property
    def columns(self) -> Iterable[object]: ...


@runtime_checkable
class _PandasSeries(Protocol):
    @property
    def index(self) -> _Index: ...
    @property
    def name(self) -> object: ...
    def to_frame(self) -> object: ...


class _PolarsColumn(Protocol):
    def to_list(self) -> list[object]: ...


class _PolarsRows(Protocol):
    def get_column(self, name: str, /) -> _PolarsColumn: ...


@runtime_checkable
class _PolarsFrame(Protocol):
    @property
    def columns(self) -> list[str]: ...
    @property
    def height(self) -> int: ...
    def slice(self, offset: int, length: int, /) -> _PolarsRows: ...


@runtime_checkable
class _PolarsSeries(Protocol):
    def to_frame(self) -> object: ...


def is_frame(source: object) -> bool:
    """Whether a source is a data frame or series of pandas or polars, or an array of numpy.

    >>> is_frame(np.zeros(3)), is_frame("sales.csv")
    (True, False)
    """
    return isinstance(source, np.ndarray) or _package(source) != ""


def spool_frame(source: object) -> Files:
    """The rows as a temporary table, which lives as long as the files that are returned.

    The index of a pandas frame becomes a column if it has times or names; times without a name are called `time`. A
    numpy array has rows of times, [T] or [T, D]; its columns are `value`, or x1, x2, ...
    """
    name = IN_MEMORY[0] if isinstance(source, np.ndarray) else IN_MEMORY[1]
    header, blocks, rows = _table(source)
    with progress.task("writing the table", total=rows, unit="rows") as advance:
        spool = Spool.of_text(_written(header, blocks, advance), name, ".csv")
    return Files(name, (spool.path,), spools=(spool,))


def _package(source: object) -> str:
    for kind in type(source).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in _PACKAGES and kind.__name__ in ("DataFrame", "Series"):
            return package
    return ""


def _table(source: object) -> tuple[list[str], Iterator[list[list[object]]], int]:
    """The names of the columns, blocks of columns of cells, and the number of rows."""
    package = _package(source)
    if isinstance(source, np.ndarray):
        return _array_table(source)
    if package == "pandas" and isinstance(source, _PandasSeries):
        name = "value" if source.name is None else source.name
        source, renamed = source.to_frame(), [name]
        if isinstance(source, _PandasFrame):
            return _pandas_table(source, renamed)
    if package == "pandas" and isinstance(source, _PandasFrame):
        return _pandas_table(source, list(source.columns))
    if package == "polars" and not isinstance(source, _PolarsFrame) and isinstance(source, _PolarsSeries):
        source = source.to_frame()
    if isinstance(source, _PolarsFrame):
        return _polars_table(source)
    raise OptionError(
        f"a table is a data frame of pandas or polars or an array of numpy, got {type(source).__name__}; try a path"
    )


def _array_table(array: NDArray[np.generic]) -> tuple[list[str], Iterator[list[list[object]]], int]:
    if array.ndim not in (1, 2) or not array.size or array.dtype.kind not in "fiub":
        raise OptionError(
            f"the array has shape {list(array.shape)} and holds {array.dtype}; expected numbers, [T] or [T, D] with a "
            "row for each time"
        )
    columns = array.reshape(len(array), -1)
    names = ["value"] if columns.shape[1] == 1 else [f"x{k + 1}" for k in range(columns.shape[1])]

    def blocks() -> Iterator[list[list[object]]]:
        for begin in range(0, len(columns), _BLOCK):
            rows = columns[begin : begin + _BLOCK]
            yield [cells_of(rows[:, k]) for k in range(rows.shape[1])]

    return names, blocks(), len(columns)


def _pandas_table(frame: _PandasFrame, columns: list[object]) -> tuple[list[str], Iterator[list[list[object]]], int]:
    index, rows = frame.index, len(frame.index)
    levels = [level for level in range(index.nlevels) if _is_column(index, level)]
    names: list[str] = []
    for level in levels:
        label = index.names[level]
        names.append(_column_name("time" if label is None else label, [*names, *map(str, columns)]))
    names += [_column_name(column, ()) for column in columns]
    labels = [index.get_level_values(level).to_numpy() for level in levels]
    clocks = [clock_of(values) for values in labels]
    every = slice(None)
    clocks += [clock_of(frame.iloc[every, k].to_numpy()) if _has_zone(frame, k) else "" for k in range(len(columns))]

    def blocks() -> Iterator[list[list[object]]]:
        for begin in range(0, rows, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            values = [label[part] for label in labels]
            values += [frame.iloc[part, k].to_numpy() for k in range(len(columns))]
            yield [cells_of(cells, clock) for cells, clock in zip(values, clocks, strict=True)]

    return names, blocks(), rows


def _is_column(index: _Index, level: int) -> bool:
    """Whether labels of rows are more than their numbers: named, one of several, or times."""
    if index.nlevels > 1 or index.names[level] is not None:
        return True
    values = index.get_level_values(level).to_numpy()
    if values.dtype.kind == "M":
        return True
    if not len(values) or values.dtype.kind in "iufb":
        return False
    return type(values[0]).__name__ == "Period" or is_stamp(str(values[0]))  # the period of a year is only a number


def _polars_table(frame: _PolarsFrame) -> tuple[list[str], Iterator[list[list[object]]], int]:
    names = list(frame.columns)
    first = frame.slice(0, 1)
    zoned = {name for name in names if any(map(is_zoned, first.get_column(name).to_list()))}
    whole = frame.slice(0, frame.height)
    clocks = {name: clock_of(whole.get_column(name).to_list()) if name in zoned else "" for name in names}

    def blocks() -> Iterator[list[list[object]]]:
        for begin in range(0, frame.height, _BLOCK):
            rows = frame.slice(begin, _BLOCK)
            yield [[cell_of(value, clocks[name]) for value in rows.get_column(name).to_list()] for name in names]

    return [_column_name(name or "value", ()) for name in names], blocks(), frame.height


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


def _has_zone(frame: _PandasFrame, column: int) -> bool:
    return any(map(is_zoned, frame.iloc[slice(0, 1), column].to_numpy().tolist()))


def _written(header: list[str], blocks: Iterable[list[list[object]]], advance: progress.Advance) -> Iterator[str]:
    yield _lines([header])
    for columns in blocks:
        advance(len(columns[0]) if columns else 0)
        yield _lines(zip(*columns, strict=True))


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


def cells_of(values: NDArray[np.generic], clock: str = "") -> list[object]:
    """The cells of a column: numbers exactly, times as text, nothing where a value is missing."""
    if values.dtype.kind == "M":
        whole = values.astype("datetime64[s]")
        exact = bool((np.isnat(whole) | (whole.astype(values.dtype) == values)).all())
        texts = np.datetime_as_string(whole if exact else values.astype("datetime64[ns]")).tolist()
        return ["" if text == "NaT" else text for text in texts]
    return [cell_of(value, clock) for value in values.tolist()]


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
