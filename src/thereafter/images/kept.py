"""Pictures decoded once: an epoch after the first reads pixels from a temporary file that is mapped into memory.

The file belongs to the source of the pictures and is gone with it. Of an array, nothing is copied where its pictures
have the right shape already.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from thereafter.images.mapped import MappedArray
from thereafter.images.picture import PictureSource

Encoded = NDArray[np.generic]


class KeptPictures:
    """The rows of a source in one shape, decoded when they are first asked for."""

    def __init__(self, count: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
        self._mapped = MappedArray((count, *shape), dtype, "decoded pictures")
        self._done_N = np.zeros(count, np.bool_)

    def missing(self, rows: Sequence[int]) -> list[int]:
        """Those of the rows that are not decoded yet, each once."""
        return [row for row in dict.fromkeys(rows) if not self._done_N[row]]

    def take(self, rows: Sequence[int], encode: Callable[[int], Encoded]) -> Encoded:
        """The rows as one array; `encode` gives those that are not here yet."""
        for row in self.missing(rows):
            self.put(row, encode(row))
        return self._mapped.array[np.asarray(rows, np.int64)]

    def put(self, row: int, values: Encoded) -> None:
        """Keep one row."""
        self._mapped.write(row, values)
        self._done_N[row] = True


_kept: WeakKeyDictionary[PictureSource, dict[tuple[object, ...], KeptPictures]] = WeakKeyDictionary()
_choosing = threading.Lock()


def kept_pictures(source: PictureSource, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> KeptPictures:
    """What is kept of a source in this shape."""
    with _choosing:
        by_shape = _kept.setdefault(source, {})
        key = (shape, dtype.str)
        if key not in by_shape:
            by_shape[key] = KeptPictures(len(source), shape, dtype)
        return by_shape[key]
