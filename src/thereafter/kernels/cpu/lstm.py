"""The LSTM on a CPU: its whole sequence in one compiled call, weight gradients in one product at the end.

Inputs and outputs before them lie side by side, [x_t, h_{t-1}], so that a step is one product with [W, U]. Where that
matrix is too large to stay in the caches of the cores (and W is not the smaller part by far), or there are too few rows
to make reading it worth while, the input's part is hoisted out of the steps: one product over all of them.

Shapes: T steps, B rows, I inputs, H units, G = 4 H (3 H coupled).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.lstm import LSTM
from thereafter.kernels.arrays import LstmBackward, LstmForward
from thereafter.kernels.cpu.lstm_norm import LstmNormScan
from thereafter.kernels.cpu.lstm_projected import ProjectedLstmScan
from thereafter.kernels.cpu.order import longest_first, own_copy, take_rows
from thereafter.kernels.cpu.plan import input_inside, shares_rows
from thereafter.kernels.cpu.products import (
    place_for_gradient,
    project_inputs,
    row_parts,
    run_team,
    sum_of_parts,
    team_lengths,
    team_packing,
    team_peephole,
    team_spares,
    weight_gradient,
    weight_gradients,
)
from thereafter.kernels.cpu.workspace import give, give_all, take
from thereafter.kernels.functions import apply_many
from thereafter.kernels.jobs import Job
from thereafter.kernels.second import is_passed_over, no_gradients


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
        order = longest_first(lengths, steps)
        h_BH, c_BH, lengths = take_rows(h_BH, order), take_rows(c_BH, order), take_rows(lengths, order)
        by_rows = shares_rows(rows, weight_hh.nbytes, ragged=lengths is not None)
        inside = input_inside(rows, width * (inputs + units) * x_BTI.element_size(), by_rows, inputs)
        learning = any(ctx.needs_input_grad)
        bias = bias_ih if bias_hh is None or bias_ih is None else bias_ih + bias_hh
        read = inputs if inside else 0
        # without a backward pass a step's gates and cells are given up for the next one's
        gates = take(x_BTI, steps if learning else 1, rows, width)
        c = take(x_BTI, steps + 1 if learning else 2, rows, units)
        xh = take(x_BTI, steps + 1 if learning or inside else 2, rows, read + units)
        y = x_BTI.new_empty(rows, steps, units)
        xh[0, :, read:], c[0] = h_BH, c_BH
        x_BTI, own = take_rows(x_BTI, order), [gates, c, xh]
        x_TBI, taken = x_BTI.transpose(0, 1), x_BTI.new_empty(0, 0, 0)
        if inside:
            if by_rows:
                taken = x_BTI.contiguous()  # laid beside h step by step
            else:
                xh[:-1, :, :inputs] = x_TBI
            weight = torch.cat((weight_ih, weight_hh), 1)
            z = (x_BTI.new_zeros(width) if bias is None else bias.contiguous()).view(1, 1, width)
        else:
            if not x_TBI.is_contiguous():
                x_TBI = take(x_BTI, steps, rows, inputs).copy_(x_TBI)
                own.append(x_TBI)
            z = gates
            if not learning:
                z = take(x_BTI, steps, rows, width)
                own.append(z)
            project_inputs(x_TBI.view(-1, inputs), weight_ih, bias, z.view(-1, width))
            weight = weight_hh.contiguous()
        packed = team_packing(weight, units)
        arrays = LstmForward(
            gates=gates, c=c, xh=xh, z=z, x=taken, y=y, weight=weight, packed=packed, spares=team_spares(gates),
            peephole=team_peephole(peephole_3H, gates), lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(forward_task, steps * rows, arrays, coupled=coupled, by_rows=by_rows)
        last = xh[steps % len(xh), :, read:].clone(), c[steps % len(c)].clone()
        give(packed)
        if learning:
            ctx.set_materialize_grads(False)
            saved = weight_ih, weight_hh, bias_ih, bias_hh, peephole_3H, lengths, order
            ctx.save_for_backward(None if inside else x_TBI, *saved, *own)
            ctx.coupled, ctx.inside, ctx.by_rows = coupled, inside, by_rows
        else:
            give_all(*own)
        back = None if order is None else order.argsort()
        return take_rows(y, back), take_rows(last[0], back), take_rows(last[1], back)

    @staticmethod
    def backward(
        ctx: Any, dy_BTH: Tensor | None, dh_BH: Tensor | None, dc_BH: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy_BTH, dh_BH, dc_BH):
            return no_gradients(ctx)
        from thereafter.kernels.loops.lstm_team import backward_task

        x_TBI, weight_ih, weight_hh, bias_ih, bias_hh, peephole_3H, lengths, order, *own = ctx.saved_tensors
        gates, c, xh = own[:3]
        steps, rows, width = gates.shape
        units, inputs = c.shape[2], weight_ih.shape[1]
        dz = place_for_gradient(gates)
        dy = c.new_zeros(rows, steps, units) if dy_BTH is None else take_rows(dy_BTH, order).contiguous()
        dh, dc = (torch.zeros_like(c[0]) if d is None else own_copy(d, order) for d in (dh_BH, dc_BH))
        parts = row_parts(rows, ragged=lengths is not None)
        d_bias = c.new_zeros(parts, width)
        d_peephole = c.new_zeros(parts, 3 if peephole_3H is not None else 0, units)
        inside = ctx.inside and ctx.needs_input_grad[0]
        dx = c.new_empty(rows, steps, inputs if inside else 0)
        w, u = (weight_ih if inside else weight_ih[:0]).contiguous(), weight_hh.contiguous()
        packed, packed_x = team_packing(u, units), team_packing(w, units) if inside else c.new_empty(0)
        arrays = LstmBackward(
            gates=gates, c=c, dy=dy, dh=dh, dc=dc, dz=dz, dx=dx, d_bias=d_bias, d_peephole=d_peephole,
            weight=u, weight_x=w, packed=packed, packed_x=packed_x, spares=team_spares(gates),
            peephole=team_peephole(peephole_3H, gates), lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(backward_task, steps * rows, arrays, coupled=ctx.coupled, by_rows=ctx.by_rows)
        give_all(packed, packed_x)
        flat = dz.view(steps * rows, width)
        if ctx.needs_input_grad[0] and not inside:
            dx = flat.mm(weight_ih).view(steps, rows, inputs).transpose(0, 1)
        if ctx.inside:
            d_ih, d_hh = weight_gradients(flat, xh[:-1].view(steps * rows, -1), inputs)
        else:
            d_ih = weight_gradient(flat, x_TBI.view(-1, inputs))
            d_hh = weight_gradient(flat, xh[:-1].view(-1, units))
        back = None if order is None else order.argsort()
        given = take_rows(dx, back) if ctx.needs_input_grad[0] else None
        bias = sum_of_parts(d_bias) if bias_ih is not None else None
        second = bias if bias_hh is not None else None
        peepholes = sum_of_parts(d_peephole) if peephole_3H is not None else None
        if dz is gates:  # there will be no second backward pass
            give_all(*own)
        return given, take_rows(dh, back), take_rows(dc, back), d_ih, d_hh, bias, second, peepholes, None, None


def run_lstm(cell: LSTM, job: Job) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """y of every step [B, T, H], and the last h and c, with layer norm or without."""
    weights = job.weights
    read = (weights["weight_ih"], weights["weight_hh"], weights.get("bias_ih"), weights.get("bias_hh"))
    given: tuple[object, ...] = (job.x_BTI, job.state.h, job.state.c, *read, *_shared(cell, job))
    scan: type[torch.autograd.Function] = LstmScan
    if cell.layer_norm:
        scan = LstmNormScan
        given += weights["norm_ih"], weights["norm_hh"], torch.stack([weights["norm_c"], weights["shift_c"]])
    y_BTH, h_BH, c_BH = apply_many(scan, *given)
    return y_BTH, (h_BH, c_BH)


def run_projected_lstm(cell: LSTM, job: Job, z_TBG: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The same for an LSTM whose output is projected, from its projected input: y of every step [B, T, O]."""
    weights = job.weights
    given = z_TBG, job.state.h, job.state.c, weights["weight_hh"], weights["weight_hr"]
    y_BTO, h_BO, c_BH = apply_many(ProjectedLstmScan, *given, *_shared(cell, job))
    return y_BTO, (h_BO, c_BH)


def _shared(cell: LSTM, job: Job) -> tuple[Tensor | None, Tensor | None, bool]:
    """Peepholes [3, H], lengths, and whether input and forget gates are coupled."""
    if not cell.options.peephole:
        return None, job.lengths_B, cell.options.coupled
    rows = [job.weights[f"peephole_{gate}"] for gate in ("input", "forget", "output") if gate in cell.blocks]
    if cell.options.coupled:
        rows.insert(1, torch.zeros_like(rows[0]))
    return torch.stack(rows), job.lengths_B, cell.options.coupled
