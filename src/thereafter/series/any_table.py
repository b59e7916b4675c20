"""Whatever a user can hand over as a table: a source of files, a data frame, an array."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter.data.files import AnySource, Files, Parts
from thereafter.errors import ThereafterError
from thereafter.series.frames import IN_MEMORY, spool_frame


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
