"""Cells of a table as numbers: missing ones, numbers with a decimal point or comma."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "-", "?", "."})
"""How a missing value is written, in lower case."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity)", re.IGNORECASE | re.ASCII)
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in MISSING


def has_decimal_comma(cell: str) -> bool:
    """Whether a cell is a number such as 3,14."""
    return _COMMA_NUMBER.fullmatch(cell.strip()) is not None


def number_of(cell: str, *, decimal_comma: bool = False) -> float | None:
    """The number in a cell, NaN where it is missing, None where it is something else.

    >>> number_of(" 1.5e3 "), number_of("3,14", decimal_comma=True), number_of("1_000"), number_of("NA")
    (1500.0, 3.14, None, nan)
    """
    text = cell.strip()
    if text.lower() in MISSING:
        return math.nan
    if decimal_comma:
        text = text.replace(",", ".")
    return float(text) if _NUMBER.fullmatch(text) else None


def numbers_of(cells: Sequence[str], *, decimal_comma: bool = False) -> tuple[NDArray[np.float64], int]:
    """The numbers of a column, and the place of the first cell that is none (-1 if all are)."""
    plain = [cell.replace(",", ".") for cell in cells] if decimal_comma else cells
    joined = "".join(plain)
    if joined.isascii() and "_" not in joined:  # float reads digits of all scripts and 1_000, which are no numbers here
        try:
            return np.fromiter(map(float, plain), np.float64, len(plain)), -1
        except ValueError:
            pass
    numbers = np.full(len(cells), np.nan)
    for index, cell in enumerate(cells):
        number = number_of(cell, decimal_comma=decimal_comma)
        if number is None:
            return numbers, index
        numbers[index] = number
    return numbers, -1
