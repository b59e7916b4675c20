"""The GRU that resets before its product, by a persistent program of its own: see code/reset_before.py.

    forward     projected = W x + b + b' for all steps at once;  then step by step r, z, n and h
    backward    dr, dz, dn step by step;  then dW = sum da_t x_t',  dU_rz = sum d(r, z)_t h_{t-1}',
                dU_n = sum dn_t (r h)_t',  dx_t = W' da_t,  all steps at once

Shapes: T steps, B rows, I inputs, H units; P, J, K: the same filled up. Gates in the cell's order: r, z, n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import HState
from thereafter.cells.gru import GRU
from thereafter.kernels.gpu.copying import filled
from thereafter.kernels.gpu.geometry import SHARED_BYTES
from thereafter.kernels.gpu.launch import Constants, launch
from thereafter.kernels.gpu.launching import APART, Hold, arguments, hold_kind
from thereafter.kernels.gpu.preparing import ALIGNED, begun, charge, marks, product_type, too_large, unfit
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.second import Called, MaybeTensors, is_passed_over, no_gradients
from thereafter.kernels.switches import apply_many

_COLUMNS = 128
"""Units are filled up to a multiple of this: 16 columns for each of 8 warps."""
_WARPS, _PIECE = 8, 64
_KEPT = {16: 112, 32: 40, 64: 24}
"""Registers of a thread for weights, by the rows of a block, whose sums need registers too; ptxas tells what spills."""
_MORE = 2
"""So many pieces more, where shared memory is short."""
_IN_FLIGHT = 6
"""Pieces on their way to a thread, of 16 registers each."""
_L2, _SHARED_RATE, _L2_OF_ALL, _PRODUCTS = 0.127e6, 0.253e6, 5.5e6, 2.4e6
"""A microsecond's bytes from the second cache and from shared memory, the second cache's to all, and sums of products
of one multiprocessor (docs/gpu.md)."""


@dataclass(frozen=True)
class BeforeGeometry:
    """How a layer is laid over a GPU: a block owns `own` units of `block_rows` rows; rows and units are filled up.

    `in_shared`: so many pieces of U_r, U_z and U_n are in shared memory.
    """

    rows: int
    units: int
    own: int
    block_rows: int
    in_shared: tuple[int, int, int]

    @property
    def groups(self) -> int:
        return self.rows // self.block_rows

    @property
    def blocks(self) -> int:
        return self.groups * (self.units // self.own)

    @property
    def shared_bytes(self) -> int:
        """The pieces of weights, and room for each warp's sums."""
        return 2 * _WARPS * _PIECE * self.own * sum(self.in_shared) + 4 * _WARPS * self.block_rows * self.own

    @property
    def step(self) -> float:
        """What a step takes beside its meetings, in microseconds: three gathers and three products."""
        gathered = 2 * self.block_rows * self.units
        weights = 2 * _WARPS * _PIECE * self.own * sum(self.in_shared)
        products = 3 * self.block_rows * self.own * self.units
        loads = max(3 * gathered / _L2, 3 * gathered * self.blocks / _L2_OF_ALL)
        return loads + weights / _SHARED_RATE + products / _PRODUCTS


