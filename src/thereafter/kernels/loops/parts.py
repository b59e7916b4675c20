"""Rows of a batch cut into parts, which the threads of a team claim one after another.

How many parts there are depends on the rows alone, and what is summed over rows is summed part by part: so the sums are
the same to the bit however many threads there are, and whichever of them took a part.
"""

from __future__ import annotations

from thereafter.compiled import jit

_FEWEST = 4  # parts of a batch of some rows: a thread that is held back keeps a quarter of them at most
_SOME = 16  # rows from which on there are so many
_ROWS = 8  # rows of a part at least: below that more time goes into reading the matrix than into multiplying


def parts_of(rows: int) -> int:
    """How many parts so many rows are cut into."""
    if rows < _SOME:
        return min(rows, 2)
    return max(1, rows // (_FEWEST * _ROWS)) * _FEWEST


parts_in = jit()(parts_of)
"""`parts_of` for compiled loops."""


@jit()
def rows_of_part(rows: int, part: int, parts: int, ragged: bool) -> tuple[int, int, int]:
    """From, to and step of a part's rows.

    Where lengths differ, and rows are sorted by them, a part takes every n-th row, so that it has long and short ones;
    else it takes neighbours, since what is fetched beyond a row's end is then its own.
    """
    if ragged:
        return part, rows, parts
    return rows * part // parts, rows * (part + 1) // parts, 1
