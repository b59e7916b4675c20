"""The LSTM on a CPU: one product a step, everything else fused, weight gradients in one product at the end.

Shapes: T steps, B rows, H units, O outputs (H or the projection's size), G = 4 H (3 H coupled).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.lstm import LSTM
from thereafter.kernels.cpu.lstm_norm import LstmNormScan
from thereafter.kernels.cpu.lstm_projected import ProjectedLstmScan
from thereafter.kernels.cpu.products import (
    as_array,
    place_for_gradient,
    refuse_second_derivative,
    row_ends,
    run_team,
    team_room,
)
from thereafter.kernels.jobs import Job


class LstmScan(torch.autograd.Function):
    """All steps of an LSTM from its projected input z, both biases in it: h of every step, and the last c."""

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
    ) -> tuple[Tensor, Tensor]:
        from thereafter.kernels.loops.lstm_team import forward_task

        steps, rows, _ = z_TBG.shape
        units = c_BH.shape[1]
        learning = any(ctx.needs_input_grad)
        # The gates take the place of z, which nobody else holds: no second array of that size, and no copy a step.
        gates = z_TBG
        c, h = z_TBG.new_empty(steps + 1, rows, units), z_TBG.new_empty(steps + 1, rows, units)
        c[0], h[0] = c_BH, h_BH
        arrays = [a.numpy() for a in (gates, c, h, weight_hh.detach().contiguous())]
        arrays += [*team_room(gates, units), as_array(peephole_3H, gates), row_ends(lengths)]
        run_team(forward_task, gates, arrays, [coupled])
        if learning:
            ctx.save_for_backward(gates, c, h, weight_hh, peephole_3H, lengths)
            ctx.coupled = coupled
        return h[1:], c[steps].clone()

    @staticmethod
    def backward(ctx: Any, dy_TBH: Tensor, dc_BH: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        from thereafter.kernels.loops.lstm_team import backward_task

        gates, c, h, weight_hh, peephole_3H, lengths = ctx.saved_tensors
        steps, rows, width = gates.shape
        dz, dc, dh = (
            place_for_gradient(gates),
            dc_BH.clone(memory_format=torch.contiguous_format),
            torch.empty_like(h[0]),
        )
        d_peephole = c.new_zeros(3 if peephole_3H is not None else 0, c.shape[2])
        arrays = [a.numpy() for a in (gates, c, dy_TBH.contiguous(), dh, dc, dz, d_peephole, weight_hh.contiguous())]
        arrays += [*team_room(gates, c.shape[2]), as_array(peephole_3H, gates), row_ends(lengths)]
        run_team(backward_task, gates, arrays, [ctx.coupled])
        d_hh = dz.view(steps * rows, width).t().mm(h[:-1].reshape(steps * rows, -1))
        return dz, dh, dc, d_hh, d_peephole if peephole_3H is not None else None, None, None


def run_lstm(job: Job, z_TBG: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """h of every step [T, B, O], and the last h and c."""
    cell, weights = job.cell, job.weights
    if not isinstance(cell, LSTM):
        raise TypeError(f"expected an LSTM, got {cell!r}")
    peephole = None
    if cell.peephole:
        rows = [weights[f"peephole_{gate}"] for gate in ("input", "forget", "output") if gate in cell.blocks]
        if cell.coupled:
            rows.insert(1, torch.zeros_like(rows[0]))
        peephole = torch.stack(rows)
    shared: tuple[Any, ...] = (peephole, job.lengths_B, cell.coupled)
    state: tuple[Any, ...] = (z_TBG, job.state.h, job.state.c, weights["weight_hh"])
    scan: Any = LstmScan
    if cell.layer_norm:
        scan = LstmNormScan
        shared += (weights["norm_hh"], torch.stack([weights["norm_c"], weights["shift_c"]]))
    elif "weight_hr" in weights:
        scan, state = ProjectedLstmScan, (*state, weights["weight_hr"])
    h_TBO, c_BH = scan.apply(*state, *shared)
    return h_TBO, (h_TBO[-1], c_BH)
