"""The simple recurrent network on a CPU: its whole sequence in one compiled call, as `cpu.lstm` has it.

Outputs are made in place of the input's part of their pre-activations, batch first; one copy of them, which nobody else
can change, is kept for the backward pass. Shapes: T steps, B rows, I inputs, H units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from thereafter.base.compiled import CFunction
from thereafter.cells.elman import Elman
from thereafter.cells.options import ElmanOptions, choices_of
from thereafter.kernels.arrays import ElmanBackward, ElmanForward, FloatType
from thereafter.kernels.cpu.plan import input_inside, shares_rows, worth_a_team
from thereafter.kernels.cpu.products import (
    longest_first,
    own_copy,
    place_for_gradient,
    project_inputs,
    row_parts,
    sum_of_parts,
    take_rows,
    team_lengths,
    team_packing,
    team_spares,
    weight_gradient,
)
from thereafter.kernels.cpu.workspace import give_all, take
from thereafter.kernels.functions import apply_many
from thereafter.kernels.jobs import Job
from thereafter.kernels.second import is_passed_over, no_gradients

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
        from thereafter.kernels.loops.elman_team import forward_task

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
        _run(forward_task, arrays, steps, by_rows, arrays.states)
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
        from thereafter.kernels.loops.elman_team import backward_task

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
        _run(backward_task, arrays, steps, ctx.by_rows, arrays.now)
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


def _run(
    task: Callable[[FloatType], CFunction],
    arrays: ElmanForward[Tensor] | ElmanBackward[Tensor],
    steps: int,
    by_rows: bool,
    states: Tensor,
) -> None:
    """Run a task over so many steps, whose states are [2, B, H]: on all threads, or on this one where there is too
    little to share."""
    from thereafter.kernels.loops.team import NUMPY, call

    operations = steps * states.numel() * states.shape[-1]
    call(task(NUMPY[states.dtype]), [*arrays], [False, by_rows], alone=not worth_a_team(operations))


def run_elman(cell: Elman, job: Job) -> tuple[Tensor, tuple[Tensor]]:
    """y of every step [B, T, H], and the last h."""
    weights, nonlinearity = job.weights, cell.options.nonlinearity
    read = (weights["weight_ih"], weights["weight_hh"], weights.get("bias_ih"), weights.get("bias_hh"))
    y_BTH, h_BH = apply_many(ElmanScan, job.x_BTI, job.state.h, *read, job.lengths_B, nonlinearity)
    return y_BTH, (h_BH,)
