"""The LSTM whose output is projected, h = W_hr m, on a CPU: its whole sequence in one compiled call, as `cpu.lstm` has
it. Shapes: T steps, B rows, H units, O outputs, G = 4 H (3 H coupled).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.kernels.arrays import ProjectedBackward, ProjectedForward
from thereafter.kernels.cpu.order import longest_first, own_copy, take_rows
from thereafter.kernels.cpu.plan import shares_rows
from thereafter.kernels.cpu.products import (
    place_for_gradient,
    row_parts,
    run_team,
    sum_of_parts,
    team_lengths,
    team_packing,
    team_peephole,
    team_spares,
    weight_gradient,
)
from thereafter.kernels.cpu.workspace import give_all, take
from thereafter.kernels.second import is_passed_over, no_gradients


class ProjectedLstmScan(torch.autograd.Function):
    """All steps from z, both biases in it: outputs [B, T, O], beyond a row's length 0, and the last h and c."""

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
    ) -> tuple[Tensor, Tensor, Tensor]:
        from thereafter.kernels.loops.lstm_projected_team import forward_task

        steps, rows, _ = z_TBG.shape
        outputs, units = weight_hr.shape
        learning = any(ctx.needs_input_grad)
        order = longest_first(lengths, steps)
        lengths = take_rows(lengths, order)
        by_rows = shares_rows(rows, weight_hh.nbytes + weight_hr.nbytes, ragged=lengths is not None)
        # The gates take the place of z, which nobody else holds: no second array of that size, and no copy a step.
        gates = z_TBG if order is None else z_TBG.index_select(1, order)
        c = take(z_TBG, steps + 1 if learning else 2, rows, units)
        h = take(z_TBG, steps + 1 if learning else 2, rows, outputs)
        m, y = take(z_TBG, rows, steps, units), z_TBG.new_empty(rows, steps, outputs)
        c[0], h[0] = take_rows(c_BH, order), take_rows(h_BO, order)
        u, r = weight_hh.contiguous(), weight_hr.contiguous()
        packed, packed_r = team_packing(u, units), team_packing(r, outputs)
        arrays = ProjectedForward(
            gates=gates, c=c, h=h, now=c.new_zeros(2, rows, units), m=m, y=y, weight=u, weight_r=r, packed=packed,
            packed_r=packed_r, spares=team_spares(gates), peephole=team_peephole(peephole_3H, gates),
            lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(forward_task, steps * rows, arrays, coupled=coupled, by_rows=by_rows)
        give_all(packed, packed_r)
        last = h[steps % len(h)].clone(), c[steps % len(c)].clone()
        if learning:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(gates, c, h, m, weight_hh, weight_hr, peephole_3H, lengths, order)
            ctx.coupled, ctx.by_rows = coupled, by_rows
        else:
            give_all(c, h, m)
        back = None if order is None else order.argsort()
        return take_rows(y, back), take_rows(last[0], back), take_rows(last[1], back)

    @staticmethod
    def backward(
        ctx: Any, dy_BTO: Tensor | None, dh_BO: Tensor | None, dc_BH: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy_BTO, dh_BO, dc_BH):
            return no_gradients(ctx)
        from thereafter.kernels.loops.lstm_projected_team import backward_task

        gates, c, h, m, weight_hh, weight_hr, peephole_3H, lengths, order = ctx.saved_tensors
        rows, steps, units = m.shape
        width, outputs = gates.shape[2], len(weight_hr)
        parts = row_parts(rows, ragged=lengths is not None)
        dm, dp = take(m, rows, steps, units), take(m, rows, steps, outputs)
        dy = dp.zero_() if dy_BTO is None else take_rows(dy_BTO, order)
        if not dy.is_contiguous():
            dy = dp.copy_(dy)
        dh = torch.zeros_like(h[0]) if dh_BO is None else own_copy(dh_BO, order)
        dc = torch.zeros_like(c[0]) if dc_BH is None else own_copy(dc_BH, order)
        # Over the gates where nobody asks for them again; what is given away was never the workspace's.
        dz = place_for_gradient(gates)
        # the biases' gradients come from dz, through the product that made z
        d_bias = c.new_zeros(parts, width)
        d_peephole = c.new_zeros(parts, 3 if peephole_3H is not None else 0, units)
        u, r = weight_hh.contiguous(), weight_hr.contiguous()
        packed, packed_r = team_packing(u, units), team_packing(r, outputs)
        arrays = ProjectedBackward(
            gates=gates, c=c, dy=dy, dp=dp, dm=dm, dh=dh, dc=dc, dz=dz, now=c.new_zeros(rows, outputs),
            none=c.new_zeros(rows, units), d_bias=d_bias, d_peephole=d_peephole, weight=u, weight_r=r, packed=packed,
            packed_r=packed_r, spares=team_spares(gates), peephole=team_peephole(peephole_3H, gates),
            lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(backward_task, steps * rows, arrays, coupled=ctx.coupled, by_rows=ctx.by_rows)
        d_hh = weight_gradient(dz.view(-1, width), h[:-1].view(-1, outputs))
        d_hr = weight_gradient(dp.view(-1, outputs), m.view(-1, units))
        back = None if order is None else order.argsort()
        peepholes = sum_of_parts(d_peephole) if peephole_3H is not None else None
        give_all(packed, packed_r, dm, dp)
        if dz is gates:  # there will be no second backward pass
            give_all(c, h, m)
        given = dz if back is None else dz.index_select(1, back)
        return given, take_rows(dh, back), take_rows(dc, back), d_hh, d_hr, peepholes, None, None
