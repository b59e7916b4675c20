"""LSTM, GRU (reset after) and Elman by the wide and narrow programs: a whole sequence through a persistent program, and
everything around it: projections, gradients of weights.

    forward     projected = W x + b for all steps at once;  then step by step a = projected_t + U h_{t-1}
    backward    da_t step by step;  then for all steps  dW = sum da_t x_t',  dU = sum da_t h_{t-1}',  dx_t = W' da_t

Shapes: T steps, B rows, I inputs, H units, O outputs, G gates; P, J, K: rows, inputs and units filled up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import EPSILON, HCState
from thereafter.kernels.gpu.copying import FilledUnits, filled
from thereafter.kernels.gpu.four_blocks import FourBlocks, four_blocks
from thereafter.kernels.gpu.geometry import Geometry, geometry
from thereafter.kernels.gpu.launching import BackwardArrays, Formula, ForwardArrays, Hold, Programs
from thereafter.kernels.gpu.preparing import (
    ALIGNED,
    begun,
    charge,
    last_cell,
    marks,
    peepholes,
    product_type,
    too_large,
    unfit,
)
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.second import Called, MaybeTensors, is_passed_over, no_gradients
from thereafter.kernels.switches import apply_many


def refuses_blocks(job: Job, processors: int, *, wide: bool = True) -> str | None:
    """Why the programs cannot run a job, whatever the device. `wide`: whether it can run the wide programs."""
    cell = job.cell
    if four_blocks(cell) is None or cell.layer_norm:
        return f"there is no program for the cell {cell.name!r}{' with layer norm' if cell.layer_norm else ''}"
    if cell.output_size != cell.hidden_size and "h" in job.hold:
        return "zoneout of a projected h needs the step-by-step form"
    reason = unfit(job)
    if reason is not None or _over(job, processors, wide) is not None:
        return reason
    return too_large(job, processors) + ("" if wide else " without the wide programs, which need Hopper's instructions")


def _over(job: Job, processors: int, wide: bool) -> Geometry | None:
    busy = bool(job.hold) or job.lengths_B is not None or job.reset_BT is not None or "peephole_input" in job.weights
    return geometry(len(job.x_BTI), job.cell.hidden_size, processors, busy=busy, wide=wide)


T = TypeVar("T")
M = TypeVar("M")


class OfLayer(NamedTuple, Generic[T, M]):
    """One thing for each tensor of a layer that has gradients: these, in any floating type; whether its gradient is
    asked for; its gradient.

    `peepholes`: [3, H] in float32. `first_BG`: added to W x + b of the first step, in the cell's own order of gates.
    """

    x_BTI: T
    h_BH: T
    c_BH: M
    weight_ih: T
    weight_hh: T
    bias_ih: M
    bias_hh: M
    peepholes: M
    first_BG: M


LayerTensors = OfLayer[Tensor, Tensor | None]


@dataclass(frozen=True)
class PassPlan:
    """All that has no gradient. `low`: the type of products, states and outputs. `marks` [T + 1, P], `hold_h` and
    `hold_c` as the programs take them."""

    blocks: FourBlocks
    over: Geometry
    programs: Programs
    low: torch.dtype
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold

    def of_state(self, units: int) -> FilledUnits:
        """How U is filled up."""
        return FilledUnits(units, self.over.units, self.blocks.of_state)

    def forward(
        self,
        projected: Tensor,
        weights: Tensor,
        h_BH: Tensor,
        c_BH: Tensor | None,
        peepholes_3H: Tensor | None,
        *,
        save: bool,
        norms_6H: Tensor | None = None,
    ) -> ForwardArrays:
        """A forward pass; `save` what the backward pass needs."""
        over, copies, steps, normed = self.over, self.programs.copies, len(projected), norms_6H is not None
        states = projected.new_empty(steps + 1, over.rows, over.units)
        cells = states.new_empty(steps + 1 if save else 1, over.rows, over.units, dtype=torch.float32)
        copies.first(h_BH, states[0])
        copies.first(h_BH if c_BH is None else c_BH, cells[0])
        if self.marks is not None:
            states[0], cells[0] = begun(states[0], self.marks), begun(cells[0], self.marks)
        arrays = ForwardArrays(
            projected,
            weights,
            states,
            None if self.marks is None else torch.empty_like(states[1:]),
            cells,
            torch.empty_like(cells[0]),
            torch.empty_like(projected) if normed and save else None,
            cells.new_empty(steps, 3, over.rows) if normed and save else None,
            None if norms_6H is None else filled(norms_6H, 6, over.units),
            None if peepholes_3H is None else filled(peepholes_3H, 3, over.units),
            self.marks,
            self.hold_h,
            self.hold_c,
            *self._shares(h_BH.shape[1]),
            EPSILON,
        )
        self.programs.forward(self._formula(arrays), over, arrays)
        return arrays

    def backward(
        self,
        gradients: MaybeTensors,
        weight_hh: Tensor,
        kept: Tensor,
        cells: Tensor,
        peepholes: Tensor | None,
        hats: Tensor | None = None,
        statistics: Tensor | None = None,
        norms: Tensor | None = None,
    ) -> BackwardArrays:
        """The backward pass, from the gradients of outputs and last states."""
        dy_BTH, dh_BH, dc_BH = gradients
        over, copies, steps, units = self.over, self.programs.copies, len(kept), weight_hh.shape[1]
        if not self.blocks.has_memory:
            dc_BH, dh_BH = dh_BH, None
        charged = dh_BH is not None or dc_BH is not None
        after = kept.new_empty(steps + 1, over.rows, 4, over.units)
        after[-1] = 0
        if dy_BTH is None:
            d_outputs = kept.new_zeros(steps, over.rows, over.units)
        else:
            d_outputs = copies.rows(dy_BTH.transpose(0, 1), over.rows, over.units, self.low)
        arrays = BackwardArrays(
            kept,
            copies.turned(weight_hh, self.of_state(units), self.low),
            d_outputs,
            after if norms is None else torch.empty_like(after[1:]),
            None if norms is None else after,
            cells,
            hats,
            statistics,
            charge(dh_BH, cells[0]) if charged else None,
            charge(dc_BH, cells[0]) if charged else None,
            torch.empty_like(cells[0]),
            torch.empty_like(cells[0]),
            norms,
            None if norms is None else cells.new_empty(6, over.rows, over.units),
            peepholes,
            None if peepholes is None else cells.new_empty(3, over.rows, over.units),
            cells.new_empty(4, over.rows, over.units) if norms is None else None,
            self.marks,
            self.hold_h,
            self.hold_c,
            *self._shares(units),
        )
        self.programs.backward(self._formula(arrays), over, arrays)
        return arrays

    def results(self, arrays: ForwardArrays, rows: int, units: int) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs [B, T, H], the last h and c [B, H]: states of their own, since callers may change them in place."""
        y_TPK = arrays.states[1:] if arrays.outputs is None else arrays.outputs
        last_h = arrays.states[-1, :rows, :units].clone()
        return y_TPK[:, :rows, :units].transpose(0, 1), last_h, last_cell(arrays.last_c[:rows, :units], self.low)

    def first_gradient(self, after_NG: Tensor, weight_hh: Tensor, direct: Tensor, rows: int) -> Tensor:
        """The gradient of the first h in float32: what comes through U, from `after` the first step, and past it."""
        units = weight_hh.shape[1]
        through = after_NG @ self.programs.copies.blocks(weight_hh, self.of_state(units), self.over.units, self.low)
        return (begun(through.float(), self.marks) + direct)[:rows, :units]

    def _formula(self, arrays: ForwardArrays | BackwardArrays) -> Formula:
        return Formula(self.blocks.form, arrays.peepholes is not None, self.marks is not None)

    def _shares(self, units: int) -> tuple[float, float]:
        """1 / G and 1 / H."""
        return 1 / (units * (4 - self.blocks.of_state.count(None))), 1 / units


