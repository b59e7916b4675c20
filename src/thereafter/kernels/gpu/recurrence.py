"""A whole sequence through a persistent program, and everything around it: projections, gradients of weights.

    forward     projected = W x + b for all steps at once;  then step by step a = projected_t + U h_{t-1}
    backward    da_t step by step;  then for all steps  dW = sum da_t x_t',  dU = sum da_t h_{t-1}',  dx_t = W' da_t

Shapes: T steps, B rows, I inputs, H units; P, J, K: the same filled up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.kernels.functions import apply_many
from thereafter.kernels.gpu.four_blocks import FourBlocks
from thereafter.kernels.gpu.geometry import Geometry
from thereafter.kernels.gpu.launching import BackwardArrays, Formula, ForwardArrays, Hold, Launcher
from thereafter.kernels.gpu.layout import FilledUnits, filled
from thereafter.kernels.gpu.preparing import last_cell
from thereafter.kernels.second import is_passed_over, no_gradients

_ALIGNED = 8
"""Inputs are filled up to a multiple of this: 16 bytes of 16-bit numbers."""

MaybeTensors = tuple[Tensor | None, ...]


class LayerTensors(NamedTuple):
    """The tensors of a layer that have gradients, in any floating type.

    `peepholes`: [3, H] in float32. `first_BG`: added to W x + b of the first step, in the cell's own order of gates.
    """

    x_BTI: Tensor
    h_BH: Tensor
    c_BH: Tensor | None
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    peepholes: Tensor | None
    first_BG: Tensor | None


class Needed(NamedTuple):
    """Which of these gradients are asked for."""

    x: bool
    h: bool
    c: bool
    weight_ih: bool
    weight_hh: bool
    bias_ih: bool
    bias_hh: bool
    peepholes: bool
    first: bool


@dataclass(frozen=True)
class PassPlan:
    """All that has no gradient. `low`: the type of products, states and outputs. `marks` [T + 1, P], `hold_h` and
    `hold_c` as the programs take them."""

    blocks: FourBlocks
    over: Geometry
    launcher: Launcher
    low: torch.dtype
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold


class _Called(Protocol):
    plan: PassPlan
    rows: int
    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


def persistent(plan: PassPlan, given: LayerTensors) -> tuple[Tensor, Tensor, Tensor | None]:
    """Outputs [B, T, H], the last h and c [B, H]."""
    y_BTH, h_BH, c_BH = apply_many(_Persistent, plan, *given)
    return y_BTH, h_BH, c_BH if given.c_BH is not None else None


class _Persistent(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Called,
        plan: PassPlan,
        x_BTI: Tensor,
        h_BH: Tensor,
        c_BH: Tensor | None,
        weight_ih: Tensor,
        weight_hh: Tensor,
        *more: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        given = LayerTensors(x_BTI, h_BH, c_BH, weight_ih, weight_hh, *more)
        over, blocks, copies, low = plan.over, plan.blocks, plan.launcher.copies, plan.low
        rows, steps, inputs = x_BTI.shape
        units, own = weight_hh.shape[1], over.forward.own
        save = any(ctx.needs_input_grad)
        of_input, of_state = (FilledUnits(units, over.units, places) for places in (blocks.of_input, blocks.of_state))
        columns = -(-inputs // _ALIGNED) * _ALIGNED
        x_TPJ = copies.rows(x_BTI.transpose(0, 1), over.rows, columns, low)
        w_ih = copies.slices(weight_ih, of_input, columns, own, low)
        w_hh = copies.slices(weight_hh, of_state, over.units, own, low)
        projected = F.linear(x_TPJ, w_ih, _sliced_bias(given, plan, of_input, of_state))
        if given.first_BG is not None:
            first = copies.slices(given.first_BG.t().contiguous(), of_state, rows, own, low)
            projected[0, :rows] += first.t()
        states = projected.new_empty(steps + 1, over.rows, over.units)
        cells = states.new_empty(steps + 1 if save else 1, over.rows, over.units, dtype=torch.float32)
        copies.first(h_BH, states[0])
        copies.first(h_BH if c_BH is None else c_BH, cells[0])
        if plan.marks is not None:
            states[0], cells[0] = _begun(states[0], plan.marks), _begun(cells[0], plan.marks)
        last_c = torch.empty_like(cells[0])
        outputs = None if plan.marks is None else torch.empty_like(states[1:])
        peepholes = None if given.peepholes is None else filled(given.peepholes, 3, over.units)
        formula = Formula(blocks.form, peepholes is not None, plan.marks is not None)
        arrays = ForwardArrays(
            projected, w_hh, states, outputs, cells, last_c, peepholes, plan.marks, plan.hold_h, plan.hold_c
        )
        plan.launcher.forward(formula, over, arrays)
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.rows = plan, rows
        if save:
            ctx.save_for_backward(x_TPJ, weight_ih, weight_hh, projected, states, cells, peepholes)
        y_TPK = states[1:] if outputs is None else outputs
        # last states of their own: callers may change them in place
        last_h = states[-1, :rows, :units].clone()
        return y_TPK[:, :rows, :units].transpose(0, 1), last_h, last_cell(last_c[:rows, :units], low)

    @staticmethod
    def backward(ctx: _Called, *gradients: Tensor | None) -> MaybeTensors:
        if is_passed_over(*gradients):
            return no_gradients(ctx)
        plan, rows = ctx.plan, ctx.rows
        over, blocks, copies, low = plan.over, plan.blocks, plan.launcher.copies, plan.low
        x_TPJ, weight_ih, weight_hh, kept, states, cells, peepholes = ctx.saved_tensors
        units, inputs, steps = weight_hh.shape[1], weight_ih.shape[1], len(x_TPJ)
        of_input, of_state = (FilledUnits(units, over.units, places) for places in (blocks.of_input, blocks.of_state))
        needed = Needed(*ctx.needs_input_grad[1:])
        arrays = _backward_arrays(plan, gradients, copies.turned(weight_hh, of_state, low), kept, cells, peepholes)
        plan.launcher.backward(Formula(blocks.form, peepholes is not None, plan.marks is not None), over, arrays)
        d_gates, d_first_c = arrays.d_gates, arrays.d_first_c
        d_NG = d_gates[:-1].view(steps * over.rows, -1)
        dx_BTI = dh_BH = dc_BH = d_ih = d_hh = d_bias_ih = d_bias_hh = d_peepholes = d_first_BG = None
        if needed.x:
            w_ih = copies.blocks(weight_ih, of_input, x_TPJ.shape[2], low)
            dx_BTI = (d_NG @ w_ih).view_as(x_TPJ)[:, :rows, :inputs].transpose(0, 1)
        if needed.h:
            through = d_gates[0].flatten(1) @ copies.blocks(weight_hh, of_state, over.units, low)
            direct = arrays.d_first_h if blocks.has_memory else d_first_c
            dh_BH = (_begun(through.float(), plan.marks) + direct)[:rows, :units]
        if needed.c:
            dc_BH = d_first_c[:rows, :units]
        if needed.weight_ih:
            d_ih = copies.gates(d_NG.t() @ x_TPJ.flatten(0, 1), of_input, inputs, weight_ih.dtype)
        if needed.weight_hh:
            d_hh = copies.gates(d_NG.t() @ states[:-1].flatten(0, 1), of_state, units, weight_hh.dtype)
        if needed.bias_ih or needed.bias_hh:
            sums = arrays.d_biases.sum(1).view(4 * over.units, 1)
            d_bias_ih = copies.gates(sums, of_input, 1, weight_ih.dtype).flatten() if needed.bias_ih else None
            if needed.bias_hh:
                same = needed.bias_ih and blocks.of_input == blocks.of_state
                d_bias_hh = d_bias_ih if same else copies.gates(sums, of_state, 1, weight_hh.dtype).flatten()
        if needed.peepholes and arrays.d_peepholes is not None:
            d_peepholes = arrays.d_peepholes.sum(1)[:, :units]
        if needed.first:
            d_first = d_gates[0].flatten(1).t().contiguous()
            d_first_BG = copies.gates(d_first, of_state, over.rows, low)[:, :rows].t()
        return None, dx_BTI, dh_BH, dc_BH, d_ih, d_hh, d_bias_ih, d_bias_hh, d_peepholes, d_first_BG


def _backward_arrays(
    plan: PassPlan, gradients: MaybeTensors, turned: Tensor, kept: Tensor, cells: Tensor, peepholes: Tensor | None
) -> BackwardArrays:
    """What the backward pass reads and writes, from the gradients of outputs and last states."""
    dy_BTH, dh_BH, dc_BH = gradients
    over, copies, low, steps = plan.over, plan.launcher.copies, plan.low, len(kept)
    if not plan.blocks.has_memory:
        dc_BH, dh_BH = dh_BH, None
    charged = dh_BH is not None or dc_BH is not None
    d_gates = kept.new_empty(steps + 1, over.rows, 4, over.units)
    d_gates[-1] = 0
    if dy_BTH is None:
        d_outputs = kept.new_zeros(steps, over.rows, over.units)
    else:
        d_outputs = copies.rows(dy_BTH.transpose(0, 1), over.rows, over.units, low)
    return BackwardArrays(
        kept,
        turned,
        d_outputs,
        d_gates,
        cells,
        _charge(dh_BH, cells[0]) if charged else None,
        _charge(dc_BH, cells[0]) if charged else None,
        torch.empty_like(cells[0]),
        torch.empty_like(cells[0]),
        peepholes,
        None if peepholes is None else cells.new_empty(3, over.rows, over.units),
        cells.new_empty(4, over.rows, over.units),
        plan.marks,
        plan.hold_h,
        plan.hold_c,
    )


def _sliced_bias(given: LayerTensors, plan: PassPlan, of_input: FilledUnits, of_state: FilledUnits) -> Tensor | None:
    """b + b' in the order of the slices, in the type of the products."""
    biases = [(bias, how) for bias, how in ((given.bias_ih, of_input), (given.bias_hh, of_state)) if bias is not None]
    if len(biases) == 2 and of_input == of_state:
        biases = [(biases[0][0] + biases[1][0], of_input)]
    copies, own = plan.launcher.copies, plan.over.forward.own
    placed = [copies.slices(bias.unsqueeze(1), how, 1, own, plan.low).squeeze(1) for bias, how in biases]
    return sum(placed[1:], placed[0]) if placed else None


def _begun(state_PK: Tensor, marks: Tensor | None) -> Tensor:
    """A state before the first step: 0 in rows that begin anew there."""
    return state_PK if marks is None else torch.where(((marks[0] & 2) != 0).unsqueeze(1), 0.0, state_PK)


def _charge(d_BH: Tensor | None, like_PK: Tensor) -> Tensor:
    """The gradient of a last state, in float32."""
    return torch.zeros_like(like_PK) if d_BH is None else filled(d_BH.float(), *like_PK.shape)
