"""LSTM, GRU (reset after) and Elman by the wide and narrow programs: what they refuse, and a job by them.

Shapes: B rows, T steps, H units, O outputs, G gates.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.cells.base import HCState
from thereafter.kernels.gpu.four_blocks import FourBlocks, four_blocks
from thereafter.kernels.gpu.geometry import Geometry, geometry
from thereafter.kernels.gpu.launching import Hold, Launcher
from thereafter.kernels.gpu.preparing import marks, peepholes, product_type, too_large, unfit
from thereafter.kernels.gpu.recurrence import LayerTensors, PassPlan, persistent
from thereafter.kernels.jobs import Job, Unrolled


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


def unrolled(job: Job, launcher: Launcher, processors: int, *, wide: bool = True) -> Unrolled:
    """A job by a launcher: the programs, or their twin."""
    low, over, blocks = product_type(job), _over(job, processors, wide), four_blocks(job.cell)
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
            peepholes(job),
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
        peepholes(job),
        first_BG,
    )
    m_BTH, last_BH, c_BH = persistent(plan, given)
    h_BO = last_BH @ into.t()
    if job.lengths_B is not None:
        h_BO = torch.where((job.lengths_B > 0).unsqueeze(1), h_BO, first_h)
    return Unrolled(m_BTH @ into.t(), HCState(h_BO, job.state.c if c_BH is None else c_BH))


def _plan(job: Job, low: torch.dtype, blocks: FourBlocks, over: Geometry, launcher: Launcher) -> PassPlan:
    def share(name: str) -> Hold:
        hold = job.hold.get(name)
        if isinstance(hold, Tensor):
            return launcher.copies.rows(hold.transpose(0, 1), over.rows, over.units, low)
        return float(hold) if hold else None

    # a cell without a memory cell carries h in its place
    holds = (share("h"), share("c")) if blocks.has_memory else (None, share("h"))
    return PassPlan(blocks, over, launcher, low, marks(job, over.rows), *holds)