def plan_of(job: Job, low: torch.dtype, over: Geometry, programs: Programs) -> PassPlan:
    """What the programs are told of a job beside its tensors."""
    blocks = four_blocks(job.cell)
    if blocks is None:
        raise AssertionError("a job is asked for before it is run")

    def share(name: str) -> Hold:
        hold = job.hold.get(name)
        if isinstance(hold, Tensor):
            return programs.copies.rows(hold.transpose(0, 1), over.rows, over.units, low)
        return float(hold) if hold else None

    # a cell without a memory cell carries h in its place
    holds = (share("h"), share("c")) if blocks.has_memory else (None, share("h"))
    return PassPlan(blocks, over, programs, low, marks(job, over.rows), *holds)


def unrolled(job: Job, programs: Programs, processors: int, *, wide: bool = True) -> Unrolled:
    """A job by the programs."""
    low, over = product_type(job), _over(job, processors, wide)
    if over is None:
        raise AssertionError("a job is asked for before it is run")
    with torch.autocast(job.x_BTI.device.type, enabled=False):
        plan = plan_of(job, low, over, programs)
        weights, state = job.weights, job.state
        if "weight_hr" in weights:
            return _projected(job, plan)
        c_BH = state.c if isinstance(state, HCState) else None
        y_BTH, h_BH, c_BH = _persistent(job, plan, state.h, c_BH, weights, None)
    return Unrolled(y_BTH, type(state)(h_BH) if c_BH is None else HCState(h_BH, c_BH))


