"""The layer-norm LSTM on a CPU; `cpu.lstm` says how it is built.

Shapes: T steps, B rows, H units, O outputs (H or the projection's size), G = 4 H (3 H coupled).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import EPSILON
from thereafter.kernels.cpu.products import Projection, as_array, recurrent_matrix, refuse_second_derivative, row_ends


class LstmNormScan(torch.autograd.Function):
    """All steps from the normalised, projected input z. Inputs as `cpu.lstm.LstmScan`, then the gains."""

    @staticmethod
    def forward(
        ctx: Any,
        z_TBG: Tensor,
        h_BO: Tensor,
        c_BH: Tensor,
        weight_hh: Tensor,
        weight_hr: Tensor | None,
        peephole_3H: Tensor | None,
        lengths: Tensor | None,
        coupled: bool,
        gain_G: Tensor,
        gain_c_2H: Tensor,
    ) -> tuple[Tensor, Tensor]:
        from thereafter.kernels.loops.lstm_norm import lstm_norm_forward

        steps, rows, width = z_TBG.shape
        units = c_BH.shape[1]
        learning = any(ctx.needs_input_grad)
        kept = steps if learning else 1
        gates = z_TBG  # in place of z, as in `cpu.lstm`
        hat = z_TBG.new_empty(kept, rows, width)
        shown, hat_c = z_TBG.new_empty(kept, rows, units), z_TBG.new_empty(kept, rows, units)
        scale, scale_c = z_TBG.new_empty(kept, rows), z_TBG.new_empty(kept, rows)
        c, m = z_TBG.new_empty(steps + 1, rows, units), z_TBG.new_empty(steps + 1, rows, units)
        product = z_TBG.new_empty(rows, width)
        c[0] = c_BH
        projection = Projection(weight_hr, m, h_BO, lengths)
        h = projection.h
        matrix = recurrent_matrix(weight_hh, rows)
        views = [a.numpy() for a in (product, gates, c, shown, m, hat, scale, hat_c, scale_c)]
        fixed = (as_array(gain_G, z_TBG), as_array(gain_c_2H, z_TBG), as_array(peephole_3H, z_TBG))
        ends, exact = row_ends(lengths), z_TBG.dtype == torch.float64
        for t, h_t in enumerate(h.unbind(0)[:-1]):
            torch.mm(h_t, matrix, out=product)
            lstm_norm_forward(t, t if learning else 0, *views, *fixed, coupled, ends, EPSILON, exact)
            projection.forward(t)
        if learning:
            ctx.save_for_backward(
                gates, c, shown, m, h, hat, scale, hat_c, scale_c, weight_hh, weight_hr, peephole_3H, lengths, gain_G,
                gain_c_2H,
            )  # fmt: skip
            ctx.coupled = coupled
        return h[1:], c[steps].clone()

    @staticmethod
    def backward(ctx: Any, dy_TBO: Tensor, dc_BH: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        from thereafter.kernels.loops.lstm_norm import lstm_norm_backward

        gates, c, shown, m, h, hat, scale, hat_c, scale_c, weight_hh, weight_hr, peephole, lengths, gain, gain_c = (
            ctx.saved_tensors
        )
        steps, rows, width = gates.shape
        dz, du = torch.empty_like(gates), torch.empty_like(gates)
        dc, d_gain, d_gain_c = dc_BH.clone(), torch.zeros_like(gain), torch.zeros_like(gain_c)
        d_peephole = c.new_zeros(3 if peephole is not None else 0, c.shape[2])
        projection = Projection(weight_hr, m, h[0], lengths, h)
        dh, dm = projection.start_backward(dy_TBO)
        filled = (gates, c, shown, hat, scale, hat_c, scale_c, dm, dc, dz, du, d_gain, d_gain_c, d_peephole)
        views = [a.numpy() for a in filled]
        fixed = (as_array(gain, gates), as_array(gain_c, gates), as_array(peephole, gates))
        ends = row_ends(lengths)
        du_steps = du.unbind(0)
        for t in range(steps - 1, -1, -1):
            projection.backward(t)
            lstm_norm_backward(t, *views, *fixed, ctx.coupled, ends)
            projection.recur(t, du_steps[t], weight_hh)
        d_hh = du.view(steps * rows, width).t().mm(h[:-1].reshape(steps * rows, -1))
        given = d_peephole if peephole is not None else None
        return dz, dh, dc, d_hh, projection.gradient(), given, None, None, d_gain, d_gain_c
