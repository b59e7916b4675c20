"""Where words end in a text as it is written: at white space, and at every line end.

Positions are counted in characters (code points), or in bytes of UTF-8, which tokens smaller than a character need.

Shapes: C characters, W words and line ends.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.uint32]
Places = NDArray[np.int64]

_LAST_SPACE = 0x3000  # no character beyond it is white space
_NEWLINE = 10


def code_points(text: str) -> Points:
    """The characters of a text as numbers, [C]."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


def is_space(points_C: Points) -> NDArray[np.bool_]:
    """Which characters are white space, as `str.split` and `\\s` see it."""
    flags: NDArray[np.bool_] = _space_table()[np.minimum(points_C, _LAST_SPACE + 1)]
    return flags


def byte_ends(points_C: Points) -> Places:
    """Where each character ends, in bytes of UTF-8 from the beginning."""
    sizes = 1 + (points_C > 0x7F).astype(np.int64) + (points_C > 0x7FF) + (points_C > 0xFFFF)
    ends: Places = np.cumsum(sizes)
    return ends


def word_ends(points_C: Points) -> Places:
    """The place after the last character of every word, and after every newline, in characters: [W].

    >>> word_ends(code_points("two  words\\n\\n")).tolist()
    [3, 10, 11, 12]
    """
    space = is_space(points_C)
    last = ~space
    last[:-1] &= space[1:]
    ends: Places = np.flatnonzero(last | (points_C == _NEWLINE)).astype(np.int64) + 1
    return ends


@cache
def _space_table() -> NDArray[np.bool_]:
    return np.array([chr(point).isspace() for point in range(_LAST_SPACE + 2)], dtype=bool)
