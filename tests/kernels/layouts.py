"""The same numbers laid out in memory in every way torch allows: what users, and autograd, hand to a kernel.

Between the numbers of a view lies NaN, or the largest of its kind: a loop that takes it for a plain array shows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def transposed(array: Tensor) -> Tensor:
    """The first axis runs fastest. Such an array is dense, so `clone` and `empty_like` keep its strides."""
    axes = tuple(range(array.dim()))[::-1]
    return array.permute(axes).clone(memory_format=torch.contiguous_format).permute(axes)


def strided(array: Tensor) -> Tensor:
    """Every other number of each row."""
    if not array.dim():
        return array
    wide = _filled(array, (*array.shape[:-1], 2 * array.shape[-1]))
    view = wide[..., ::2]
    view.copy_(array)
    return view


def cut(array: Tensor) -> Tensor:
    """A window of a larger array: rows in one piece, with something else between them."""
    wide = _filled(array, tuple(size + 2 for size in array.shape))
    view = wide[tuple(slice(1, 1 + size) for size in array.shape)]
    view.copy_(array)
    return view


def expanded(array: Tensor) -> Tensor:
    """The first row stands for all of them. These are other numbers where rows differ."""
    return array[:1].expand(array.shape) if array.dim() and len(array) else array


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": transposed,
    "strided": strided,
    "cut": cut,
    "expanded": expanded,
}


def _filled(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    if like.is_floating_point():
        return like.new_full(shape, float("nan"))
    return like.new_full(shape, True if like.dtype == torch.bool else torch.iinfo(like.dtype).max)
