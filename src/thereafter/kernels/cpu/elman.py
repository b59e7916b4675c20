"""The simple recurrent network on a CPU; built like `cpu.lstm`. Shapes: T steps, B rows, H units."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.elman import Elman
from thereafter.cells.options import ElmanOptions, choices_of
from thereafter.kernels.cpu.products import recurrent_matrix, row_ends, workable
from thereafter.kernels.functions import apply_one
from thereafter.kernels.jobs import Job
from thereafter.kernels.second import no_gradients, recording


class _ElmanScan(torch.autograd.Function):
    """h_t = f(z_t + U h_{t-1}), both biases in z."""

    @staticmethod
    def forward(ctx: Any, z_TBH: Tensor, h_BH: Tensor, weight_hh: Tensor, lengths: Tensor | None, kind: int) -> Tensor:
        from thereafter.kernels.loops.elman import elman_forward

        steps, rows, units = z_TBH.shape
        h = z_TBH.new_empty(steps + 1, rows, units)
        h[0] = h_BH
        matrix = recurrent_matrix(weight_hh, rows, steps)
        view, ends = h.numpy(), row_ends(lengths)
        exact = z_TBH.dtype == torch.float64
        h_steps = h.unbind(0)
        for t, z_BH in enumerate(z_TBH.unbind(0)):
            torch.addmm(z_BH, h_steps[t], matrix, out=h_steps[t + 1])
            elman_forward(t, view, kind, ends, exact)
        ctx.save_for_backward(h, weight_hh, lengths)
        ctx.kind = kind
        return h[1:]

    @staticmethod
    def backward(ctx: Any, dy_TBH: Tensor) -> tuple[Tensor | None, ...]:
        if recording():
            return no_gradients(ctx)
        from thereafter.kernels.loops.elman import elman_backward

        h, weight_hh, lengths = ctx.saved_tensors
        steps, rows, units = dy_TBH.shape
        dz = torch.empty_like(h[1:])
        dh = workable(dy_TBH[steps - 1])
        h_n, dh_n, dz_n = (a.numpy() for a in (h, dh, dz))
        ends = row_ends(lengths)
        dz_steps, dy_steps = dz.unbind(0), dy_TBH.unbind(0)
        for t in range(steps - 1, -1, -1):
            elman_backward(t, h_n, dh_n, dz_n, ctx.kind, ends)
            dh.addmm_(dz_steps[t], weight_hh)
            if t:
                dh += dy_steps[t - 1]
        d_hh = dz.view(steps * rows, units).t().mm(h[:-1].reshape(steps * rows, units))
        return dz, dh, d_hh, None, None


def run_elman(cell: Elman, job: Job, z_TBH: Tensor) -> tuple[Tensor, tuple[Tensor]]:
    """h of every step [T, B, H], and the last."""
    kind = choices_of(ElmanOptions, "nonlinearity").index(cell.options.nonlinearity)
    h_TBH = apply_one(_ElmanScan, z_TBH, job.state.h, job.weights["weight_hh"], job.lengths_B, kind)
    return h_TBH, (h_TBH[-1],)
