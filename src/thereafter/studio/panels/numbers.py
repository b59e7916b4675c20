"""Arrays as plain lists: a number that is infinite or not a number becomes None, which JSON has as null."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike


def number(value: SupportsFloat | None) -> float | None:
    """One number; what is None stays so."""
    return float(value) if value is not None and math.isfinite(value) else None


def numbers(values_N: ArrayLike) -> list[float | None]:
    """A row of numbers, in the precision they have."""
    array = np.asarray(values_N)
    row: list[float] = array.tolist()
    if np.isfinite(array).all():
        return list(row)
    return [number(value) for value in row]


def rows(values_RN: Iterable[ArrayLike]) -> list[list[float | None]]:
    """Several rows of numbers."""
    return [numbers(values_N) for values_N in values_RN]


def nested(values: ArrayLike) -> list[object]:
    """An array of any shape and kind, as lists of lists."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        array = np.where(np.isfinite(array), array.astype(object), np.array(None, dtype=object))
    plain: list[object] = array.tolist()
    return plain