@lru_cache(maxsize=1024)
def before_geometry(rows: int, units: int, processors: int, shared: int = SHARED_BYTES) -> BeforeGeometry | None:
    """The cheapest way to lay a batch of `rows` and a layer of `units` over a GPU; None where none fits.

    `shared`: bytes of shared memory that a block can have.
    """
    columns = -(-units // _COLUMNS) * _COLUMNS
    ways = [way for way in _ways(rows, columns, shared) if way.blocks <= processors]
    return min(ways, key=lambda way: way.step, default=None)


def _ways(rows: int, columns: int, shared: int) -> Iterator[BeforeGeometry]:
    pieces, rest = divmod(columns // _WARPS, _PIECE)
    for own in (16, 32):
        for block_rows, kept in _KEPT.items():
            if block_rows > 16 and block_rows >= 2 * rows:
                continue
            filled_rows = -(-rows // block_rows) * block_rows
            in_registers = min(3 * pieces, max(0, kept - 3 * rest * own // _PIECE) // own)
            # where shared memory is too small for the rest, more in registers is better than no program
            for more in range(in_registers, min(3 * pieces, in_registers + _MORE) + 1):
                way = BeforeGeometry(filled_rows, columns, own, block_rows, _in_shared(3 * pieces - more, pieces))
                if way.shared_bytes <= shared:
                    yield way
                    break


def _in_shared(number: int, pieces: int) -> tuple[int, int, int]:
    """So many pieces of U_r, U_z, U_n: of U_z first, since nobody waits for its product."""
    of_z = min(number, pieces)
    of_n = min(number - of_z, pieces)
    return number - of_z - of_n, of_z, of_n


class BeforeFormula(NamedTuple):
    """`update`: "old" or "new", see cells/gru.py. `marked`: whether there are marks."""

    update: str
    marked: bool


@dataclass(frozen=True)
class BeforeForwardArrays:
    """Read: `projected` = W x + b + b' [T, P, 3, K], `weights` = U [3, K, K], `marks` [T + 1, P] (bit 0: live, bit 1:
    state is 0 before the step), `states[0]`, `cells[0]`.

    Written: `states` [T + 1, P, K], `resets` = r h [T, P, K], `outputs` [T, P, K] where rows are marked, and where
    `cells` has T + 1 steps (float32), these and in place of `projected` r, z and n.
    """

    projected: Tensor
    weights: Tensor
    states: Tensor
    resets: Tensor
    outputs: Tensor | None
    cells: Tensor
    marks: Tensor | None
    hold_h: Hold


@dataclass(frozen=True)
class BeforeBackwardArrays:
    """Read: `kept` (r, z, n) and `cells` of the forward pass, `turned` = U' [K, 3, K], `d_outputs` [T, P, K],
    `d_last_h` [P, K] in float32, `d_gates[T]` = 0.

    Written: `d_gates` [T + 1, P, 3, K], and in float32 `d_first_h` [P, K] (without U_r' dr of the first step) and
    `d_biases` [3, P, K], sums over steps.
    """

    kept: Tensor
    turned: Tensor
    d_outputs: Tensor
    d_gates: Tensor
    cells: Tensor
    d_last_h: Tensor | None
    d_first_h: Tensor
    d_biases: Tensor
    marks: Tensor | None
    hold_h: Hold


class BeforePrograms:
    """The programs of code/reset_before.py, compiled when they are first asked for."""

    def before_forward(self, formula: BeforeFormula, over: BeforeGeometry, arrays: BeforeForwardArrays) -> None:
        saved: Constants = {"SAVE": len(arrays.cells) > 1}
        _start("before_forward", formula, over, arrays, arrays.states, len(arrays.resets), saved)

    def before_backward(self, formula: BeforeFormula, over: BeforeGeometry, arrays: BeforeBackwardArrays) -> None:
        charged: Constants = {"CHARGED": arrays.d_last_h is not None}
        _start("before_backward", formula, over, arrays, arrays.d_gates, len(arrays.d_outputs), charged)


BEFORE_PROGRAMS = BeforePrograms()


def _start(
    function: str,
    formula: BeforeFormula,
    over: BeforeGeometry,
    arrays: BeforeForwardArrays | BeforeBackwardArrays,
    any_low: Tensor,
    steps: int,
    own_constants: Constants,
) -> None:
    """All blocks at once."""
    counters = any_low.new_zeros(over.groups * 2 * steps * APART, dtype=torch.int32)
    values = arguments(arrays, any_low, {"counters": counters, "steps": steps})
    constants: Constants = {
        "P": over.rows,
        "K": over.units,
        "ROWS": over.block_rows,
        "OWN": over.own,
        "AHEAD": _IN_FLIGHT,
        "SHARED_R": over.in_shared[0],
        "SHARED_Z": over.in_shared[1],
        "SHARED_N": over.in_shared[2],
        "UPDATE": formula.update,
        "MARKED": formula.marked,
        "HOLD_H": hold_kind(arrays.hold_h),
    }
    constants |= own_constants
    launch("reset_before", function, values, constants, warps=_WARPS, blocks=over.blocks, together=True)


def before_refuses(job: Job, processors: int, shared: int = SHARED_BYTES) -> str | None:
    """Why the programs cannot run a job, whatever the device."""
    cell = job.cell
    if not (type(cell) is GRU and cell.options.reset == "before") or cell.layer_norm:
        return f"there is no program for {'layer norm' if cell.layer_norm else f'the cell {cell!r}'}"
    over = before_geometry(len(job.x_BTI), cell.hidden_size, processors, shared)
    return unfit(job) or (too_large(job, processors) if over is None else None)


def before_unrolled(job: Job, programs: BeforePrograms, processors: int, shared: int = SHARED_BYTES) -> Unrolled:
    """A job by the programs."""
    low, over = product_type(job), before_geometry(len(job.x_BTI), job.cell.hidden_size, processors, shared)
    if over is None or type(job.cell) is not GRU:
        raise AssertionError("a job is asked for before it is run")
    with torch.autocast(job.x_BTI.device.type, enabled=False):
        hold = job.hold.get("h")
        if isinstance(hold, Tensor):
            hold = filled(hold.to(low).transpose(0, 1), over.rows, over.units)
        else:
            hold = float(hold) if hold else None
        plan = BeforePlan(job.cell.options.update, over, programs, marks(job, over.rows), hold)
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        given = [job.weights[name].to(low) if name in job.weights else None for name in names]
        y_BTH, h_BH = apply_many(_ResetBefore, plan, job.x_BTI.to(low), job.state.h.to(low), *given)
    return Unrolled(y_BTH, HState(h_BH))


@dataclass(frozen=True)
class BeforePlan:
    """All that has no gradient."""

    update: str
    over: BeforeGeometry
    programs: BeforePrograms
    marks: Tensor | None
    hold_h: Hold

    @property
    def formula(self) -> BeforeFormula:
        return BeforeFormula(self.update, self.marks is not None)


class _CalledBefore(Called, Protocol):
    plan: BeforePlan
    rows: int


class _ResetBefore(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _CalledBefore,
        plan: BeforePlan,
        x_BTI: Tensor,
        h_BH: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor | None,
        bias_hh: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        over, (rows, steps, inputs), units = plan.over, x_BTI.shape, weight_hh.shape[1]
        save = any(ctx.needs_input_grad)
        x_TPJ = filled(x_BTI.transpose(0, 1), over.rows, -(-inputs // ALIGNED) * ALIGNED)
        bias = bias_hh if bias_ih is None else bias_ih if bias_hh is None else bias_ih + bias_hh
        if bias is not None:
            bias = filled(bias.reshape(3, units), 3, over.units).flatten()
        projected = F.linear(x_TPJ, _by_gates(weight_ih, over.units, x_TPJ.shape[2]).flatten(0, 1), bias)
        states = projected.new_empty(steps + 1, over.rows, over.units)
        states[0] = begun(filled(h_BH, over.rows, over.units), plan.marks)
        cells = states.new_empty(steps + 1 if save else 1, over.rows, over.units, dtype=torch.float32)
        cells[0] = states[0]
        resets = torch.empty_like(states[1:])
        outputs = None if plan.marks is None else torch.empty_like(states[1:])
        w_hh = _by_gates(weight_hh, over.units, over.units)
        arrays = BeforeForwardArrays(projected, w_hh, states, resets, outputs, cells, plan.marks, plan.hold_h)
        plan.programs.before_forward(plan.formula, over, arrays)
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.rows = plan, rows
        if save:
            ctx.save_for_backward(x_TPJ, weight_ih, weight_hh, projected, states, resets, cells)
        y_TPK = states[1:] if outputs is None else outputs
        # of its own: callers may change outputs and states in place
        return y_TPK[:, :rows, :units].transpose(0, 1), states[-1, :rows, :units].clone()

    @staticmethod
    def backward(ctx: _CalledBefore, *gradients: Tensor | None) -> MaybeTensors:
        if is_passed_over(*gradients):
            return no_gradients(ctx)
        dy_BTH, dh_BH = gradients
        plan, over, rows = ctx.plan, ctx.plan.over, ctx.rows
        x_TPJ, weight_ih, weight_hh, kept, states, resets, cells = ctx.saved_tensors
        units, inputs, steps = weight_hh.shape[1], weight_ih.shape[1], len(x_TPJ)
        w_hh = _by_gates(weight_hh, over.units, over.units)
        d_gates = states.new_empty(steps + 1, over.rows, 3, over.units)
        d_gates[-1] = 0
        if dy_BTH is None:
            d_outputs = torch.zeros_like(resets)
        else:
            d_outputs = filled(dy_BTH.transpose(0, 1), over.rows, over.units)
        d_last = None if dh_BH is None else charge(dh_BH, cells[0])
        d_first, d_biases = torch.empty_like(cells[0]), cells.new_empty(3, over.rows, over.units)
        turned = w_hh.permute(2, 0, 1).contiguous()
        arrays = BeforeBackwardArrays(
            kept, turned, d_outputs, d_gates, cells, d_last, d_first, d_biases, plan.marks, plan.hold_h
        )
        plan.programs.before_backward(plan.formula, over, arrays)
        _, of_x, of_h, of_ih, of_hh, *of_biases = ctx.needs_input_grad
        d_NG = d_gates[:-1].view(steps * over.rows, 3 * over.units)
        dx = dh = d_ih = d_hh = None
        if of_x:
            dx_NJ = d_NG @ _by_gates(weight_ih, over.units, x_TPJ.shape[2]).flatten(0, 1)
            dx = dx_NJ.view_as(x_TPJ)[:, :rows, :inputs].transpose(0, 1)
        if of_h:
            through = begun((d_gates[0, :, 0] @ w_hh[0]).float(), plan.marks)
            dh = (through + d_first)[:rows, :units].to(states.dtype)
        if of_ih:
            d_ih = _gates_of(d_NG.t() @ x_TPJ.flatten(0, 1), units, inputs)
        if of_hh:
            all_hh = w_hh.new_empty(3 * over.units, over.units)
            gates = 2 * over.units
            torch.mm(d_NG[:, :gates].t(), states[:-1].flatten(0, 1), out=all_hh[:gates])
            torch.mm(d_NG[:, gates:].t(), resets.flatten(0, 1), out=all_hh[gates:])
            d_hh = _gates_of(all_hh, units, units)
        sums = d_biases.sum(1)[:, :units].flatten().to(states.dtype) if any(of_biases) else None
        return None, dx, dh, d_ih, d_hh, *(sums if of_bias else None for of_bias in of_biases)


def _by_gates(weight: Tensor, units: int, columns: int) -> Tensor:
    """A cell's matrix [3 H, I] as [3, K, J], filled up with zeros."""
    return filled(weight.reshape(3, -1, weight.shape[1]), units, columns)


def _gates_of(filled_up: Tensor, units: int, columns: int) -> Tensor:
    """The way back, [3 K, J] to [3 H, I]."""
    return filled_up.view(3, -1, filled_up.shape[1])[:, :units, :columns].flatten(0, 1)
