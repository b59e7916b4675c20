"""Rows of a batch cut into parts, which the threads of a team claim one after another.

How many parts there are depends on the rows alone, and what is summed over rows is summed part by part: so the sums are
the same to the bit however many threads there are, and whichever of them took a part.

The fewer rows a thread takes at once, the more often it reads the matrix. So each thread first claims several parts
side by side, somewhat less than its share, and then single ones: what a thread leaves over that the system holds back
goes to the others.
"""

from __future__ import annotations

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import Whole
from thereafter.kernels.loops.team import PARTS, claim

_FEW, _SOME, _MANY = 16, 32, 96  # rows
_ROWS = 8  # of a part at least, where there are many rows or every part is claimed alone


def parts_of(rows: int, ragged: bool = True) -> int:
    """How many parts so many rows are cut into: fewer where they are claimed one by one, as ragged rows are."""
    if rows < _FEW:
        return min(rows, 2)
    if rows < _SOME:
        return 4
    return 8 if rows < _MANY and not ragged else rows // (4 * _ROWS) * 4


parts_in = jit()(parts_of)
"""`parts_of` for compiled loops."""


@jit()
def claim_parts(task: Whole, parts: int, ragged: bool, threads: int) -> tuple[int, int]:
    """The next parts of so many, from and to; from is `parts` or more where none is left.

    Where lengths differ parts are claimed one by one: their rows do not lie side by side.
    """
    number = claim(task, PARTS)
    several = 1 if ragged else parts if threads == 1 else max(1, parts * 3 // (4 * threads))
    first = number * several if number < threads else threads * several + number - threads
    return first, first + (several if number < threads else 1)


@jit()
def rows_of_parts(rows: int, first: int, last: int, parts: int, ragged: bool) -> tuple[int, int, int]:
    """From, to and step of the rows of the parts `first` to `last` (one where lengths differ).

    Where lengths differ, and rows are sorted by them, a part takes every n-th row, so that it has long and short ones;
    else it takes neighbours, since what is fetched beyond a row's end is then its own.
    """
    if ragged:
        return first, rows, parts
    return rows * first // parts, rows * last // parts, 1


@jit()
def rows_of_part(rows: int, part: int, parts: int, ragged: bool) -> tuple[int, int, int]:
    """The same of one part."""
    return rows_of_parts(rows, part, part + 1, parts, ragged)
