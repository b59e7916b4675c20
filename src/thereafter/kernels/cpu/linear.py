"""Linear cells on a CPU: coefficients by torch, the recurrence in one compiled pass. T steps, B rows, H units."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.kernels.functions import apply_one
from thereafter.kernels.jobs import Job
from thereafter.kernels.second import is_passed_over, no_gradients


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
