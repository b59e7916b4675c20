"""The LSTM whose output is projected, h = W_hr m, on a CPU: torch's products, and a compiled loop between them.

The second product of a step needs all units of the first, so the threads would have to meet three times a step; here
torch's own products meet instead. Shapes: T steps, B rows, H units, O outputs, G = 4 H (3 H coupled).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.kernels.cpu.products import (
    Projection,
    as_array,
    recurrent_matrix,
    row_ends,
    workable,
)
from thereafter.kernels.second import no_gradients, recording


class ProjectedLstmScan(torch.autograd.Function):
    """All steps from z, both biases in it: h of every step, and the last c."""

    @staticmethod
    def forward(
        ctx: Any,
        z_TBG: Tensor,
        h_BO: Tensor,
        c_BH: Tensor,
        weight_hh: Tensor,
        weight_hr: Tensor,
        peephole_3H: Tensor | None,
        lengths: Tensor | None,
        coupled: bool,
    ) -> tuple[Tensor, Tensor]:
        from thereafter.kernels.loops.lstm import lstm_forward

        steps, rows, _ = z_TBG.shape
        units = c_BH.shape[1]
        learning = any(ctx.needs_input_grad)
        # The gates take the place of z, which nobody else holds: no second array of that size, and no copy a step.
        gates = z_TBG
        c, m = z_TBG.new_empty(steps + 1, rows, units), z_TBG.new_empty(steps + 1, rows, units)
        c[0] = c_BH
        projection = Projection(weight_hr, m, h_BO, lengths)
        h = projection.h
        matrix = recurrent_matrix(weight_hh, rows, steps)
        gates_n, c_n, m_n, y_n = (a.numpy() for a in (gates, c, m, z_TBG.new_empty(rows, steps, units)))
        peephole, ends = as_array(peephole_3H, z_TBG), row_ends(lengths)
        for t, (gates_BG, h_t) in enumerate(zip(gates.unbind(0), h.unbind(0), strict=False)):
            gates_BG.addmm_(h_t, matrix)
            lstm_forward(t, gates_n, c_n, m_n, y_n, peephole, coupled, ends, 0, units)
            projection.forward(t)
        if learning:
            ctx.save_for_backward(gates, c, m, h, weight_hh, weight_hr, peephole_3H, lengths)
            ctx.coupled = coupled
        return h[1:], c[steps].clone()

    @staticmethod
    def backward(ctx: Any, dy_TBO: Tensor, dc_BH: Tensor) -> tuple[Tensor | None, ...]:
        if recording():
            return no_gradients(ctx)
        from thereafter.kernels.loops.lstm import lstm_backward

        gates, c, m, h, weight_hh, weight_hr, peephole_3H, lengths = ctx.saved_tensors
        steps, rows, width = gates.shape
        units = c.shape[2]
        dz, dc = torch.empty_like(gates), workable(dc_BH)
        projection = Projection(weight_hr, m, h[0], lengths, h)
        dh, dm = projection.start_backward(dy_TBO)
        d_peephole = c.new_zeros(3 if peephole_3H is not None else 0, c.shape[2])
        # the biases' gradients come from dz, through the product that made z
        d_bias, dy = c.new_zeros(width), c.new_zeros(rows, steps, c.shape[2])
        gates_n, c_n, dy_n, dm_n, dc_n, dz_n = (a.numpy() for a in (gates, c, dy, dm, dc, dz))
        d_bias_n, d_peephole_n = d_bias.numpy(), d_peephole.numpy()
        peephole, ends = as_array(peephole_3H, gates), row_ends(lengths)
        dz_steps = dz.unbind(0)
        for t in range(steps - 1, -1, -1):
            projection.backward(t)
            lstm_backward(
                t, gates_n, c_n, dy_n, dm_n, dc_n, dz_n, d_bias_n, d_peephole_n, peephole, ctx.coupled, ends, 0, units
            )
            projection.recur(t, dz_steps[t], weight_hh)
        d_hh = dz.view(steps * rows, width).t().mm(h[:-1].reshape(steps * rows, -1))
        given = d_peephole if peephole_3H is not None else None
        return dz, dh, dc, d_hh, projection.gradient(), given, None, None
