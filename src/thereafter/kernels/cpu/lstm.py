"""The LSTM on a CPU: its whole sequence in one compiled call, weight gradients in one product at the end.

Inputs and outputs before them lie side by side, [x_t, h_{t-1}], so that a step is one product with [W, U]. Where that
matrix is too large to stay in the caches of the cores (and W is not the smaller part by far), or there are too few rows
to make reading it worth while, the input's part is hoisted out of the steps: one product over all of them.

The LSTM whose output is projected, h = W_hr m, and the layer-norm LSTM are built alike. The norm of the input's product
is part of the scan: a row of it is in the cache there, and all of them are megabytes.

Shapes: T steps, B rows, I inputs, H units, O outputs, G = 4 H (3 H coupled).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import HCState
from thereafter.cells.lstm import LSTM
from thereafter.kernels.arrays import (
    LstmBackward,
    LstmForward,
    LstmNormBackward,
    LstmNormForward,
    ProjectedBackward,
    ProjectedForward,
)
from thereafter.kernels.cpu.plan import input_inside, shares_rows
from thereafter.kernels.cpu.products import (
    give,
    give_all,
    layer_weights,
    longest_first,
    own_copy,
    place_for_gradient,
    project,
    project_inputs,
    row_parts,
    run_team,
    sum_of_parts,
    take,
    take_rows,
    team_lengths,
    team_packing,
    team_peephole,
    team_spares,
    weight_gradient,
    weight_gradients,
    workable,
)
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.second import is_passed_over, no_gradients
from thereafter.kernels.switches import apply_many


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
        from thereafter.kernels.loops.lstm import forward_task

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
        run_team(forward_task, steps * rows * width * units, arrays, coupled=coupled, by_rows=by_rows)
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
        from thereafter.kernels.loops.lstm import backward_task

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
        run_team(backward_task, steps * rows * width * units, arrays, coupled=ctx.coupled, by_rows=ctx.by_rows)
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


def run_lstm(cell: LSTM, job: Job) -> Unrolled:
    """All steps of a job, with layer norm or a projection or neither."""
    weights, state = job.weights, job.state
    shared = _shared(cell, job)
    if cell.output_size != cell.hidden_size:
        given = project(job), state.h, state.c, weights["weight_hh"], weights["weight_hr"]
        y_BTO, h_BO, c_BH = apply_many(ProjectedLstmScan, *given, *shared)
    elif cell.layer_norm:
        norms = weights["norm_ih"], weights["norm_hh"], torch.stack([weights["norm_c"], weights["shift_c"]])
        y_BTO, h_BO, c_BH = apply_many(LstmNormScan, job.x_BTI, state.h, state.c, *layer_weights(job), *shared, *norms)
    else:
        y_BTO, h_BO, c_BH = apply_many(LstmScan, job.x_BTI, state.h, state.c, *layer_weights(job), *shared)
    return Unrolled(y_BTO, HCState(h_BO, c_BH))


def _shared(cell: LSTM, job: Job) -> tuple[Tensor | None, Tensor | None, bool]:
    """Peepholes [3, H], lengths, and whether input and forget gates are coupled."""
    if not cell.options.peephole:
        return None, job.lengths_B, cell.options.coupled
    rows = [job.weights[f"peephole_{gate}"] for gate in ("input", "forget", "output") if gate in cell.blocks]
    if cell.options.coupled:
        rows.insert(1, torch.zeros_like(rows[0]))
    return torch.stack(rows), job.lengths_B, cell.options.coupled


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
        from thereafter.kernels.loops.lstm_projected import forward_task

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
        run_team(forward_task, gates.numel() * units, arrays, coupled=coupled, by_rows=by_rows)
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
        from thereafter.kernels.loops.lstm_projected import backward_task

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
        run_team(backward_task, steps * rows * width * units, arrays, coupled=ctx.coupled, by_rows=ctx.by_rows)
        d_hh = weight_gradient(dz.view(-1, width), h[:-1].view(-1, outputs))
        d_hr = weight_gradient(dp.view(-1, outputs), m.view(-1, units))
        back = None if order is None else order.argsort()
        peepholes = sum_of_parts(d_peephole) if peephole_3H is not None else None
        give_all(packed, packed_r, dm, dp)
        if dz is gates:  # there will be no second backward pass
            give_all(c, h, m)
        given = dz if back is None else dz.index_select(1, back)
        return given, take_rows(dh, back), take_rows(dc, back), d_hh, d_hr, peepholes, None, None


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
        run_team(forward_task, steps * rows * width * units, arrays, coupled=coupled, by_rows=by_rows)
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
        run_team(backward_task, steps * rows * width * units, arrays, coupled=ctx.coupled, by_rows=ctx.by_rows)
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
