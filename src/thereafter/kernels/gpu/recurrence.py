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
from thereafter.kernels.gpu.layout import filled, from_blocks, in_blocks, in_slices, turned
from thereafter.kernels.second import no_gradients, recording

_ALIGNED = 8
"""Inputs are filled up to a multiple of this: 16 bytes of 16-bit numbers."""

MaybeTensors = tuple[Tensor | None, ...]


class LayerTensors(NamedTuple):
    """The tensors of a layer that have gradients, all but x in the types they are computed with.

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
    """All that has no gradient. `marks` [T + 1, P], `hold_h` and `hold_c` as the programs take them."""

    blocks: FourBlocks
    over: Geometry
    launcher: Launcher
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold


class _Called(Protocol):
    asked: PassPlan
    rows: int
    first: bool
    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


def persistent(asked: PassPlan, given: LayerTensors) -> tuple[Tensor, Tensor, Tensor | None]:
    """Outputs [B, T, H], the last h and c [B, H]."""
    y_BTH, h_BH, c_BH = apply_many(_Persistent, asked, *given)
    return y_BTH, h_BH, c_BH if given.c_BH is not None else None


class _Persistent(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Called,
        asked: PassPlan,
        x_BTI: Tensor,
        h_BH: Tensor,
        c_BH: Tensor | None,
        weight_ih: Tensor,
        weight_hh: Tensor,
        *more: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        given = LayerTensors(x_BTI, h_BH, c_BH, weight_ih, weight_hh, *more)
        over, blocks = asked.over, asked.blocks
        rows, steps, inputs = given.x_BTI.shape
        units, low = given.weight_hh.shape[1], given.x_BTI.dtype
        save = any(ctx.needs_input_grad)
        wide = -(-inputs // _ALIGNED) * _ALIGNED
        x_TPJ = filled(given.x_BTI.transpose(0, 1), over.rows, wide)
        w_ih = in_blocks(given.weight_ih, blocks.of_input, units, over.units, wide)
        w_hh = in_blocks(given.weight_hh, blocks.of_state, units, over.units, over.units)
        own = over.forward.own
        projected = F.linear(x_TPJ, in_slices(w_ih, own), _sliced_bias(given, asked, units))
        if given.first_BG is not None:
            first = in_blocks(given.first_BG.t().contiguous(), blocks.of_state, units, over.units, rows)
            projected[0, :rows] += in_slices(first, own).t()
        states = projected.new_empty(steps + 1, over.rows, over.units)
        cells = states.new_empty(steps + 1 if save else 1, over.rows, over.units, dtype=torch.float32)
        carried = given.h_BH if given.c_BH is None else given.c_BH
        states[0] = _begun(filled(given.h_BH, over.rows, over.units), asked.marks)
        cells[0] = _begun(filled(carried, over.rows, over.units), asked.marks)
        last_c = torch.empty_like(cells[0])
        outputs = None if asked.marks is None else torch.empty_like(states[1:])
        peepholes = None if given.peepholes is None else filled(given.peepholes, 3, over.units)
        formula = Formula(blocks.form, peepholes is not None, asked.marks is not None)
        asked.launcher.forward(
            formula,
            over,
            ForwardArrays(
                projected,
                in_slices(w_hh, own),
                states,
                outputs,
                cells,
                last_c,
                peepholes,
                asked.marks,
                asked.hold_h,
                asked.hold_c,
            ),
        )
        ctx.set_materialize_grads(False)
        ctx.asked, ctx.rows, ctx.first = asked, rows, given.first_BG is not None
        if save:
            ctx.save_for_backward(x_TPJ, given.weight_ih, given.weight_hh, projected, states, cells, peepholes)
        y_TPK = states[1:] if outputs is None else outputs
        y_BTH = y_TPK[:, :rows, :units].transpose(0, 1)
        # of their own: callers may change outputs and states in place
        return y_BTH, states[-1, :rows, :units].clone(), last_c[:rows, :units].to(low)

    @staticmethod
    def backward(ctx: _Called, *gradients: Tensor | None) -> MaybeTensors:
        if recording():
            return no_gradients(ctx)
        dy_BTH, dh_BH, dc_BH = gradients
        asked, rows = ctx.asked, ctx.rows
        over, blocks = asked.over, asked.blocks
        x_TPJ, weight_ih, weight_hh, kept, states, cells, peepholes = ctx.saved_tensors
        units, inputs, steps = weight_hh.shape[1], weight_ih.shape[1], len(x_TPJ)
        needed = Needed(*ctx.needs_input_grad[1:])
        w_hh = in_blocks(weight_hh, blocks.of_state, units, over.units, over.units)
        d_gates = states.new_empty(steps + 1, over.rows, 4, over.units)
        d_gates[-1] = 0
        if dy_BTH is None:
            d_outputs = torch.zeros_like(states[1:])
        else:
            d_outputs = filled(dy_BTH.transpose(0, 1), over.rows, over.units)
        if not blocks.has_memory:
            dc_BH, dh_BH = dh_BH, None
        charged = dh_BH is not None or dc_BH is not None
        d_first_h, d_first_c = torch.empty_like(cells[0]), torch.empty_like(cells[0])
        d_biases = cells.new_empty(4, over.rows, over.units)
        d_peepholes = None if peepholes is None else cells.new_empty(3, over.rows, over.units)
        formula = Formula(blocks.form, peepholes is not None, asked.marks is not None)
        asked.launcher.backward(
            formula,
            over,
            BackwardArrays(
                kept,
                turned(w_hh),
                d_outputs,
                d_gates,
                cells,
                _charge(dh_BH, cells[0]) if charged else None,
                _charge(dc_BH, cells[0]) if charged else None,
                d_first_h,
                d_first_c,
                peepholes,
                d_peepholes,
                d_biases,
                asked.marks,
                asked.hold_h,
                asked.hold_c,
            ),
        )
        d_NG = d_gates[:-1].view(steps * over.rows, -1)
        d_given: list[Tensor | None] = [None] * len(LayerTensors._fields)
        if needed.x:
            w_ih = in_blocks(weight_ih, blocks.of_input, units, over.units, x_TPJ.shape[2])
            dx_TPJ = (d_NG @ w_ih.flatten(0, 1)).view_as(x_TPJ)
            d_given[0] = dx_TPJ[:, :rows, :inputs].transpose(0, 1)
        if needed.h:
            through = d_gates[0].flatten(1) @ w_hh.flatten(0, 1)
            direct = d_first_h if blocks.has_memory else d_first_c
            d_given[1] = (_begun(through.float(), asked.marks) + direct)[:rows, :units].to(through.dtype)
        if needed.c:
            d_given[2] = d_first_c[:rows, :units].to(states.dtype)
        if needed.weight_ih:
            d_ih = (d_NG.t() @ x_TPJ.flatten(0, 1)).view(4, over.units, -1)
            d_given[3] = from_blocks(d_ih, blocks.of_input, units, inputs)
        if needed.weight_hh:
            d_hh = (d_NG.t() @ states[:-1].flatten(0, 1)).view(4, over.units, -1)
            d_given[4] = from_blocks(d_hh, blocks.of_state, units, units)
        if needed.bias_ih or needed.bias_hh:
            sums = d_biases.sum(1).unsqueeze(2)
            if needed.bias_ih:
                d_given[5] = from_blocks(sums, blocks.of_input, units, 1).squeeze(1)
            if needed.bias_hh:
                d_given[6] = from_blocks(sums, blocks.of_state, units, 1).squeeze(1)
        if needed.peepholes and d_peepholes is not None:
            d_given[7] = d_peepholes.sum(1)[:, :units]
        if needed.first:
            d_first = d_gates[0].permute(1, 2, 0)  # [4, K, P]
            d_given[8] = from_blocks(d_first, blocks.of_state, units, rows).t()
        return None, *d_given


def _sliced_bias(given: LayerTensors, asked: PassPlan, units: int) -> Tensor | None:
    """b + b' in the order of the slices, in the type of the products."""
    total: Tensor | None = None
    for bias, places in ((given.bias_ih, asked.blocks.of_input), (given.bias_hh, asked.blocks.of_state)):
        if bias is not None:
            placed = in_blocks(bias.unsqueeze(1), places, units, asked.over.units, 1)
            total = placed if total is None else total + placed
    return None if total is None else in_slices(total, asked.over.forward.own).squeeze(1).to(given.x_BTI.dtype)


def _begun(state_PK: Tensor, marks: Tensor | None) -> Tensor:
    """A state before the first step: 0 in rows that begin anew there."""
    return state_PK if marks is None else torch.where(((marks[0] & 2) != 0).unsqueeze(1), 0.0, state_PK)


def _charge(d_BH: Tensor | None, like_PK: Tensor) -> Tensor:
    """The gradient of a last state, in float32."""
    return torch.zeros_like(like_PK) if d_BH is None else filled(d_BH.float(), *like_PK.shape)
