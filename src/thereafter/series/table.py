"""Series of numbers as arrays, one after the other, with their times; and what a user hands over as a table.

That may be a source of files, a data frame or an array.

Shapes: N rows of all series together, S series, D targets, P past covariates, K covariates that are known ahead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter.data.files import AnySource, Files, Parts
from thereafter.errors import ThereafterError
from thereafter.series.frames import IN_MEMORY, spool_frame
from thereafter.series.frequency import Frequency

Times = NDArray[np.datetime64] | NDArray[np.int64]
"""Seconds since 1970 as datetime64[s], or the numbers of the rows where a table has no times."""


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
    bounds_S1: NDArray[np.int64]
    times_N: Times
    values_ND: NDArray[np.float64]
    targets: tuple[str, ...]
    frequency: Frequency
    past_NP: NDArray[np.float64]
    past: tuple[str, ...]
    known_NK: NDArray[np.float64]
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

    def values(self, series: int) -> NDArray[np.float64]:
        """The targets of a series, [T, D]."""
        return self.values_ND[self.bounds_S1[series] : self.bounds_S1[series + 1]]

    def times(self, series: int) -> Times:
        """The times of a series, [T]."""
        return self.times_N[self.bounds_S1[series] : self.bounds_S1[series + 1]]


class DataFrame(Protocol):
    """A data frame or a series of pandas or polars, as far as its type says."""

    def to_numpy(self) -> NDArray[np.generic]: ...


AnyTable = AnySource | NDArray[np.generic] | DataFrame
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
