"""The interval of a share: how far chance alone may have moved it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Z_95 = 1.959964
"""The normal quantile of 97.5 %: a 95 % interval leaves 2.5 % on either side."""


def wilson(share: ArrayLike, counted: ArrayLike, z: float = Z_95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 95 % interval of shares of so many cases (Wilson 1927), which stays between 0 and 1 and is never of no width.

        (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Of no cases at all nothing is known: 0 to 1.

    >>> [round(float(end[0]), 4) for end in wilson([0.9], [10])]
    [0.5958, 0.9821]
    """
    n_X = np.asarray(counted, np.float64)
    empty_X = n_X == 0
    n_X = np.where(empty_X, 1.0, n_X)
    share_X = np.where(empty_X, 0.5, np.asarray(share, np.float64))
    middle_X = share_X + z**2 / (2 * n_X)
    half_X = z * np.sqrt(share_X * (1 - share_X) / n_X + z**2 / (4 * n_X**2))
    whole_X = 1 + z**2 / n_X
    # at shares of 0 and 1 an end is the share itself, but for the last bit
    low_X = np.minimum((middle_X - half_X) / whole_X, share_X)
    high_X = np.maximum((middle_X + half_X) / whole_X, share_X)
    return np.where(empty_X, 0.0, low_X), np.where(empty_X, 1.0, high_X)
