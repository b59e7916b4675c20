"""How a scan is shared by the threads of a CPU, by figures of the processor that are read at run time.

Shapes: T steps, B rows, I inputs, H units, G gate units.
"""

from __future__ import annotations

import torch

from thereafter.processor import processor

_FEWEST_EACH = 2  # rows of a thread
_FEWEST_ROWS = 16  # of a batch, for the input's product to be worth while in a step
_CACHED = 1 << 19  # bytes of [W, U] a thread can keep at hand beside what it works on
_WHOLE = 1 << 20  # the same where every thread reads all of it
_WORTH_A_TEAM = 1_000_000  # operations of a sequence; waking a thread costs as much as a hundred thousand
_WORTH_A_COPY = 512  # rows times steps


def shares_rows(rows: int, matrix_bytes: int) -> bool:
    """Whether each thread should take rows of the batch, and all of the matrix U, of that many bytes; else it takes
    units, and its part of U."""
    return rows >= _FEWEST_EACH * torch.get_num_threads() and matrix_bytes <= processor().level_2


def most_sharing(rows: int, matrix_bytes: int) -> int:
    """The largest number of threads that share such rows; 0 where none should."""
    return rows // max(1, _FEWEST_EACH) if matrix_bytes <= processor().level_2 else 0


def input_inside(rows: int, matrix_bytes: int, by_rows: bool, inputs: int) -> bool:
    """Whether the input's product belongs into the steps: where [W, U], of that many bytes, fits the caches; or where
    reading W at every step is little beside the pre-activations that a hoisted product writes and a step reads again.
    """
    cached = matrix_bytes <= (_WHOLE if by_rows else _CACHED * torch.get_num_threads())
    return rows >= _FEWEST_ROWS and (cached or (not by_rows and inputs <= rows))


def worth_a_team(operations: int) -> bool:
    """Whether the products of a sequence, of so many multiplications and additions, pay for waking other threads."""
    return operations >= _WORTH_A_TEAM


def worth_a_copy(rows: int, steps: int) -> bool:
    """Whether a matrix that torch multiplies by at every step is laid out anew first.

    With a single row, where a step is little more than reading the matrix once, or with few rows over all steps, the
    copy costs more than it saves.
    """
    return rows > 1 and rows * steps >= _WORTH_A_COPY
