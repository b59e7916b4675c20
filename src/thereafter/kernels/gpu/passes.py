"""LSTM, GRU and Elman by persistent programs: a whole sequence in one launch, and everything around it: projections,
gradients of weights.

    forward     projected = W x + b for all steps at once;  then step by step a = projected_t + U h_{t-1}
    backward    da_t step by step;  then for all steps  dW = sum da_t x_t',  dU = sum da_t h_{t-1}',  dx_t = W' da_t

A layer-norm LSTM (code/layer_norm.py) is given z = layernorm(W x) gain + b + b', made by torch, in place of W x + b;
its dU is made of d(U h), before U h was normalised. A GRU that resets before its product (code/reset_before.py) has
dU_n = sum dn_t (r h)_t'.

Shapes: T steps, B rows, I inputs, H units, O outputs, G gates; P, J, K: rows, inputs and units filled up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import EPSILON, Cell, HCState
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.kernels.gpu.copying import FilledUnits, Places, filled
from thereafter.kernels.gpu.geometry import SHARED_BYTES, Geometry, before_geometry, geometry, norm_geometry
from thereafter.kernels.gpu.launch import FLOATS
from thereafter.kernels.gpu.launching import BackwardArrays, ForwardArrays, Hold, Programs
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.second import Called, MaybeTensors, is_passed_over, no_gradients
from thereafter.kernels.switches import apply_many

ALIGNED = 8
"""Inputs are filled up to a multiple of this: 16 bytes of 16-bit numbers."""
LOW = (torch.bfloat16, torch.float16)
"""What products are taken in."""
_MOST_HALF = 2.0**15
"""Half of the largest number of float16: tanh has been 1 to the last digit since 10, and a gradient of 0 times infinity
would be none."""
_MOST_EXCHANGED = 2**31
"""Places of row sums: the programs of layer norm count them in 32 bits."""


class CellBlocks(NamedTuple):
    """A cell as the programs know it: a formula over blocks of W x + U h + b.

    `form`: as code/formulas.py names it. `of_input`, `of_state`: where the gates of W and b, of U and b' go. There are
    four blocks, some of them empty (weights of 0) where a cell has fewer gates. A GRU that resets after its product
    needs W x and U h of its candidate apart, so these are two blocks; one that resets before it has its three gates.
    """

    form: str
    of_input: Places
    of_state: Places

    @property
    def has_memory(self) -> bool:
        """Whether there is a memory cell beside h."""
        return self.form in ("lstm", "coupled")

    @property
    def resets_before(self) -> bool:
        """Whether the product of the candidate waits for the reset: programs of its own, which meet twice a step."""
        return len(self.of_state) == 3


def blocks_of(cell: Cell) -> CellBlocks | None:
    """By the exact type: a cell that was made from one of these may compute something else."""
    if type(cell) is LSTM:
        places: Places = (0, None, 1, 2) if cell.options.coupled else (0, 1, 2, 3)
        return CellBlocks("coupled" if cell.options.coupled else "lstm", places, places)
    if cell.layer_norm:
        return None
    if type(cell) is GRU:
        form = f"gru_{cell.options.update}"
        after = cell.options.reset == "after"
        return CellBlocks(form, (0, 1, 2, None), (0, 1, None, 2)) if after else CellBlocks(form, (0, 1, 2), (0, 1, 2))
    if type(cell) is Elman:
        return CellBlocks(cell.options.nonlinearity, (0, None, None, None), (0, None, None, None))
    return None


def product_type(job: Job) -> torch.dtype:
    """What products of a job are taken in: the input's type, or autocast's."""
    device = job.x_BTI.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else job.x_BTI.dtype


def unfit(job: Job) -> str | None:
    """Why no program can run a job, whatever its cell."""
    if job.record:
        return "the programs do not show their gates"
    other = [array.dtype for array in (job.x_BTI, *job.state, *job.weights.values()) if array.dtype not in FLOATS]
    if other:
        return f"an array is {other[0]}; the programs read float32, bfloat16 and float16"
    if product_type(job) not in LOW:
        return "the programs multiply in bfloat16 and float16; use torch.autocast or layer.to(torch.bfloat16)"
    return None if job.x_BTI.shape[0] and job.x_BTI.shape[1] else "there is nothing to compute"


def last_cell(c: Tensor, low: torch.dtype) -> Tensor:
    """A cell state in the type it is handed on in; an LSTM that counts in c goes beyond what float16 can hold."""
    return c.clamp(-_MOST_HALF, _MOST_HALF).to(low) if low == torch.float16 else c.to(low)


def begun(state_PK: Tensor, marks: Tensor | None) -> Tensor:
    """A state before the first step: 0 in rows that begin anew there."""
    return state_PK if marks is None else torch.where(((marks[0] & 2) != 0).unsqueeze(1), 0.0, state_PK)


def charge(d_BH: Tensor | None, like_PK: Tensor) -> Tensor:
    """The gradient of a last state, in float32."""
    return torch.zeros_like(like_PK) if d_BH is None else filled(d_BH.float(), *like_PK.shape)


def marks(job: Job, rows: int) -> Tensor | None:
    """[T + 1, P]: 1 for a live row, 2 for one whose state is 0 before the step."""
    if job.lengths_B is None and job.reset_BT is None:
        return None
    batch, steps = job.x_BTI.shape[:2]
    made = torch.zeros(steps + 1, rows, dtype=torch.uint8, device=job.x_BTI.device)
    step_T1 = torch.arange(steps, device=made.device).unsqueeze(1)
    made[:-1, :batch] = 1 if job.lengths_B is None else (step_T1 < job.lengths_B.to(made.device)).to(torch.uint8)
    if job.reset_BT is not None:
        made[:-1, :batch] += 2 * job.reset_BT.t().to(torch.uint8)
    return made


def peepholes(job: Job) -> Tensor | None:
    """[3, H] in float32: input, forget, output; a coupled cell has no forget gate."""
    if not (type(job.cell) is LSTM and job.cell.options.peephole):
        return None
    zeros = torch.zeros_like(job.weights["peephole_input"])
    named = [job.weights.get(f"peephole_{gate}", zeros) for gate in ("input", "forget", "output")]
    return torch.stack(named).float()


def refuses(job: Job, processors: int, *, shared: int = SHARED_BYTES, wide: bool = True) -> str | None:
    """Why the programs cannot run a job on so many multiprocessors.

    `shared`: bytes of shared memory that a block can have. `wide`: whether it can run the wide programs, of which those
    of layer norm are made.
    """
    cell, blocks = job.cell, blocks_of(job.cell)
    projected = cell.output_size != cell.hidden_size
    if blocks is None:
        return f"there is no program for the cell {cell.name!r}{' with layer norm' if cell.layer_norm else ''}"
    if cell.layer_norm and not wide:
        return "layer norm is computed by Hopper's instructions (H100, H200)"
    if cell.layer_norm and projected:
        return "there is no program for a projected LSTM with layer norm"
    if projected and "h" in job.hold:
        return "zoneout of a projected h needs the step-by-step form"
    reason, over = unfit(job), _lay_over(job, blocks, processors, shared, wide)
    if reason is not None:
        return reason
    if over is None:
        size = f"{len(job.x_BTI)} rows of {cell.hidden_size} units"
        more = "" if wide or blocks.resets_before else " without the wide programs, which need Hopper's instructions"
        return f"{size} do not fit on {processors} multiprocessors at once{more}"
    steps = job.x_BTI.shape[1]
    exchanged = 4 * steps * over.units // min(over.forward.own, over.backward.own) * over.rows
    if cell.layer_norm and exchanged >= _MOST_EXCHANGED:
        return f"{steps} steps are more than the layer-norm programs count; cut the sequence"
    return None


def _lay_over(job: Job, blocks: CellBlocks, processors: int, shared: int, wide: bool) -> Geometry | None:
    size = len(job.x_BTI), job.cell.hidden_size, processors
    peephole = "peephole_input" in job.weights
    if blocks.resets_before:
        return before_geometry(*size, shared)
    if job.cell.layer_norm:
        return norm_geometry(*size, peephole=peephole)
    busy = bool(job.hold) or job.lengths_B is not None or job.reset_BT is not None or peephole
    return geometry(*size, busy=busy, wide=wide)


class Layer(NamedTuple):
    """The tensors of a layer that have gradients, in any floating type.

    `x`: [B, T, I], or where there is no `weight_ih` what is projected already, [T, B, G]. `peepholes` [3, H] and
    `norms` [6, H]: in float32, as in `ForwardArrays`. `first_BG`: added to W x + b of the first step, in the cell's own
    order of gates.
    """

    x: Tensor
    h_BH: Tensor
    c_BH: Tensor | None
    weight_hh: Tensor
    weight_ih: Tensor | None = None
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None
    peepholes: Tensor | None = None
    first_BG: Tensor | None = None
    norms: Tensor | None = None


@dataclass(frozen=True)
class PassPlan:
    """All that has no gradient. `low`: the type of products, states and outputs. `marks` [T + 1, P], `hold_h` and
    `hold_c` as the programs take them."""

    blocks: CellBlocks
    over: Geometry
    programs: Programs
    low: torch.dtype
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold

    @property
    def own(self) -> int:
        """The units of a slice."""
        return self.over.units if self.blocks.resets_before else self.over.forward.own

    def of_input(self, units: int) -> FilledUnits:
        """How W is filled up."""
        return FilledUnits(units, self.over.units, self.blocks.of_input)

    def of_state(self, units: int) -> FilledUnits:
        """How U is filled up."""
        return FilledUnits(units, self.over.units, self.blocks.of_state)

    def project(self, layer: Layer, weight_ih: Tensor) -> tuple[Tensor, Tensor]:
        """x [T, P, J], and W x + b of all steps, slice by slice."""
        over, copies, units = self.over, self.programs.copies, layer.weight_hh.shape[1]
        rows, _, inputs = layer.x.shape
        columns = -(-inputs // ALIGNED) * ALIGNED
        x_TPJ = copies.rows(layer.x.transpose(0, 1), over.rows, columns, self.low)
        w_ih = copies.slices(weight_ih, self.of_input(units), columns, self.own, self.low)
        projected = F.linear(x_TPJ, w_ih, self._sliced_bias(layer, units))
        if layer.first_BG is not None:
            first = copies.slices(layer.first_BG.t().contiguous(), self.of_state(units), rows, self.own, self.low)
            projected[0, :rows] += first.t()
        return x_TPJ, projected

    def _sliced_bias(self, layer: Layer, units: int) -> Tensor | None:
        """b + b' in the order of the slices, in the type of the products."""
        both = (layer.bias_ih, self.of_input(units)), (layer.bias_hh, self.of_state(units))
        biases = [(bias, how) for bias, how in both if bias is not None]
        if len(biases) == 2 and self.blocks.of_input == self.blocks.of_state:
            biases = [(biases[0][0] + biases[1][0], biases[0][1])]
        slices = self.programs.copies.slices
        placed = [slices(bias.unsqueeze(1), how, 1, self.own, self.low).squeeze(1) for bias, how in biases]
        return sum(placed[1:], placed[0]) if placed else None

    def forward(self, projected: Tensor, layer: Layer, *, save: bool) -> ForwardArrays:
        """A forward pass; `save` what the backward pass needs."""
        over, copies, steps, norms = self.over, self.programs.copies, len(projected), layer.norms
        units = layer.weight_hh.shape[1]
        states = projected.new_empty(steps + 1, over.rows, over.units)
        cells = states.new_empty(steps + 1 if save else 1, over.rows, over.units, dtype=torch.float32)
        copies.first(layer.h_BH, states[0])
        copies.first(layer.h_BH if layer.c_BH is None else layer.c_BH, cells[0])
        if self.marks is not None:
            states[0], cells[0] = begun(states[0], self.marks), begun(cells[0], self.marks)
        keeps_hats = save and norms is not None
        arrays = ForwardArrays(
            projected,
            copies.slices(layer.weight_hh, self.of_state(units), over.units, self.own, self.low),
            states,
            torch.empty_like(states[1:]) if self.blocks.resets_before else None,
            None if self.marks is None else torch.empty_like(states[1:]),
            cells,
            torch.empty_like(cells[0]),
            torch.empty_like(projected) if keeps_hats else None,
            cells.new_empty(steps, 3, over.rows) if keeps_hats else None,
            None if norms is None else filled(norms, 6, over.units),
            None if layer.peepholes is None else filled(layer.peepholes, 3, over.units),
            self.marks,
            self.hold_h,
            self.hold_c,
            *self._shares(units),
            EPSILON,
        )
        self.programs.forward(self.blocks.form, over, arrays)
        return arrays

    def backward(
        self,
        gradients: MaybeTensors,
        weight_hh: Tensor,
        kept: Tensor,
        cells: Tensor,
        peepholes: Tensor | None,
        hats: Tensor | None,
        statistics: Tensor | None,
        norms: Tensor | None,
    ) -> BackwardArrays:
        """The backward pass, from the gradients of outputs and last states."""
        dy_BTH, dh_BH, dc_BH = gradients
        over, copies, steps, units = self.over, self.programs.copies, len(kept), weight_hh.shape[1]
        places = len(self.blocks.of_state)
        if not self.blocks.has_memory:
            dc_BH, dh_BH = dh_BH, None
        charged = dh_BH is not None or dc_BH is not None
        after = kept.new_empty(steps + 1, over.rows, places, over.units)
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
            cells.new_empty(places, over.rows, over.units) if norms is None else None,
            self.marks,
            self.hold_h,
            self.hold_c,
            *self._shares(units),
        )
        self.programs.backward(self.blocks.form, over, arrays)
        return arrays

    def results(self, arrays: ForwardArrays, rows: int, units: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Outputs [B, T, H], the last h and c [B, H]: states of their own, since callers may change them in place."""
        y_TPK = arrays.states[1:] if arrays.outputs is None else arrays.outputs
        last_h = arrays.states[-1, :rows, :units].clone()
        last_c = last_cell(arrays.last_c[:rows, :units], self.low) if self.blocks.has_memory else None
        return y_TPK[:, :rows, :units].transpose(0, 1), last_h, last_c

    def first_gradient(self, after_PG: Tensor, weight_hh: Tensor, direct: Tensor, rows: int) -> Tensor:
        """The gradient of the first h in float32: what comes through U, from `after` the first step, and past it."""
        units = weight_hh.shape[1]
        blocks = self.programs.copies.slices(
            weight_hh, self.of_state(units), self.over.units, self.over.units, self.low
        )
        through = after_PG @ blocks[: after_PG.shape[1]]
        return (begun(through.float(), self.marks) + direct)[:rows, :units]

    def _shares(self, units: int) -> tuple[float, float]:
        """1 / G and 1 / H."""
        return 1 / (units * len(self.of_state(units).order)), 1 / units


def plan_of(job: Job, blocks: CellBlocks, over: Geometry, programs: Programs, low: torch.dtype) -> PassPlan:
    """What the programs are told of a job beside its tensors."""

    def share(name: str) -> Hold:
        hold = job.hold.get(name)
        if isinstance(hold, Tensor):
            return programs.copies.rows(hold.transpose(0, 1), over.rows, over.units, low)
        return float(hold) if hold else None

    # a cell without a memory cell carries h in its place
    holds = (share("h"), share("c")) if blocks.has_memory else (None, share("h"))
    return PassPlan(blocks, over, programs, low, marks(job, over.rows), *holds)


def unrolled(
    job: Job, programs: Programs, processors: int, *, shared: int = SHARED_BYTES, wide: bool = True
) -> Unrolled:
    """A job by the programs."""
    blocks, state, weights = blocks_of(job.cell), job.state, job.weights
    over = blocks and _lay_over(job, blocks, processors, shared, wide)
    if blocks is None or over is None:
        raise AssertionError("a job is asked for before it is run")
    low = product_type(job)
    with torch.autocast(job.x_BTI.device.type, enabled=False):
        plan = plan_of(job, blocks, over, programs, low)
        if "weight_hr" in weights:
            return _projected(job, plan)
        if job.cell.layer_norm:
            into = state.h.to(low), state.c.to(low), weights["weight_hh"].to(low)
            layer = Layer(_input_side(job, low), *into, peepholes=peepholes(job), norms=_norms(job, blocks))
        elif blocks.resets_before:
            layer = _layer(job.x_BTI, state.h.to(low), None, _lowered(weights, low))
        else:
            c_BH = state.c if isinstance(state, HCState) else None
            layer = _layer(job.x_BTI, state.h, c_BH, weights)._replace(peepholes=peepholes(job))
        y_BTH, h_BH, c_BH = apply_many(_Persistent, plan, *layer)
    return Unrolled(y_BTH, HCState(h_BH, c_BH) if blocks.has_memory else type(state)(h_BH))


def _layer(x_BTI: Tensor, h_BH: Tensor, c_BH: Tensor | None, weights: Mapping[str, Tensor]) -> Layer:
    biases = weights.get("bias_ih"), weights.get("bias_hh")
    return Layer(x_BTI, h_BH, c_BH, weights["weight_hh"], weights["weight_ih"], *biases)


def _lowered(weights: Mapping[str, Tensor], low: torch.dtype) -> dict[str, Tensor]:
    """Weights in the type of the products."""
    return {name: weight if "peephole" in name else weight.to(low) for name, weight in weights.items()}


def _projected(job: Job, plan: PassPlan) -> Unrolled:
    """A projected LSTM: h = R m, so U h = (U R) m, a plain recurrence in m; h is computed for all steps at once.

    The first h is not R m of anything: U h_0 is added to the first step's W x.
    """
    weights = _lowered(job.weights, plan.low)
    into, onto, first_h = weights["weight_hr"], weights["weight_hh"], job.state.h.to(plan.low)
    first_BG = first_h @ onto.t()
    if job.reset_BT is not None:
        first_BG = torch.where(job.reset_BT[:, :1], 0.0, first_BG)
    if job.lengths_B is not None:
        first_BG = torch.where((job.lengths_B > 0).unsqueeze(1), first_BG, 0.0)
    layer = _layer(job.x_BTI, torch.zeros_like(job.state.c), job.state.c, weights | {"weight_hh": onto @ into})
    layer = layer._replace(peepholes=peepholes(job), first_BG=first_BG)
    m_BTH, last_BH, c_BH = apply_many(_Persistent, plan, *layer)
    h_BO = last_BH @ into.t()
    if job.lengths_B is not None:
        h_BO = torch.where((job.lengths_B > 0).unsqueeze(1), h_BO, first_h)
    return Unrolled(m_BTH @ into.t(), HCState(h_BO, c_BH))


def _input_side(job: Job, low: torch.dtype) -> Tensor:
    """z_TBG of a layer-norm LSTM: W x of all steps, normalised, and both biases, which have the same gradient."""
    weights = job.weights
    more = -job.x_BTI.shape[2] % ALIGNED
    x_TBJ = F.pad(job.x_BTI.to(low).transpose(0, 1), (0, more))
    raw_TBG = F.linear(x_TBJ, F.pad(weights["weight_ih"].to(low), (0, more)))
    biases = [weights[name].float() for name in ("bias_ih", "bias_hh") if name in weights]
    bias = torch.stack(biases).sum(0).to(low) if biases else None
    return F.layer_norm(raw_TBG, raw_TBG.shape[2:], weights["norm_ih"].to(low), bias, EPSILON)


def _norms(job: Job, blocks: CellBlocks) -> Tensor:
    """[6, H] in float32: the gains of the four gates (0 where there is none), gain and shift of c."""
    gains = job.weights["norm_hh"].view(-1, job.cell.hidden_size)
    none = torch.zeros_like(job.weights["norm_c"])
    placed = [none if gate is None else gains[gate] for gate in blocks.of_state]
    return torch.stack([*placed, job.weights["norm_c"], job.weights["shift_c"]]).float()


class _CalledPass(Called, Protocol):
    """What is kept of a pass besides tensors."""

    plan: PassPlan
    rows: int


class _Persistent(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _CalledPass, plan: PassPlan, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        layer, save = Layer(*tensors), any(ctx.needs_input_grad)
        rows, units = layer.h_BH.shape
        x_TPJ = None
        if layer.weight_ih is None:
            projected = plan.programs.copies.sliced_columns(layer.x, plan.of_state(units), plan.over.rows, plan.own)
        else:
            x_TPJ, projected = plan.project(layer, layer.weight_ih)
        arrays = plan.forward(projected, layer, save=save)
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.rows = plan, rows
        if save:
            read = x_TPJ, layer.weight_ih, layer.weight_hh, arrays.states, arrays.resets
            of_norm = arrays.hats, arrays.statistics, arrays.norms
            ctx.save_for_backward(*read, projected, arrays.cells, arrays.peepholes, *of_norm)
        return plan.results(arrays, rows, units)

    @staticmethod
    def backward(ctx: _CalledPass, *gradients: Tensor | None) -> MaybeTensors:
        if is_passed_over(*gradients):
            return no_gradients(ctx)
        plan, rows = ctx.plan, ctx.rows
        over, blocks, copies, low = plan.over, plan.blocks, plan.programs.copies, plan.low
        x_TPJ, weight_ih, weight_hh, states, resets, *saved = ctx.saved_tensors
        units = weight_hh.shape[1]
        of_input, of_state = plan.of_input(units), plan.of_state(units)
        needed = {name for name, asked in zip(Layer._fields, ctx.needs_input_grad[1:], strict=True) if asked}
        arrays = plan.backward(gradients, weight_hh, *saved)
        through_U = arrays.d_gates if arrays.d_raw is None else arrays.d_raw
        d_NG = through_U[:-1].view(len(through_U[:-1]) * over.rows, -1)
        made: dict[str, Tensor] = {}
        if weight_ih is None and "x" in needed:
            made["x"] = copies.gate_columns(arrays.d_gates, of_state, rows)
        elif "x" in needed:
            w_ih = copies.slices(weight_ih, of_input, x_TPJ.shape[2], over.units, low)
            made["x"] = (d_NG @ w_ih).view_as(x_TPJ)[:, :rows, : weight_ih.shape[1]].transpose(0, 1)
        if "h_BH" in needed:
            # with a reset before the product `direct` has all that does not come through r
            first = through_U[0, :, :1] if blocks.resets_before else through_U[0]
            direct = arrays.d_first_h if blocks.has_memory else arrays.d_first_c
            made["h_BH"] = plan.first_gradient(first.flatten(1), weight_hh, direct, rows)
        if "c_BH" in needed:
            made["c_BH"] = arrays.d_first_c[:rows, :units]
        if "weight_ih" in needed:
            d_ih = d_NG.t() @ x_TPJ.flatten(0, 1)
            made["weight_ih"] = copies.gates(d_ih, of_input, weight_ih.shape[1], weight_ih.dtype)
        if "weight_hh" in needed:
            d_hh = _with_states(d_NG, states[:-1].flatten(0, 1), resets)
            made["weight_hh"] = copies.gates(d_hh, of_state, units, weight_hh.dtype)
        biases = {name: how for name, how in (("bias_ih", of_input), ("bias_hh", of_state)) if name in needed}
        if biases and arrays.d_biases is not None:
            sums = arrays.d_biases.sum(1).view(-1, 1)
            placed = {
                how: copies.gates(sums, how, 1, weight_hh.dtype).flatten() for how in dict.fromkeys(biases.values())
            }
            made |= {name: placed[how] for name, how in biases.items()}
        for name, parts in (("peepholes", arrays.d_peepholes), ("norms", arrays.d_norms)):
            if name in needed and parts is not None:
                made[name] = parts.sum(1)[:, :units]
        if "first_BG" in needed:
            d_first = through_U[0].flatten(1).t().contiguous()
            made["first_BG"] = copies.gates(d_first, of_state, over.rows, low)[:, :rows].t()
        return None, *(made.get(name) for name in Layer._fields)


def _with_states(d_NG: Tensor, h_NK: Tensor, resets: Tensor | None) -> Tensor:
    """The sum over steps of the gates' gradients with what U multiplied: h, or of a reset before the product r h for
    the last gate."""
    if resets is None:
        return d_NG.t() @ h_NK
    units = h_NK.shape[1]
    d_GK = h_NK.new_empty(3 * units, units)
    torch.mm(d_NG[:, : 2 * units].t(), h_NK, out=d_GK[: 2 * units])
    torch.mm(d_NG[:, 2 * units :].t(), resets.flatten(0, 1), out=d_GK[2 * units :])
    return d_GK
