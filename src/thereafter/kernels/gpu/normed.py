"""The layer-norm LSTM by persistent programs of its own: see code/layer_norm.py.

    forward     z = layernorm(W x) gain + b + b' for all steps at once, by torch;  then step by step gates, c and h
    backward    dz_t and d(U h)_t step by step;  then dU = sum d(U h)_t h_{t-1}';  the way back from dz is torch's

Shapes: T steps, B rows, I inputs, H units, G = H times the gates; P, K: rows and units filled up.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import EPSILON, HCState
from thereafter.cells.lstm import LSTM
from thereafter.kernels.functions import apply_many
from thereafter.kernels.gpu.copying import CopyPrograms
from thereafter.kernels.gpu.four_blocks import FourBlocks, four_blocks
from thereafter.kernels.gpu.geometry import BlockTiling, Geometry
from thereafter.kernels.gpu.launch import Argument, Constants, launch
from thereafter.kernels.gpu.launching import Formula, Hold
from thereafter.kernels.gpu.layout import Copies, FilledUnits, filled
from thereafter.kernels.gpu.norm_geometry import norm_geometry
from thereafter.kernels.gpu.preparing import last_cell, marks, peepholes, product_type, too_large, unfit
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.second import is_passed_over, no_gradients

_ALIGNED = 8
"""Inputs are filled up to a multiple of this: 16 bytes of 16-bit numbers."""
_APART = 8
"""As code/meeting.py has it."""
_MOST_EXCHANGED = 2**31
"""Places of row sums: the programs count them in 32 bits."""
_EMPTY = -1
"""All bits set: code/layer_norm.py's EMPTY."""


@dataclass(frozen=True)
class NormForwardArrays:
    """Read: `projected` = z [T, P, S, 4, own], `weights` = U [S, 4, own, K], `norms` [6, K] in float32 (gains of the
    four gates, gain and shift of c), `peepholes` [3, K] (input, forget, output), `marks` [T + 1, P] (bit 0: live, bit
    1: state is 0 before the step), `states[0]`, `cells[0]`; 1 / G, 1 / H and what is added to a variance.

    Written: `states` [T + 1, P, K], `outputs` [T, P, K] where rows are marked, `last_c` [P, K], and where `hats` is
    there, the normalised U h as `projected`, the gates in place of `projected`, `cells` [T + 1, P, K], and `statistics`
    [T, 3, P]: mean and 1 / sd of c, 1 / sd of U h.
    """

    projected: Tensor
    weights: Tensor
    states: Tensor
    outputs: Tensor | None
    cells: Tensor
    last_c: Tensor
    hats: Tensor | None
    statistics: Tensor | None
    norms: Tensor
    peepholes: Tensor | None
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold
    one_gate: float
    one_unit: float
    eps: float


@dataclass(frozen=True)
class NormBackwardArrays:
    """Read: `kept` (the gates), `cells`, `hats` and `statistics` of the forward pass, `turned` = U' [K, 4 K],
    `d_outputs` [T, P, K], `d_last_h` and `d_last_c` [P, K] in float32, `d_raw[T]` = 0, `norms`, `peepholes`.

    Written: `d_gates` = dz [T, P, 4, K], `d_raw` = d(U h) [T + 1, P, 4, K], and in float32 `d_first_h`, `d_first_c` [P,
    K] (without what comes through U), `d_norms` [6, P, K] and `d_peepholes` [3, P, K], sums over steps.
    """

    kept: Tensor
    turned: Tensor
    d_outputs: Tensor
    d_gates: Tensor
    d_raw: Tensor
    cells: Tensor
    hats: Tensor
    statistics: Tensor
    d_last_h: Tensor | None
    d_last_c: Tensor | None
    d_first_h: Tensor
    d_first_c: Tensor
    norms: Tensor
    d_norms: Tensor
    peepholes: Tensor | None
    d_peepholes: Tensor | None
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold
    one_gate: float
    one_unit: float


class NormLauncher(Protocol):
    """Something that runs these passes, and copies: the programs, or their twin."""

    @property
    def copies(self) -> Copies: ...

    def norm_forward(self, formula: Formula, over: Geometry, arrays: NormForwardArrays) -> None: ...

    def norm_backward(self, formula: Formula, over: Geometry, arrays: NormBackwardArrays) -> None: ...


