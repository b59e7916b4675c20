"""What Python knows of characters, as ranges for C: lower case, what decides the case of a sigma, letters."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

SIGMA, FINAL_SIGMA = 0x3A3, 0x3C2
DOTTED = 0x130
"""Its lower case, unlike all others, is two characters: i and U+0307."""
_CODE_POINTS = 0x110000
_SPACE, _A = ord(" "), ord("A")
_LETTER_RUNS = re.compile(r"[^\W\d_]+")
Ints = NDArray[np.int64]


@cache
def lower_ranges() -> Ints:
    """Characters with another lower case, [N, 4]: the first, the last, the step between them, what is added.

    >>> lower_ranges()[0].tolist(), DOTTED in lower_ranges()
    ([65, 90, 1, 32], False)
    """
    points = np.delete(np.arange(_CODE_POINTS), DOTTED)
    shifts = _lowered(np.stack([points, np.full_like(points, _SPACE)], 1))[:, 0] - points
    changed = np.flatnonzero(shifts)
    ranges: list[list[int]] = []
    for point, shift in zip(points[changed].tolist(), shifts[changed].tolist(), strict=True):
        first, last, step, added = ranges[-1] if ranges else (0, 0, 0, 0)
        if added == shift and point - last in ((1, 2) if first == last else (step,)):
            ranges[-1] = [first, point, point - last, added]
        else:
            ranges.append([point, point, 1, shift])
    return np.array(ranges)


@cache
def cased_ranges() -> tuple[Ints, Ints]:
    """Characters that are cased, and those that are passed over beside a sigma: each [N, 2], the first and the last.

    A capital sigma is final where a cased character stands before it and none after it, others passed over.
    """
    points = np.delete(np.arange(_CODE_POINTS), DOTTED)
    sigma, space, letter = (np.full_like(points, point) for point in (SIGMA, _SPACE, _A))
    cased = _lowered(np.stack([points, sigma, space], 1))[:, 1] == FINAL_SIGMA
    passed = _lowered(np.stack([letter, points, sigma, space], 1))[:, 2] == FINAL_SIGMA
    return _ranges(np.append(points[cased], DOTTED)), _ranges(points[passed & ~cased])


@cache
def letter_ranges() -> Ints:
    """Characters that `letters_only` keeps, [N, 2]: the first and the last."""
    every = "".join(map(chr, range(_CODE_POINTS)))
    return np.array([(run.start(), run.end() - 1) for run in _LETTER_RUNS.finditer(every)])


def _lowered(points: Ints) -> Ints:
    """The lower case of all rows as one text, in the same shape."""
    text = points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass").lower()
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64).reshape(points.shape)


def _ranges(points: Ints) -> Ints:
    """Runs of code points that follow each other."""
    points = np.sort(points)
    starts = np.flatnonzero(np.diff(points, prepend=-2) > 1)
    return np.stack([points[starts], points[np.append(starts[1:], len(points)) - 1]], 1)
