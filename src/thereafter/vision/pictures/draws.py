"""Random numbers by their place: a number of a table, not of a stream, so that any row can be drawn alone.

SplitMix64 (Steele, Lea and Flood 2014) as a function of (seed, row, column): the same on every machine, all rows at
once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
MOST_COLUMNS = 256


def uniforms(seed: int, rows: ArrayLike, columns: int) -> NDArray[np.float64]:
    """Numbers in [0, 1): one row for each of `rows`, as many `columns` as are asked for.

    >>> bool(uniforms(1, [5], 3)[0, 2] == uniforms(1, [4, 5], 8)[1, 2])
    True
    """
    rows_N = np.asarray(rows, np.uint64)
    place_K = np.arange(1, columns + 1, dtype=np.uint64)
    counter_NK: NDArray[np.uint64] = rows_N[:, None] * np.uint64(MOST_COLUMNS) + place_K
    begin_1 = _mixed(np.array([seed % 2**64], np.uint64))
    bits_NK = _mixed(np.asarray(begin_1 + counter_NK * _GOLDEN, np.uint64)) >> np.uint64(11)
    return bits_NK.astype(np.float64) * 2.0**-53


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return np.asarray(state ^ (state >> np.uint64(31)), np.uint64)
