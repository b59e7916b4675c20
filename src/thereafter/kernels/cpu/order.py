"""Rows of a batch from the longest to the shortest, so that a step can leave the finished ones out."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

from thereafter.kernels.cpu.products import workable

_FULL = 0.9  # of all places taken: then rows are left in the order they are in

MaybeTensor = TypeVar("MaybeTensor", Tensor, Tensor | None)


def longest_first(lengths: Tensor | None, steps: int) -> Tensor | None:
    """The order of rows; None where there is little to leave out, or they are in that order."""
    if lengths is None or float(lengths.sum()) > _FULL * len(lengths) * steps or bool((lengths.diff() <= 0).all()):
        return None
    return lengths.argsort(descending=True, stable=True)


def take_rows(array: MaybeTensor, order: Tensor | None) -> MaybeTensor:
    """The rows in another order, if one is given."""
    return array if order is None or array is None else array.index_select(0, order)


def own_copy(array: Tensor, order: Tensor | None) -> Tensor:
    """What the loops may work on in place, the rows in another order, if one is given."""
    return workable(array) if order is None else array.index_select(0, order)
