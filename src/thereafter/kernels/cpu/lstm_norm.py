"""The layer-norm LSTM on a CPU; `cpu.lstm` says how it is built.

The norm of the input's product is part of the scan: a row of it is in the cache there, and all of them are megabytes.

Shapes: T steps, B rows, I inputs, H units, G = 4 H (3 H coupled).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.kernels.arrays import LstmNormBackward, LstmNormForward
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
    workable,
)
from thereafter.kernels.cpu.workspace import give, give_all, take
from thereafter.kernels.second import is_passed_over, no_gradients


class LstmNormScan(torch.autograd.Function):
    """All steps of a layer-norm LSTM. Inputs and outputs as `cpu.lstm.LstmScan`, then the weights of the norms."""

    @staticmethod
    def forward(
        ctx: Any,
        x_BTI: Tensor,
        h_BH: Tensor,
        c_BH: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor | None,
        bias_hh: Tensor | None,
        peephole_3H: Tensor | None,
        lengths: Tensor | None,
        coupled: bool,
        gain_ih: Tensor,
        gain_hh: Tensor,
        norm_c_2H: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        from thereafter.kernels.loops.lstm_norm import forward_task

        rows, steps, inputs = x_BTI.shape
        width, units = weight_hh.shape
        by_rows = shares_rows(rows, weight_hh.nbytes, ragged=False)
        x_TBI = x_BTI.transpose(0, 1).contiguous()
        gates, hat_x, hat = (take(x_BTI, steps, rows, width) for _ in range(3))
        c, h = (take(x_BTI, steps + 1, rows, units) for _ in range(2))
        hat_c, scales = take(x_BTI, steps, rows, units), x_BTI.new_empty(3, steps, rows)
        y = x_BTI.new_empty(rows, steps, units)
        c[0], h[0] = c_BH, h_BH
        torch.mm(x_TBI.view(-1, inputs), weight_ih.t(), out=hat_x.view(-1, width))
        no_bias = x_BTI.new_zeros(width)
        bias = (no_bias if bias_ih is None else bias_ih) + (no_bias if bias_hh is None else bias_hh)
        norms, norm_c = torch.stack((gain_ih, gain_hh, bias)), norm_c_2H.contiguous()
        packed = team_packing(weight_hh, units)
        arrays = LstmNormForward(
            gates=gates, c=c, m=h, y=y, hat_x=hat_x, hat=hat, hat_c=hat_c, scales=scales, norms=norms, norm_c=norm_c,
            weight=weight_hh.contiguous(), packed=packed, spares=team_spares(gates), rooms=_rooms(gates, units),
            peephole=team_peephole(peephole_3H, gates), lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(forward_task, steps * rows, arrays, coupled=coupled, by_rows=by_rows)
        last = h[steps].clone(), c[steps].clone()
        own = gates, c, h, hat_x, hat, hat_c
        give(packed)
        if any(ctx.needs_input_grad):
            ctx.set_materialize_grads(False)
            read = x_TBI, weight_ih, weight_hh, bias_ih, bias_hh, peephole_3H, lengths
            ctx.save_for_backward(*read, norms, norm_c, scales, *own)
            ctx.coupled, ctx.by_rows = coupled, by_rows
        else:
            give_all(*own)
        return y, *last

    @staticmethod
    def backward(
        ctx: Any, dy_BTH: Tensor | None, dh_BH: Tensor | None, dc_BH: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy_BTH, dh_BH, dc_BH):
            return no_gradients(ctx)
        from thereafter.kernels.loops.lstm_norm import backward_task

        x_TBI, weight_ih, weight_hh, bias_ih, bias_hh, peephole, lengths, *rest = ctx.saved_tensors
        norms, norm_c, scales, *own = rest
        gates, c, h, hat_x, hat, hat_c = own
        steps, rows, width = gates.shape
        units, inputs = c.shape[2], x_TBI.shape[2]
        dx, du = place_for_gradient(hat_x), place_for_gradient(hat)
        dy = c.new_zeros(rows, steps, units) if dy_BTH is None else dy_BTH.contiguous()
        dh, dc = (torch.zeros_like(c[0]) if d is None else workable(d) for d in (dh_BH, dc_BH))
        sums = gates.new_zeros(row_parts(rows, ragged=False), 3 * width + 5 * units)
        packed = team_packing(weight_hh, units)
        arrays = LstmNormBackward(
            gates=gates, c=c, dy=dy, dh=dh, dc=dc, dx=dx, du=du, hat_x=hat_x, hat=hat, hat_c=hat_c, scales=scales,
            norms=norms, norm_c=norm_c, weight=weight_hh.contiguous(), packed=packed, spares=team_spares(gates),
            rooms=_rooms(gates, units), sums=sums, peephole=team_peephole(peephole, gates),
            lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(backward_task, steps * rows, arrays, coupled=ctx.coupled, by_rows=ctx.by_rows)
        give(packed)
        flat, flat_u = dx.view(-1, width), du.view(-1, width)
        given = flat.mm(weight_ih).view(steps, rows, inputs).transpose(0, 1) if ctx.needs_input_grad[0] else None
        d_ih = weight_gradient(flat, x_TBI.view(-1, inputs))
        d_hh = weight_gradient(flat_u, h[:-1].view(-1, units))
        if du is hat:  # there will be no second backward pass
            give_all(*own)
        sizes = [width, width, width, 2 * units, 3 * units]
        d_gain_ih, d_gain_hh, bias, d_norm_c, d_peephole = sum_of_parts(sums).split_with_sizes(sizes)
        biases = bias if bias_ih is not None else None, bias if bias_hh is not None else None
        peepholes = d_peephole.view(3, units) if peephole is not None else None
        d_norms = d_gain_ih, d_gain_hh, d_norm_c.view(2, units)
        return given, dh, dc, d_ih, d_hh, *biases, peepholes, None, None, *d_norms


def _rooms(gates_TBG: Tensor, units: int) -> Tensor:
    """Room for each thread, zeros."""
    from thereafter.kernels.loops.lstm_norm import rooms_size

    return gates_TBG.new_zeros(torch.get_num_threads(), rooms_size(gates_TBG.shape[2], units))
