"""Large arrays that one sequence after another works in, and linear cells.

A training step needs the same few arrays of megabytes that the step before has just given up. The system hands fresh
memory out page by page, which can cost as much as a quarter of the step; so what a backward pass is done with is kept
here for the next forward pass of the same size.

Linear cells: coefficients by torch, recurrence in one compiled pass. T steps, B rows, H units.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.kernels.functions import apply_one
from thereafter.kernels.jobs import Job
from thereafter.kernels.second import is_passed_over, no_gradients

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


class _LinearSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a_TBH: Tensor, b_TBH: Tensor, h_BH: Tensor) -> Tensor:
        from thereafter.kernels.loops.linear import linear_forward

        a, b = a_TBH.contiguous(), b_TBH.contiguous()
        h = a.new_empty(len(a) + 1, *a.shape[1:])
        h[0] = h_BH
        linear_forward(a.numpy(), b.numpy(), h.numpy())
        ctx.save_for_backward(a, h)
        return h[1:]

    @staticmethod
    def backward(ctx: Any, dy_TBH: Tensor) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy_TBH):
            return no_gradients(ctx)
        from thereafter.kernels.loops.linear import linear_backward

        a, h = ctx.saved_tensors
        da, db, dh = torch.empty_like(a), torch.empty_like(a), torch.zeros_like(h[0])
        linear_backward(*(x.numpy() for x in (a, h, dy_TBH.contiguous(), da, db, dh)))
        return da, db, dh


def run_linear(cell: Cell, job: Job, z_TBG: Tensor) -> tuple[Tensor, tuple[Tensor]]:
    """h of every step [T, B, H], and the last; in finished rows the state stays as it is."""
    a_TBH, b_TBH = cell.coefficients(z_TBG, job.weights)
    if job.lengths_B is not None:
        live_TB1 = (torch.arange(len(z_TBG)).unsqueeze(1) < job.lengths_B).unsqueeze(-1)
        a_TBH = torch.where(live_TB1, a_TBH, torch.ones_like(a_TBH))
        b_TBH = torch.where(live_TB1, b_TBH, torch.zeros_like(b_TBH))
    if job.reset_BT is not None:
        a_TBH = a_TBH * (~job.reset_BT.t()).unsqueeze(-1).to(a_TBH.dtype)
    h_TBH = apply_one(_LinearSteps, a_TBH, b_TBH, job.state.h)
    return h_TBH, (h_TBH[-1].clone(),)  # which may be changed in place