class NormPrograms:
    """The programs of code/layer_norm.py, compiled when they are first asked for."""

    copies: Copies = CopyPrograms()

    def norm_forward(self, formula: Formula, over: Geometry, arrays: NormForwardArrays) -> None:
        tiling, steps = over.forward, len(arrays.states) - 1
        given = _arguments(arrays, over, tiling, steps)
        given["counters"] = arrays.states.new_zeros(over.rows // tiling.rows * steps * _APART, dtype=torch.int32)
        constants = _constants(formula, over, tiling, arrays) | {"SAVE": arrays.hats is not None}
        _together("norm_forward", over, tiling, given, constants)

    def norm_backward(self, formula: Formula, over: Geometry, arrays: NormBackwardArrays) -> None:
        tiling, steps = over.backward, len(arrays.d_outputs)
        groups, teams = over.rows // tiling.rows, over.units // (4 * tiling.own)
        given = _arguments(arrays, over, tiling, steps)
        given["counters"] = arrays.d_raw.new_zeros(groups * (1 + teams) * steps * _APART, dtype=torch.int32)
        given["partial"] = arrays.norms.new_empty(groups * teams * 16 * tiling.own * tiling.rows)
        constants = _constants(formula, over, tiling, arrays)
        constants |= {"FORWARD_OWN": over.forward.own, "CHARGED": arrays.d_last_c is not None}
        _together("norm_backward", over, tiling, given, constants)


NORM_PROGRAMS = NormPrograms()

_NUMBERS = ("one_gate", "one_unit", "eps")


def norm_argument_names(function: str) -> tuple[str, ...]:
    """The parameters of a program that are no constants, in their order."""
    forward = function == "norm_forward"
    names = [field.name for field in fields(NormForwardArrays if forward else NormBackwardArrays)]
    more = ["exchange", *([] if forward else ["partial"]), "counters", "steps", "none", "share_h", "share_c"]
    return *(name for name in names if name not in _NUMBERS), *more, *(name for name in names if name in _NUMBERS)


def _arguments(
    arrays: NormForwardArrays | NormBackwardArrays, over: Geometry, tiling: BlockTiling, steps: int
) -> dict[str, Argument]:
    """By name; where there is no array, any other stands in, which is not looked at."""
    any_low = arrays.states if isinstance(arrays, NormForwardArrays) else arrays.d_raw
    stand_ins = {"marks": torch.uint8} | dict.fromkeys(("hold_h", "hold_c", "outputs", "hats"), any_low.dtype)
    given: dict[str, Argument] = {"steps": steps, "none": 0}
    for field in fields(arrays):
        value = getattr(arrays, field.name)
        if field.name.startswith("hold_"):
            given["share_" + field.name[-1]] = value if isinstance(value, float) else 0.0
        if field.name not in _NUMBERS and not isinstance(value, Tensor):
            value = any_low.view(stand_ins.get(field.name, torch.float32))
        given[field.name] = value
    # two exchanges a step, of two sums for every slice and row
    places = steps * over.rows * 4 * (over.units // tiling.own)
    given["exchange"] = any_low.new_full((places,), _EMPTY, dtype=torch.int32).view(torch.float32)
    return given


def _constants(
    formula: Formula, over: Geometry, tiling: BlockTiling, arrays: NormForwardArrays | NormBackwardArrays
) -> Constants:
    def kind(hold: Hold) -> int:
        return 0 if hold is None else 2 if isinstance(hold, Tensor) else 1

    return {
        "P": over.rows,
        "K": over.units,
        "ROWS": tiling.rows,
        "OWN": tiling.own,
        "CHUNK": tiling.chunk,
        "BUFFERS": tiling.buffers,
        "IN_REGISTERS": tiling.in_registers,
        "FORM": formula.form,
        "PEEPHOLE": formula.peephole,
        "MARKED": formula.marked,
        "HOLD_H": kind(arrays.hold_h),
        "HOLD_C": kind(arrays.hold_c),
        "WARPS": tiling.warps,
    }


def _together(function: str, over: Geometry, tiling: BlockTiling, given: dict[str, Argument], more: Constants) -> None:
    """All blocks at once."""
    arguments = {name: given[name] for name in norm_argument_names(function)}
    blocks = over.blocks(tiling)
    launch("layer_norm", function, arguments, more, warps=tiling.warps, blocks=blocks, together=True)


def norm_refuses(job: Job, processors: int) -> str | None:
    """Why the programs cannot run a job, whatever the device."""
    cell = job.cell
    if type(cell) is not LSTM or not cell.layer_norm:
        return f"there is no program for the cell {cell!r}"
    if cell.output_size != cell.hidden_size:
        return "there is no program for a projected LSTM with layer norm"
    over = _over(job, processors)
    if over is None:
        return unfit(job) or too_large(job, processors)
    exchanged = 4 * job.x_BTI.shape[1] * over.units // min(over.forward.own, over.backward.own) * over.rows
    if exchanged >= _MOST_EXCHANGED:
        return f"{job.x_BTI.shape[1]} steps are more than the layer-norm programs count; cut the sequence"
    return unfit(job)


def norm_unrolled(job: Job, launcher: NormLauncher, processors: int) -> Unrolled:
    """A job by a launcher: the programs, or their twin."""
    low, over, blocks = product_type(job), _over(job, processors), four_blocks(job.cell)
    if over is None or blocks is None:
        raise AssertionError("a job is asked for before it is run")
    with torch.autocast(job.x_BTI.device.type, enabled=False):

        def share(name: str) -> Hold:
            hold = job.hold.get(name)
            if isinstance(hold, Tensor):
                return filled(hold.to(low).transpose(0, 1), over.rows, over.units)
            return float(hold) if hold else None

        plan = NormPlan(blocks, over, launcher, marks(job, over.rows), share("h"), share("c"))
        y_BTH, h_BH, c_BH = apply_many(
            _NormedSequence,
            plan,
            _input_side(job, low),
            job.state.h.to(low),
            job.state.c.to(low),
            job.weights["weight_hh"].to(low),
            _norms(job, blocks),
            peepholes(job),
        )
    return Unrolled(y_BTH, HCState(h_BH, c_BH))


def _over(job: Job, processors: int) -> Geometry | None:
    return norm_geometry(len(job.x_BTI), job.cell.hidden_size, processors, peephole="peephole_input" in job.weights)


def _input_side(job: Job, low: torch.dtype) -> Tensor:
    """z_TBG: W x of all steps, normalised, and both biases, which have the same gradient."""
    weights = job.weights
    inputs = job.x_BTI.shape[2]
    more = -inputs % _ALIGNED
    x_TBJ = F.pad(job.x_BTI.to(low).transpose(0, 1), (0, more))
    raw_TBG = F.linear(x_TBJ, F.pad(weights["weight_ih"].to(low), (0, more)))
    biases = [weights[name].float() for name in ("bias_ih", "bias_hh") if name in weights]
    bias = torch.stack(biases).sum(0).to(low) if biases else None
    return F.layer_norm(raw_TBG, raw_TBG.shape[2:], weights["norm_ih"].to(low), bias, EPSILON)


def _norms(job: Job, blocks: FourBlocks) -> Tensor:
    """[6, H] in float32: the gains of the four gates (0 where there is none), gain and shift of c."""
    gains = job.weights["norm_hh"].view(-1, job.cell.hidden_size)
    none = torch.zeros_like(job.weights["norm_c"])
    placed = [none if gate is None else gains[gate] for gate in blocks.of_state]
    return torch.stack([*placed, job.weights["norm_c"], job.weights["shift_c"]]).float()


@dataclass(frozen=True)
class NormPlan:
    """All that has no gradient."""

    blocks: FourBlocks
    over: Geometry
    launcher: NormLauncher
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold

    def begun(self, state_PK: Tensor) -> Tensor:
        """A state before the first step: 0 in rows that begin anew there."""
        return state_PK if self.marks is None else torch.where(((self.marks[0] & 2) != 0).unsqueeze(1), 0.0, state_PK)


class _CalledNorm(Protocol):
    plan: NormPlan
    rows: int
    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


class _NormedSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _CalledNorm,
        plan: NormPlan,
        z_TBG: Tensor,
        h_BH: Tensor,
        c_BH: Tensor,
        weight_hh: Tensor,
        norms: Tensor,
        peepholes: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        over, blocks, save = plan.over, plan.blocks, any(ctx.needs_input_grad)
        (steps, rows, gates), units, low = z_TBG.shape, weight_hh.shape[1], z_TBG.dtype
        how, copies = FilledUnits(units, over.units, blocks.of_state), plan.launcher.copies
        projected = copies.sliced_columns(z_TBG, how, over.rows, over.forward.own)
        states = projected.new_empty(steps + 1, over.rows, over.units)
        cells = states.new_empty(steps + 1 if save else 1, over.rows, over.units, dtype=torch.float32)
        copies.first(h_BH, states[0])
        copies.first(c_BH, cells[0])
        if plan.marks is not None:
            states[0], cells[0] = plan.begun(states[0]), plan.begun(cells[0])
        last_c = torch.empty_like(cells[0])
        outputs = None if plan.marks is None else torch.empty_like(states[1:])
        hats = torch.empty_like(projected) if save else None
        statistics = cells.new_empty(steps, 3, over.rows) if save else None
        norms = filled(norms, 6, over.units)
        peepholes = None if peepholes is None else filled(peepholes, 3, over.units)
        plan.launcher.norm_forward(
            Formula(blocks.form, peepholes is not None, plan.marks is not None),
            over,
            NormForwardArrays(
                projected,
                copies.slices(weight_hh, how, over.units, over.forward.own, low),
                states,
                outputs,
                cells,
                last_c,
                hats,
                statistics,
                norms,
                peepholes,
                plan.marks,
                plan.hold_h,
                plan.hold_c,
                1 / gates,
                1 / units,
                EPSILON,
            ),
        )
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.rows = plan, rows
        if save:
            ctx.save_for_backward(weight_hh, projected, states, cells, hats, statistics, norms, peepholes)
        y_TPK = states[1:] if outputs is None else outputs
        y_BTH = y_TPK[:, :rows, :units].transpose(0, 1)
        # last states of their own: callers may change them in place
        return y_BTH, states[-1, :rows, :units].clone(), last_cell(last_c[:rows, :units], low)

    @staticmethod
    def backward(ctx: _CalledNorm, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        if is_passed_over(*gradients):
            return no_gradients(ctx)
        dy_BTH, dh_BH, dc_BH = gradients
        plan, over, blocks, rows = ctx.plan, ctx.plan.over, ctx.plan.blocks, ctx.rows
        weight_hh, kept, states, cells, hats, statistics, norms, *of_peepholes = ctx.saved_tensors
        peepholes = of_peepholes[0]
        steps, units = len(kept), weight_hh.shape[1]
        how, copies, low = FilledUnits(units, over.units, blocks.of_state), plan.launcher.copies, states.dtype
        d_gates = states.new_empty(steps, over.rows, 4, over.units)
        d_raw = states.new_empty(steps + 1, over.rows, 4, over.units)
        d_raw[-1] = 0
        if dy_BTH is None:
            d_outputs = torch.zeros_like(states[1:])
        else:
            d_outputs = copies.rows(dy_BTH.transpose(0, 1), over.rows, over.units, low)
        d_last_h = d_last_c = None
        if dh_BH is not None or dc_BH is not None:
            d_last_h, d_last_c = _charge(dh_BH, cells[0]), _charge(dc_BH, cells[0])
        d_first_h, d_first_c = torch.empty_like(cells[0]), torch.empty_like(cells[0])
        d_norms = cells.new_empty(6, over.rows, over.units)
        d_peepholes = None if peepholes is None else cells.new_empty(3, over.rows, over.units)
        plan.launcher.norm_backward(
            Formula(blocks.form, peepholes is not None, plan.marks is not None),
            over,
            NormBackwardArrays(
                kept,
                copies.turned(weight_hh, how, low),
                d_outputs,
                d_gates,
                d_raw,
                cells,
                hats,
                statistics,
                d_last_h,
                d_last_c,
                d_first_h,
                d_first_c,
                norms,
                d_norms,
                peepholes,
                d_peepholes,
                plan.marks,
                plan.hold_h,
                plan.hold_c,
                1 / (units * (4 - blocks.of_state.count(None))),
                1 / units,
            ),
        )
        _, of_z, of_h, of_c, of_weight, of_norms, of_peephole = ctx.needs_input_grad
        dz = dh = dc = d_hh = dn = dp = None
        if of_z:
            dz = copies.gate_columns(d_gates, how, rows)
        if of_h:
            through = plan.begun((d_raw[0].flatten(1) @ copies.blocks(weight_hh, how, over.units, low)).float())
            dh = (through + d_first_h)[:rows, :units].to(low)
        if of_c:
            dc = d_first_c[:rows, :units].to(low)
        if of_weight:
            all_hh = d_raw[:-1].view(steps * over.rows, -1).t() @ states[:-1].flatten(0, 1)
            d_hh = copies.gates(all_hh, how, units, low)
        if of_norms:
            dn = d_norms.sum(1)[:, :units]
        if of_peephole and d_peepholes is not None:
            dp = d_peepholes.sum(1)[:, :units]
        return None, dz, dh, dc, d_hh, dn, dp


def _charge(d_BH: Tensor | None, like_PK: Tensor) -> Tensor:
    """The gradient of a last state, in float32."""
    return torch.zeros_like(like_PK) if d_BH is None else filled(d_BH.float(), *like_PK.shape)
