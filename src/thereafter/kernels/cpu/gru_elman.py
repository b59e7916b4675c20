"""The GRU and the simple recurrent network on a CPU: a whole sequence in one compiled call, as `cpu.lstm` has it.

The GRU, in both orders of reset and product: the input's product is hoisted out of the steps, weight gradients are
products over all of them at the end. Where reset comes after the product, r u with u = U_n h + b', the gradients of u
and of n's pre-activation differ. They stand beside those of r and z, in the order u, r, z, n: the recurrent weights see
the neighbours u, r, z, the input's r, z, n.

The simple recurrent network: outputs are made in place of the input's part of their pre-activations, batch first; one
copy of them, which nobody else can change, is kept for the backward pass.

Shapes: T steps, B rows, I inputs, H units, G = 3 H, N = T B.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import HState
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.options import ElmanOptions, choices_of
from thereafter.kernels.arrays import ElmanBackward, ElmanForward, GruBackward, GruForward
from thereafter.kernels.cpu.plan import input_inside, shares_rows
from thereafter.kernels.cpu.products import (
    give_all,
    layer_weights,
    longest_first,
    own_copy,
    place_for_gradient,
    project_inputs,
    row_parts,
    run_team,
    sum_of_parts,
    take,
    take_rows,
    team_lengths,
    team_packing,
    team_spares,
    weight_gradient,
)
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.second import is_passed_over, no_gradients
from thereafter.kernels.switches import apply_many


class GruScan(torch.autograd.Function):
    """All steps of a GRU: outputs [B, T, H], beyond a row's length 0, and the last h."""

    @staticmethod
    def forward(
        ctx: Any,
        x_BTI: Tensor,
        h_BH: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor | None,
        bias_hh: Tensor | None,
        lengths: Tensor | None,
        before: bool,
        old: bool,
    ) -> tuple[Tensor, Tensor]:
        from thereafter.kernels.loops.gru import forward_task

        rows, steps, inputs = x_BTI.shape
        width, units = weight_hh.shape
        order = longest_first(lengths, steps)
        lengths = take_rows(lengths, order)
        learning = any(ctx.needs_input_grad)
        by_rows = shares_rows(rows, weight_hh.nbytes)
        beside = 0 if before else units  # u
        gates = take(x_BTI, steps, rows, beside + width)
        h = take(x_BTI, steps + 1 if learning else 2, rows, units)
        reset = take(x_BTI, steps if learning else 1, rows, units) if before else x_BTI.new_empty(0, 0, 0)
        h[0] = take_rows(h_BH, order)
        own = [gates, h, reset]
        x_TBI = take_rows(x_BTI, order).transpose(0, 1)
        if not x_TBI.is_contiguous():
            x_TBI = take(x_BTI, steps, rows, inputs).copy_(x_TBI)
            own.append(x_TBI)
        bias, bias_n = _biases(bias_ih, bias_hh, before, units)
        project_inputs(x_TBI.view(-1, inputs), weight_ih, bias, gates.view(-1, beside + width)[:, beside:])
        weight, weight_n = _recurrent(weight_hh, before)
        weight_n = weight_n.t().contiguous()
        y = x_BTI.new_empty(rows, steps, units)
        packed, packed_n = team_packing(weight, units), team_packing(weight_n, units)
        arrays = GruForward(
            gates=gates, h=h, y=y, reset=reset, bias_n=x_BTI.new_zeros(units) if bias_n is None else bias_n,
            keep=_keep(x_BTI, old), weight=weight, weight_n=weight_n, packed=packed, packed_n=packed_n,
            spares=team_spares(gates), lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(forward_task, steps * rows * width * units, arrays, by_rows=by_rows)
        last = h[steps % len(h)].clone()
        give_all(packed, packed_n)
        if learning:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x_TBI, weight_ih, weight_hh, bias_ih, bias_hh, lengths, order, *own)
            ctx.before, ctx.old, ctx.by_rows = before, old, by_rows
        else:
            give_all(*own)
        back = None if order is None else order.argsort()
        return take_rows(y, back), take_rows(last, back)

    @staticmethod
    def backward(ctx: Any, dy_BTH: Tensor | None, dh_BH: Tensor | None) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy_BTH, dh_BH):
            return no_gradients(ctx)
        from thereafter.kernels.loops.gru import backward_task

        x_TBI, weight_ih, weight_hh, bias_ih, bias_hh, lengths, order, *own = ctx.saved_tensors
        gates, h, reset = own[:3]
        steps, rows, width = gates.shape
        units = h.shape[2]
        dz = place_for_gradient(gates)
        dy = h.new_zeros(rows, steps, units) if dy_BTH is None else take_rows(dy_BTH, order).contiguous()
        dh = torch.zeros_like(h[0]) if dh_BH is None else own_copy(dh_BH, order)
        d_bias = h.new_zeros(row_parts(rows), width)
        weight, weight_n = _recurrent(weight_hh, ctx.before)
        packed, packed_n = team_packing(weight, units), team_packing(weight_n, units)
        arrays = GruBackward(
            gates=gates, h=h, dy=dy, dh=dh, dz=dz, d_reset=torch.empty_like(dh), d_bias=d_bias,
            keep=_keep(h, ctx.old), weight=weight, weight_n=weight_n, packed=packed, packed_n=packed_n,
            spares=team_spares(gates), lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(backward_task, 3 * steps * rows * units**2, arrays, by_rows=ctx.by_rows)
        give_all(packed, packed_n)
        flat_NG, h_NH = dz.view(steps * rows, width), h[:-1].view(steps * rows, units)
        to_z_NG = flat_NG[:, -3 * units :]
        both_NG, new_NH, read_NH = flat_NG[:, : 2 * units], flat_NG[:, 2 * units :], reset.view(-1, units)
        if not ctx.before:
            both_NG, new_NH, read_NH = flat_NG[:, units : 3 * units], flat_NG[:, :units], h_NH
        d_hh = torch.cat((weight_gradient(both_NG, h_NH), weight_gradient(new_NH, read_NH)))
        d_ih = weight_gradient(to_z_NG, x_TBI.view(steps * rows, -1))
        back = None if order is None else order.argsort()
        dx = None
        if ctx.needs_input_grad[0]:
            dx = take_rows(to_z_NG.mm(weight_ih).view(steps, rows, -1).transpose(0, 1), back)
        bias = sum_of_parts(d_bias)
        first = bias[-3 * units :] if bias_ih is not None else None
        second = None if bias_hh is None else _second_bias(bias, units)
        if dz is gates:  # there will be no second backward pass
            give_all(*own)
        return dx, take_rows(dh, back), d_ih, d_hh, first, second, None, None, None


def _biases(
    bias_ih: Tensor | None, bias_hh: Tensor | None, before: bool, units: int
) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the input's product [G], and what the reset gate multiplies [H]."""
    if bias_ih is None or bias_hh is None:
        return bias_ih, None
    if before:
        return bias_ih + bias_hh, None
    hoisted = bias_ih.clone()
    hoisted[: 2 * units] += bias_hh[: 2 * units]
    return hoisted, bias_hh[2 * units :].contiguous()


def _keep(like: Tensor, old: bool) -> Tensor:
    """What z keeps of the old state, keep[0] + keep[1] z: z itself, or 1 - z."""
    return like.new_tensor((0.0, 1.0) if old else (1.0, -1.0))


def _second_bias(d_bias: Tensor, units: int) -> Tensor:
    """The gradient of the recurrent product's bias, from those of the blocks u, r, z, n, or r, z, n."""
    if len(d_bias) == 3 * units:
        return d_bias.clone()  # no second view: autograd may keep each as a weight's gradient, to be worked on in place
    return torch.cat((d_bias[units : 3 * units], d_bias[:units]))


def _recurrent(weight_hh: Tensor, before: bool) -> tuple[Tensor, Tensor]:
    """The matrices of a step's products: U as n, r, z, and none; or U of r and z, and that of n."""
    units = weight_hh.shape[1]
    if before:
        return weight_hh[: 2 * units].contiguous(), weight_hh[2 * units :].contiguous()
    return torch.cat((weight_hh[2 * units :], weight_hh[: 2 * units])), weight_hh.new_empty(0, 0)


def run_gru(cell: GRU, job: Job) -> Unrolled:
    """All steps of a job."""
    options = cell.options
    y_BTH, h_BH = apply_many(
        GruScan, job.x_BTI, job.state.h, *layer_weights(job), job.lengths_B, options.reset == "before",
        options.update == "old",
    )  # fmt: skip
    return Unrolled(y_BTH, HState(h_BH))


_KINDS = {name: torch.tensor([k], device="cpu") for k, name in enumerate(choices_of(ElmanOptions, "nonlinearity"))}


class ElmanScan(torch.autograd.Function):
    """h_t = f(W x_t + U h_{t-1} + b): all of them [B, T, H], beyond a row's length 0, and the last."""

    @staticmethod
    def forward(
        ctx: Any,
        x_BTI: Tensor,
        h_BH: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor | None,
        bias_hh: Tensor | None,
        lengths: Tensor | None,
        nonlinearity: str,
    ) -> tuple[Tensor, Tensor]:
        from thereafter.kernels.loops.elman import forward_task

        rows, steps, inputs = x_BTI.shape
        units = len(weight_hh)
        order = longest_first(lengths, steps)
        h_BH, lengths = take_rows(h_BH, order), take_rows(lengths, order)
        by_rows = shares_rows(rows, weight_hh.nbytes, ragged=lengths is not None)
        inside = input_inside(rows, weight_ih.nbytes + weight_hh.nbytes, by_rows, inputs)
        learning = any(ctx.needs_input_grad)
        bias = bias_ih if bias_hh is None or bias_ih is None else bias_ih + bias_hh
        y, own = x_BTI.new_empty(rows, steps, units), []
        states, kept = y.new_empty(2, rows, units), y.new_empty(rows, 0, units)
        states[0] = h_BH
        if learning:
            kept = take(x_BTI, rows, steps, units)
            kept[:, 0] = h_BH
            own.append(kept)
        x_BTI = take_rows(x_BTI, order)
        if not x_BTI.is_contiguous():
            x_BTI = take(x_BTI, rows, steps, inputs).copy_(x_BTI)
            own.append(x_BTI)
        if not inside:
            project_inputs(x_BTI.view(-1, inputs), weight_ih, bias, y.view(-1, units))
        w, u = (weight_ih if inside else weight_ih[:0]).contiguous(), weight_hh.contiguous()
        packed, packed_x = team_packing(u, units), team_packing(w, units) if inside else y.new_empty(0)
        arrays = ElmanForward(
            y=y, states=states, kept=kept, x=x_BTI if inside else y.new_empty(0, 0, 0),
            bias=y.new_zeros(units) if bias is None else bias.contiguous(), weight=u, weight_x=w, packed=packed,
            packed_x=packed_x, spares=team_spares(states), kind=_KINDS[nonlinearity], lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(forward_task, steps * rows * units**2, arrays, by_rows=by_rows)
        give_all(packed, packed_x)
        last = states[steps % 2]
        if learning:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x_BTI, last, weight_ih, weight_hh, bias_ih, bias_hh, lengths, order, *own)
            ctx.nonlinearity, ctx.inside, ctx.by_rows = nonlinearity, inside, by_rows
        else:
            give_all(*own)
        back = None if order is None else order.argsort()
        return take_rows(y, back), last.clone() if back is None else take_rows(last, back)

    @staticmethod
    def backward(ctx: Any, dy_BTH: Tensor | None, dh_BH: Tensor | None) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy_BTH, dh_BH):
            return no_gradients(ctx)
        from thereafter.kernels.loops.elman import backward_task

        x_BTI, last, weight_ih, weight_hh, bias_ih, bias_hh, lengths, order, *own = ctx.saved_tensors
        kept = own[0]
        rows, steps, units = kept.shape
        inputs = x_BTI.shape[2]
        dz = take(kept, rows, steps, units)
        dy = dz.zero_() if dy_BTH is None else take_rows(dy_BTH, order)
        if not dy.is_contiguous():
            dy = dz.copy_(dy)
        dh = torch.zeros_like(last) if dh_BH is None else own_copy(dh_BH, order)
        d_bias = last.new_zeros(row_parts(rows, ragged=lengths is not None), units)
        inside = ctx.inside and ctx.needs_input_grad[0]
        dx = last.new_empty(rows, steps, inputs if inside else 0)
        w, u = (weight_ih if inside else weight_ih[:0]).contiguous(), weight_hh.contiguous()
        packed, packed_x = team_packing(u, units), team_packing(w, units) if inside else last.new_empty(0)
        arrays = ElmanBackward(
            kept=kept, end=last, dy=dy, dh=dh, dz=dz, dx=dx, now=last.new_zeros(2, rows, units), d_bias=d_bias,
            weight=u, weight_x=w, packed=packed, packed_x=packed_x, spares=team_spares(last.unsqueeze(0)),
            kind=_KINDS[ctx.nonlinearity], lengths=team_lengths(lengths),
        )  # fmt: skip
        run_team(backward_task, steps * rows * units**2, arrays, by_rows=ctx.by_rows)
        flat = dz.view(-1, units)
        if ctx.needs_input_grad[0] and not inside:
            dx = flat.mm(weight_ih).view(rows, steps, inputs)
        d_ih, d_hh = weight_gradient(flat, x_BTI.view(-1, inputs)), weight_gradient(flat, kept.view(-1, units))
        back = None if order is None else order.argsort()
        bias = sum_of_parts(d_bias) if bias_ih is not None else None
        second = bias if bias_hh is not None else None
        give_all(dz, packed, packed_x)
        if place_for_gradient(kept) is kept:  # there will be no second backward pass
            give_all(*own)
        given = take_rows(dx, back) if ctx.needs_input_grad[0] else None
        return given, take_rows(dh, back), d_ih, d_hh, bias, second, None, None


def run_elman(cell: Elman, job: Job) -> Unrolled:
    """All steps of a job."""
    y_BTH, h_BH = apply_many(
        ElmanScan, job.x_BTI, job.state.h, *layer_weights(job), job.lengths_B, cell.options.nonlinearity
    )
    return Unrolled(y_BTH, HState(h_BH))
