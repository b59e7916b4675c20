"""Few shapes for many batches: a training step is recorded once for each shape, as a CUDA graph, and then replayed.

Sentences come in as many shapes as there are lengths. Filled up to the next of a few lengths, and to the most rows that
a batch of that length can have, they come in one or two dozen. What is filled in counts for nothing.

Shapes: B rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_FINE = 8
"""So many multiples of a step come first; after them there are four lengths to a doubling."""


def filled_length(length: int, step: int) -> int:
    """The next of `step`, 2 `step`, ... 8 `step`, 10, 12, 14, 16, 20, ...: beyond 8 steps at most a quarter is filling.

    >>> [filled_length(n, 4) for n in (1, 4, 9, 32, 33, 41, 65)]
    [4, 4, 12, 32, 40, 48, 80]
    """
    width = _width(length, step)
    return -(-length // width) * width


def filled_rows(rows: int, longest: int, step: int, most: int, places: int) -> int:
    """How many rows batches of this length are filled up to: the most that one can have, as a multiple of 8.

    A batch has at most `most` rows, and rows times its longest at most `places` (`tasks/batching.py`); the shortest
    one of the same filled length has the most of them.

    >>> filled_rows(3, 14, 8, most=32, places=1280), filled_rows(20, 61, 8, most=32, places=1280)
    (32, 24)
    """
    shortest = filled_length(longest, step) - _width(longest, step) + 1
    least = max(rows, min(most, places // shortest))
    return -(-least // 8) * 8 if least > 8 else least


def filled(array: Tensor, shape: Sequence[int], value: int = 0) -> Tensor:
    """An array in the corner of a larger one."""
    larger = array.new_full(tuple(shape), value)
    larger[tuple(slice(size) for size in array.shape)] = array
    return larger


def counted(rows: int, of: int) -> Tensor:
    """True for the first `rows` of so many rows, [B]."""
    return torch.arange(of) < rows


def _width(length: int, step: int) -> int:
    width = step
    while length > _FINE * width:
        width *= 2
    return width