def _projected(job: Job, plan: PassPlan) -> Unrolled:
    """A projected LSTM: h = R m, so U h = (U R) m, a plain recurrence in m; h is computed for all steps at once.

    The first h is not R m of anything: U h_0 is added to the first step's W x.
    """
    weights = {name: weight if "peephole" in name else weight.to(plan.low) for name, weight in job.weights.items()}
    into, onto, first_h = weights["weight_hr"], weights["weight_hh"], job.state.h.to(plan.low)
    first_BG = first_h @ onto.t()
    if job.reset_BT is not None:
        first_BG = torch.where(job.reset_BT[:, :1], 0.0, first_BG)
    if job.lengths_B is not None:
        first_BG = torch.where((job.lengths_B > 0).unsqueeze(1), first_BG, 0.0)
    weights["weight_hh"] = onto @ into
    m_BTH, last_BH, c_BH = _persistent(job, plan, torch.zeros_like(job.state.c), job.state.c, weights, first_BG)
    h_BO = last_BH @ into.t()
    if job.lengths_B is not None:
        h_BO = torch.where((job.lengths_B > 0).unsqueeze(1), h_BO, first_h)
    return Unrolled(m_BTH @ into.t(), HCState(h_BO, job.state.c if c_BH is None else c_BH))


def _persistent(
    job: Job, plan: PassPlan, h_BH: Tensor, c_BH: Tensor | None, weights: Mapping[str, Tensor], first_BG: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Outputs [B, T, H], the last h and c [B, H]."""
    matrices = weights["weight_ih"], weights["weight_hh"]
    biases = weights.get("bias_ih"), weights.get("bias_hh")
    layer = LayerTensors(job.x_BTI, h_BH, c_BH, *matrices, *biases, peepholes(job), first_BG)
    y_BTH, last_h, last_c = apply_many(_Persistent, plan, *layer)
    return y_BTH, last_h, last_c if c_BH is not None else None


class CalledPass(Called, Protocol):
    """What is kept of a pass besides tensors."""

    plan: PassPlan
    rows: int


class _Persistent(torch.autograd.Function):
    @staticmethod
    def forward(ctx: CalledPass, plan: PassPlan, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        layer: LayerTensors = OfLayer(*tensors)
        over, copies, low = plan.over, plan.programs.copies, plan.low
        rows, _, inputs = layer.x_BTI.shape
        units, own = layer.weight_hh.shape[1], over.forward.own
        save = any(ctx.needs_input_grad)
        of_input, of_state = FilledUnits(units, over.units, plan.blocks.of_input), plan.of_state(units)
        columns = -(-inputs // ALIGNED) * ALIGNED
        x_TPJ = copies.rows(layer.x_BTI.transpose(0, 1), over.rows, columns, low)
        w_ih = copies.slices(layer.weight_ih, of_input, columns, own, low)
        w_hh = copies.slices(layer.weight_hh, of_state, over.units, own, low)
        projected = F.linear(x_TPJ, w_ih, _sliced_bias(layer, plan, of_input, of_state))
        if layer.first_BG is not None:
            first = copies.slices(layer.first_BG.t().contiguous(), of_state, rows, own, low)
            projected[0, :rows] += first.t()
        arrays = plan.forward(projected, w_hh, layer.h_BH, layer.c_BH, layer.peepholes, save=save)
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.rows = plan, rows
        if save:
            read = x_TPJ, layer.weight_ih, layer.weight_hh
            ctx.save_for_backward(*read, arrays.states, projected, arrays.cells, arrays.peepholes)
        return plan.results(arrays, rows, units)

    @staticmethod
    def backward(ctx: CalledPass, *gradients: Tensor | None) -> MaybeTensors:
        if is_passed_over(*gradients):
            return no_gradients(ctx)
        plan, rows = ctx.plan, ctx.rows
        over, blocks, copies, low = plan.over, plan.blocks, plan.programs.copies, plan.low
        x_TPJ, weight_ih, weight_hh, states, *saved = ctx.saved_tensors
        units, inputs, steps = weight_hh.shape[1], weight_ih.shape[1], len(x_TPJ)
        of_input, of_state = FilledUnits(units, over.units, blocks.of_input), plan.of_state(units)
        needed = OfLayer[bool, bool](*ctx.needs_input_grad[1:])
        arrays = plan.backward(gradients, weight_hh, *saved)
        d_gates, d_first_c = arrays.d_gates, arrays.d_first_c
        d_NG = d_gates[:-1].view(steps * over.rows, -1)
        dx_BTI = dh_BH = dc_BH = d_ih = d_hh = d_bias_ih = d_bias_hh = d_peepholes = d_first_BG = None
        if needed.x_BTI:
            w_ih = copies.blocks(weight_ih, of_input, x_TPJ.shape[2], low)
            dx_BTI = (d_NG @ w_ih).view_as(x_TPJ)[:, :rows, :inputs].transpose(0, 1)
        if needed.h_BH:
            direct = arrays.d_first_h if blocks.has_memory else d_first_c
            dh_BH = plan.first_gradient(d_gates[0].flatten(1), weight_hh, direct, rows)
        if needed.c_BH:
            dc_BH = d_first_c[:rows, :units]
        if needed.weight_ih:
            d_ih = copies.gates(d_NG.t() @ x_TPJ.flatten(0, 1), of_input, inputs, weight_ih.dtype)
        if needed.weight_hh:
            d_hh = copies.gates(d_NG.t() @ states[:-1].flatten(0, 1), of_state, units, weight_hh.dtype)
        if (needed.bias_ih or needed.bias_hh) and arrays.d_biases is not None:
            sums = arrays.d_biases.sum(1).view(4 * over.units, 1)
            d_bias_ih = copies.gates(sums, of_input, 1, weight_ih.dtype).flatten() if needed.bias_ih else None
            if needed.bias_hh:
                same = needed.bias_ih and blocks.of_input == blocks.of_state
                d_bias_hh = d_bias_ih if same else copies.gates(sums, of_state, 1, weight_hh.dtype).flatten()
        if needed.peepholes and arrays.d_peepholes is not None:
            d_peepholes = arrays.d_peepholes.sum(1)[:, :units]
        if needed.first_BG:
            d_first = d_gates[0].flatten(1).t().contiguous()
            d_first_BG = copies.gates(d_first, of_state, over.rows, low)[:, :rows].t()
        return None, dx_BTI, dh_BH, dc_BH, d_ih, d_hh, d_bias_ih, d_bias_hh, d_peepholes, d_first_BG


def _sliced_bias(layer: LayerTensors, plan: PassPlan, of_input: FilledUnits, of_state: FilledUnits) -> Tensor | None:
    """b + b' in the order of the slices, in the type of the products."""
    biases = [(bias, how) for bias, how in ((layer.bias_ih, of_input), (layer.bias_hh, of_state)) if bias is not None]
    if len(biases) == 2 and of_input == of_state:
        biases = [(biases[0][0] + biases[1][0], of_input)]
    copies, own = plan.programs.copies, plan.over.forward.own
    placed = [copies.slices(bias.unsqueeze(1), how, 1, own, plan.low).squeeze(1) for bias, how in biases]
    return sum(placed[1:], placed[0]) if placed else None
