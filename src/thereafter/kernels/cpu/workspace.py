"""Large arrays that one sequence after another works in.

A training step needs the same few arrays of megabytes that the step before has just given up. The system hands fresh
memory out page by page, which can cost as much as a quarter of the step; so what a backward pass is done with is kept
here for the next forward pass of the same size.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

import torch
from torch import Tensor

MOST_BYTES = 256 << 20
_SMALLEST = 1 << 18  # below this the allocator keeps memory at hand itself

_lock = threading.Lock()


class FreeArrays:
    """The arrays nobody uses, by type and count of numbers, and how many bytes they are."""

    def __init__(self) -> None:
        self.free: OrderedDict[tuple[torch.dtype, int], list[Tensor]] = OrderedDict()
        self.bytes = 0


free_arrays = FreeArrays()


def take(like: Tensor, *shape: int) -> Tensor:
    """An array with whatever was in it, of the type of `like`."""
    key = like.dtype, math.prod(shape)
    if key[1] * like.element_size() < _SMALLEST:
        return like.new_empty(shape)
    with _lock:
        arrays = free_arrays.free.get(key)
        array = arrays.pop() if arrays else None
        if array is not None:
            free_arrays.bytes -= array.nbytes
    if array is not None:
        return array.view(shape)
    with torch.inference_mode(False):  # what is made in inference mode could never be part of a training step
        return torch.empty(shape, dtype=like.dtype, device=like.device)


def give_all(*arrays: Tensor) -> None:
    """Give several up."""
    for array in arrays:
        give(array)


def give(array: Tensor) -> None:
    """Give an array up: nobody will look at it again."""
    size = array.nbytes
    if not _SMALLEST <= size <= MOST_BYTES or array.is_inference():
        return
    key = array.dtype, array.numel()
    with _lock:
        free_arrays.free.setdefault(key, []).append(array.detach().view(-1))
        free_arrays.free.move_to_end(key)
        free_arrays.bytes += size
        while free_arrays.bytes > MOST_BYTES:
            oldest = next(iter(free_arrays.free))
            if free_arrays.free[oldest]:
                free_arrays.bytes -= free_arrays.free[oldest].pop(0).nbytes
            if not free_arrays.free[oldest]:
                del free_arrays.free[oldest]
