"""Recurrent layers on an NVIDIA GPU by persistent programs: one launch for a whole sequence.

The recurrent matrix is read once and stays in registers and shared memory; the blocks of a launch own some units each,
exchange h through the second cache and meet once a step. docs/gpu.md says how, and what it costs.

four_blocks     cells as a formula over four blocks
geometry        who owns what
layout          weights and batches in the programs' order; copying: the same by programs
launching       the passes over whole sequences; twin: the same in plain torch
recurrence      projections, gradients of weights, autograd
before          the GRU that resets before its product; before_twin: the same in plain torch
linear          minGRU, minLSTM, diagonal: a fused scan
compiling       programs compiled by Triton and kept on disk; driver: launched through CUDA's driver
code/           the programs
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from thereafter.cells.base import Cell, HCState
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.kernels.gpu.before import BEFORE_PROGRAMS, before_refuses, before_unrolled
from thereafter.kernels.gpu.compiling import lacks_triton
from thereafter.kernels.gpu.driver import lacks_driver
from thereafter.kernels.gpu.four_blocks import FourBlocks, four_blocks
from thereafter.kernels.gpu.geometry import Geometry, geometry
from thereafter.kernels.gpu.launching import PROGRAMS, Hold, Launcher
from thereafter.kernels.gpu.linear import linear_refuses, run_linear_on_gpu
from thereafter.kernels.gpu.recurrence import LayerTensors, PassPlan, persistent
from thereafter.kernels.jobs import Job, SameBits, Unrolled
from thereafter.kernels.second import twice_differentiable

LOW = (torch.bfloat16, torch.float16)
_HOPPER = (9, 0)


class Gpu:
    """Persistent programs behind the common door."""

    name = "gpu"

    def refuses(self, job: Job) -> str | None:
        if job.x_BTI.device.type != "cuda":
            return "the programs run on an NVIDIA GPU"
        return lacks(job.x_BTI.device.index) or cannot_take(job, _processors(job.x_BTI.device.index))

    def status(self) -> str:
        if not torch.cuda.is_available():
            return "does not run here: no NVIDIA GPU"
        reason = lacks(torch.cuda.current_device())
        cells = "lstm, gru, elman in bfloat16 and float16, mingru, minlstm and diagonal in float32 as well"
        return f"does not run here: {reason}" if reason else f"runs here: persistent programs for {cells}"

    def deterministic(self, job: Job) -> SameBits:
        return SameBits(range(1, 1025), "every sum has one order; products of whole sequences are cuBLAS's")

    def run(self, job: Job) -> Unrolled:
        if job.cell.linear:
            return run_linear_on_gpu(job)
        processors = _processors(job.x_BTI.device.index)
        if is_reset_before(job.cell):
            return twice_differentiable(job, before_unrolled(job, BEFORE_PROGRAMS, processors))
        return twice_differentiable(job, unrolled(job, PROGRAMS, processors))


@lru_cache(maxsize=64)
def lacks(device: int) -> str | None:
    """What a device or its software is missing."""
    if torch.cuda.get_device_capability(device) != _HOPPER:
        return f"the programs are written for Hopper (H100, H200), this is {torch.cuda.get_device_name(device)}"
    return lacks_triton() or lacks_driver()


@lru_cache(maxsize=64)
def _processors(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def cannot_take(job: Job, processors: int) -> str | None:
    """Why the programs cannot run a job, whatever the device."""
    if job.cell.linear:
        return linear_refuses(job)
    if is_reset_before(job.cell):
        return before_refuses(job, processors)
    cell, blocks = job.cell, four_blocks(job.cell)
    if blocks is None or cell.layer_norm:
        return f"there is no program for {'layer norm' if cell.layer_norm else f'the cell {cell!r}'}"
    if job.record:
        return "the programs do not show their gates"
    if product_type(job) not in LOW:
        return "the programs multiply in bfloat16 and float16; use torch.autocast or layer.to(torch.bfloat16)"
    if not job.x_BTI.shape[0] or not job.x_BTI.shape[1]:
        return "there is nothing to compute"
    if cell.output_size != cell.hidden_size and "h" in job.hold:
        return "zoneout of a projected h needs the step-by-step form"
    if _over(job, processors) is None:
        rows, units = len(job.x_BTI), cell.hidden_size
        return f"{rows} rows of {units} units do not fit on {processors} multiprocessors at once"
    return None


def is_reset_before(cell: Cell) -> bool:
    """A GRU that resets before its product meets twice a step: programs of its own."""
    return type(cell) is GRU and cell.options.reset == "before" and not cell.layer_norm


def product_type(job: Job) -> torch.dtype:
    """What products are taken in: the input's type, or autocast's."""
    device = job.x_BTI.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else job.x_BTI.dtype


def _over(job: Job, processors: int) -> Geometry | None:
    busy = bool(job.hold) or job.lengths_B is not None or job.reset_BT is not None or "peephole_input" in job.weights
    return geometry(len(job.x_BTI), job.cell.hidden_size, processors, busy=busy)


def unrolled(job: Job, launcher: Launcher, processors: int) -> Unrolled:
    """A job by a launcher: the programs, or their twin."""
    low, over, blocks = product_type(job), _over(job, processors), four_blocks(job.cell)
    if over is None or blocks is None:
        raise AssertionError("a job is asked for before it is run")
    with torch.autocast(job.x_BTI.device.type, enabled=False):
        plan = _plan(job, low, blocks, over, launcher)
        weights, state = job.weights, job.state
        if "weight_hr" in weights:
            return _projected(job, plan)
        given = LayerTensors(
            job.x_BTI,
            state.h,
            state.c if isinstance(state, HCState) else None,
            weights["weight_ih"],
            weights["weight_hh"],
            weights.get("bias_ih"),
            weights.get("bias_hh"),
            _peepholes(job),
            None,
        )
        y_BTH, h_BH, c_BH = persistent(plan, given)
    return Unrolled(y_BTH, type(state)(h_BH) if c_BH is None else HCState(h_BH, c_BH))


def _projected(job: Job, plan: PassPlan) -> Unrolled:
    """A projected LSTM: h = R m, so U h = (U R) m, a plain recurrence in m; h is computed for all steps at once.

    The first h is not R m of anything: U h_0 is added to the first step's W x.
    """
    weights = {name: weight if "peephole" in name else weight.to(plan.low) for name, weight in job.weights.items()}
    into, onto, first_h = weights["weight_hr"], weights["weight_hh"], job.state.h.to(plan.low)
    first_BG = first_h @ onto.t()
    zeros = torch.zeros_like(job.state.c)
    if job.reset_BT is not None:
        first_BG = torch.where(job.reset_BT[:, :1], 0.0, first_BG)
    if job.lengths_B is not None:
        first_BG = torch.where((job.lengths_B > 0).unsqueeze(1), first_BG, 0.0)
    given = LayerTensors(
        job.x_BTI,
        zeros,
        job.state.c,
        weights["weight_ih"],
        onto @ into,
        weights.get("bias_ih"),
        weights.get("bias_hh"),
        _peepholes(job),
        first_BG,
    )
    m_BTH, last_BH, c_BH = persistent(plan, given)
    h_BO = last_BH @ into.t()
    if job.lengths_B is not None:
        h_BO = torch.where((job.lengths_B > 0).unsqueeze(1), h_BO, first_h)
    return Unrolled(m_BTH @ into.t(), HCState(h_BO, job.state.c if c_BH is None else c_BH))


def _peepholes(job: Job) -> Tensor | None:
    """[3, H] in float32: input, forget, output; a coupled cell has no forget gate."""
    if not (type(job.cell) is LSTM and job.cell.options.peephole):
        return None
    zeros = torch.zeros_like(job.weights["peephole_input"])
    named = [job.weights.get(f"peephole_{gate}", zeros) for gate in ("input", "forget", "output")]
    return torch.stack(named).float()


def _plan(job: Job, low: torch.dtype, blocks: FourBlocks, over: Geometry, launcher: Launcher) -> PassPlan:
    def share(name: str) -> Hold:
        hold = job.hold.get(name)
        if isinstance(hold, Tensor):
            return launcher.copies.rows(hold.transpose(0, 1), over.rows, over.units, low)
        return float(hold) if hold else None

    # a cell without a memory cell carries h in its place
    holds = (share("h"), share("c")) if blocks.has_memory else (None, share("h"))
    return PassPlan(blocks, over, launcher, low, _marks(job, over.rows), *holds)


def _marks(job: Job, rows: int) -> Tensor | None:
    """[T + 1, P]: 1 for a live row, 2 for one whose state is 0 before the step."""
    if job.lengths_B is None and job.reset_BT is None:
        return None
    batch, steps = job.x_BTI.shape[:2]
    marks = torch.zeros(steps + 1, rows, dtype=torch.uint8, device=job.x_BTI.device)
    step_T1 = torch.arange(steps, device=marks.device).unsqueeze(1)
    marks[:-1, :batch] = 1 if job.lengths_B is None else (step_T1 < job.lengths_B.to(marks.device)).to(torch.uint8)
    if job.reset_BT is not None:
        marks[:-1, :batch] += 2 * job.reset_BT.t().to(torch.uint8)
    return marks


GPU = Gpu()
