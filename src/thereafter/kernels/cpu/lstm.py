"""The LSTM on a CPU: its whole sequence in one compiled call, weight gradients in one product at the end.

Inputs and outputs before them lie side by side, [x_t, h_{t-1}], so that a step is one product with [W, U]. Where that
matrix is too large to stay in the caches of the cores, or there are too few rows to make reading it worth while, the
input's part is hoisted out of the steps: one product over all of them.

Shapes: T steps, B rows, I inputs, H units, G = 4 H (3 H coupled).
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
    hoisted,
    place_for_gradient,
    refuse_second_derivative,
    row_ends,
    run_team,
    team_packing,
    team_spares,
    weight_gradients,
)
from thereafter.kernels.cpu.workspace import give, give_all, take
from thereafter.kernels.jobs import Job

_CACHED = 1 << 19  # bytes of [W, U] a thread can keep at hand beside what it works on
_FEWEST_ROWS = 8  # of a batch, for the input's product to be worth while in a step


class LstmScan(torch.autograd.Function):
    """All steps of an LSTM: outputs [B, T, H], beyond a row's length 0, and the last h and c."""

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
    ) -> tuple[Tensor, Tensor, Tensor]:
        from thereafter.kernels.loops.lstm_team import forward_task

        rows, steps, inputs = x_BTI.shape
        width, units = weight_hh.shape
        xh = take(x_BTI, steps + 1, rows, inputs + units)
        xh[:-1, :, :inputs] = x_BTI.transpose(0, 1)
        xh[0, :, inputs:] = h_BH
        c, y = take(x_BTI, steps + 1, rows, units), x_BTI.new_empty(rows, steps, units)
        c[0] = c_BH
        bias = bias_ih if bias_hh is None or bias_ih is None else bias_ih + bias_hh
        inside = _inside(rows, width * (inputs + units) * x_BTI.element_size())
        gates = take(x_BTI, steps, rows, width)
        if inside:
            weight = torch.cat((weight_ih, weight_hh), 1)
            start = x_BTI.new_zeros(width) if bias is None else bias.contiguous()
        else:
            flat = xh[:-1].view(steps * rows, -1)[:, :inputs]
            hoisted(flat, weight_ih, bias, gates.view(steps * rows, width))
            weight, start = weight_hh.contiguous(), x_BTI.new_empty(0)
        packed = team_packing(weight, units)
        arrays = [a.numpy() for a in (gates, c, xh, y, weight, packed, team_spares(gates), start)]
        run_team(forward_task, gates, [*arrays, as_array(peephole_3H, gates), row_ends(lengths)], [coupled])
        last = xh[steps, :, inputs:].clone(), c[steps].clone()
        give(packed)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(gates, c, xh, weight_ih, weight_hh, bias_ih, bias_hh, peephole_3H, lengths)
            ctx.coupled, ctx.inside = coupled, inside
        else:
            give_all(gates, c, xh)
        return y, *last

    @staticmethod
    def backward(ctx: Any, dy_BTH: Tensor, dh_BH: Tensor, dc_BH: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        from thereafter.kernels.loops.lstm_team import backward_task

        gates, c, xh, weight_ih, weight_hh, bias_ih, bias_hh, peephole_3H, lengths = ctx.saved_tensors
        steps, rows, width = gates.shape
        units = c.shape[2]
        inputs = xh.shape[2] - units
        dz = place_for_gradient(gates)
        dh, dc = (d.clone(memory_format=torch.contiguous_format) for d in (dh_BH, dc_BH))
        d_peephole = c.new_zeros(3 if peephole_3H is not None else 0, units)
        inside = ctx.inside and ctx.needs_input_grad[0]
        dx = c.new_zeros(rows, steps, inputs if inside else 0)
        w, u = (weight_ih if inside else weight_ih[:0]).contiguous(), weight_hh.contiguous()
        packed = team_packing(u, units), team_packing(w, units) if inside else c.new_empty(0)
        filled = (gates, c, dy_BTH.contiguous(), dh, dc, dz, dx, d_peephole, u, w, *packed, team_spares(gates))
        arrays = [*(a.numpy() for a in filled), as_array(peephole_3H, gates), row_ends(lengths)]
        run_team(backward_task, gates, arrays, [ctx.coupled])
        give_all(*packed)
        flat, read = dz.view(steps * rows, width), xh[:-1].view(steps * rows, -1)
        if ctx.needs_input_grad[0] and not inside:
            dx = flat.mm(weight_ih).view(steps, rows, inputs).transpose(0, 1)
        given = dx if ctx.needs_input_grad[0] else None
        bias = flat.sum(0) if bias_ih is not None else None
        second = bias if bias_hh is not None else None
        peepholes = d_peephole if peephole_3H is not None else None
        d_ih, d_hh = weight_gradients(flat, read, inputs)
        if dz is gates:  # nobody will walk this way again
            give_all(gates, c, xh)
        return given, dh, dc, d_ih, d_hh, bias, second, peepholes, None, None


def _inside(rows: int, size: int) -> bool:
    """Whether the input's product belongs into the steps."""
    return rows >= _FEWEST_ROWS and size <= _CACHED * torch.get_num_threads()


def run_lstm(job: Job) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """y of every step [B, T, H], and the last h and c."""
    weights = job.weights
    read = (weights["weight_ih"], weights["weight_hh"], weights.get("bias_ih"), weights.get("bias_hh"))
    scan: Any = LstmScan
    y_BTH, h_BH, c_BH = scan.apply(job.x_BTI, job.state.h, job.state.c, *read, *_shared(job))
    return y_BTH, (h_BH, c_BH)


def run_lstm_of(job: Job, z_TBG: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The same for an LSTM with layer norm or a projection, from its projected input: h of every step [T, B, O]."""
    weights = job.weights
    given: tuple[Any, ...] = (z_TBG, job.state.h, job.state.c, weights["weight_hh"])
    scan: Any = LstmNormScan
    if job.cell.layer_norm:
        given += (*_shared(job), weights["norm_hh"], torch.stack([weights["norm_c"], weights["shift_c"]]))
    else:
        scan = ProjectedLstmScan
        given += (weights["weight_hr"], *_shared(job))
    h_TBO, c_BH = scan.apply(*given)
    return h_TBO, (h_TBO[-1], c_BH)


def _shared(job: Job) -> tuple[Tensor | None, Tensor | None, bool]:
    """Peepholes [3, H], lengths, and whether input and forget gates are coupled."""
    cell = job.cell
    if not isinstance(cell, LSTM):
        raise TypeError(f"expected an LSTM, got {cell!r}")
    if not cell.peephole:
        return None, job.lengths_B, cell.coupled
    rows = [job.weights[f"peephole_{gate}"] for gate in ("input", "forget", "output") if gate in cell.blocks]
    if cell.coupled:
        rows.insert(1, torch.zeros_like(rows[0]))
    return torch.stack(rows), job.lengths_B, cell.coupled
