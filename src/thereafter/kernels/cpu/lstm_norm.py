"""The layer-norm LSTM on a CPU; `cpu.lstm` says how it is built.

Shapes: T steps, B rows, H units, G = 4 H (3 H coupled).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.kernels.cpu.products import (
    place_for_gradient,
    refuse_second_derivative,
    run_team,
    shares_rows,
    team_packing,
    team_spares,
)


class LstmNormScan(torch.autograd.Function):
    """All steps from the normalised, projected input z. Inputs as `cpu.lstm.LstmScan`, then the gains."""

    @staticmethod
    def forward(
        ctx: Any,
        z_TBG: Tensor,
        h_BH: Tensor,
        c_BH: Tensor,
        weight_hh: Tensor,
        peephole_3H: Tensor | None,
        lengths: Tensor | None,
        coupled: bool,
        gain_G: Tensor,
        gain_c_2H: Tensor,
    ) -> tuple[Tensor, Tensor]:
        from thereafter.kernels.loops.lstm_norm import forward_task

        steps, rows, width = z_TBG.shape
        units = c_BH.shape[1]
        by_rows = shares_rows(rows, weight_hh)
        gates = z_TBG  # in place of z, as in `cpu.lstm`
        hat, hat_c = torch.empty_like(gates), z_TBG.new_empty(steps, rows, units)
        scale, scale_c = z_TBG.new_empty(steps, rows), z_TBG.new_empty(steps, rows)
        c, h = z_TBG.new_empty(steps + 1, rows, units), z_TBG.new_empty(steps + 1, rows, units)
        c[0], h[0] = c_BH, h_BH
        gains = gain_G.view(1, width).contiguous(), gain_c_2H.contiguous()
        work = team_packing(weight_hh, units), team_spares(gates), _rooms(gates, units)
        arrays = [gates, c, h, hat, scale, hat_c, scale_c, *gains, weight_hh.contiguous(), *work]
        run_team(forward_task, steps * rows, arrays, peephole_3H, lengths, [coupled, by_rows])
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(
                gates, c, h, hat, scale, hat_c, scale_c, weight_hh, peephole_3H, lengths, gain_G, gain_c_2H
            )
            ctx.coupled, ctx.by_rows = coupled, by_rows
        return h[1:], c[steps].clone()

    @staticmethod
    def backward(ctx: Any, dy_TBH: Tensor, dc_BH: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        from thereafter.kernels.loops.lstm_norm import backward_task

        gates, c, h, hat, scale, hat_c, scale_c, weight_hh, peephole, lengths, gain, gain_c = ctx.saved_tensors
        steps, rows, width = gates.shape
        units = c.shape[2]
        dz, du = place_for_gradient(gates), place_for_gradient(hat)
        dc, dh = dc_BH.clone(memory_format=torch.contiguous_format), torch.empty_like(h[0])
        sums = gates.new_zeros(torch.get_num_threads(), width + 5 * units)
        gains = gain.view(1, width).contiguous(), gain_c.contiguous()
        work = team_packing(weight_hh, units), team_spares(gates), _rooms(gates, units), sums
        arrays = [gates, c, dy_TBH.contiguous(), dh, dc, dz, du, hat, scale, hat_c, scale_c, *gains]
        arrays += [weight_hh.contiguous(), *work]
        run_team(backward_task, steps * rows, arrays, peephole, lengths, [ctx.coupled, ctx.by_rows])
        d_hh = du.view(steps * rows, width).t().mm(h[:-1].reshape(steps * rows, -1))
        d_gain, d_gain_c, d_peephole = sums.sum(0).split([width, 2 * units, 3 * units])
        given = d_peephole.view(3, units) if peephole is not None else None
        return dz, dh, dc, d_hh, given, None, None, d_gain, d_gain_c.view(2, units)


def _rooms(gates_TBG: Tensor, units: int) -> Tensor:
    """For each thread room for two rows of units and what is known of a row; and zeros for all gates."""
    return gates_TBG.new_zeros(torch.get_num_threads(), 2 * units + 3 + gates_TBG.shape[2])
