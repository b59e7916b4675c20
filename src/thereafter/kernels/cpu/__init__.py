"""The fast CPU kernel: what does not recur is hoisted, weight gradients are one deferred product, and between them the
LSTM, GRU and Elman cells run a whole sequence in one compiled call. float32 and float64; no compiler on the user's
machine.

Products over all steps are torch's. There the recurrent product and all that is between two of them run on the same
OpenMP threads (`loops.team`), each with its own rows of the batch, or its own units of the layer. No pool of threads is
made: it would fight torch's for the cores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from thereafter.base.compiled import available, missing
from thereafter.cells.base import Cell, HState
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM, ConvLSTM
from thereafter.cells.minimal import Diagonal, MinGRU, MinLSTM
from thereafter.kernels.cpu.gru_elman import run_elman, run_gru
from thereafter.kernels.cpu.lstm import run_lstm
from thereafter.kernels.cpu.plan import same_bits
from thereafter.kernels.cpu.products import project
from thereafter.kernels.jobs import Job, SameBits, Unrolled
from thereafter.kernels.plain import resets_and_ends
from thereafter.kernels.second import is_passed_over, no_gradients, twice_differentiable
from thereafter.kernels.switches import apply_one


class Cpu:
    """Plain, peephole, coupled, projected and layer-norm LSTM; both GRUs; Elman; the linear cells."""

    name = "cpu"

    def refuses(self, job: Job) -> str | None:
        cell = job.cell
        if not available():
            return str(missing())
        if job.x_BTI.device.type != "cpu":
            return f"the input is on {job.x_BTI.device}"
        if job.x_BTI.dtype not in (torch.float32, torch.float64):
            return f"the input is {job.x_BTI.dtype}; it knows float32 and float64"
        if torch.is_autocast_enabled("cpu"):
            return "autocast asks for products in a lower precision than its loops know"
        if job.record:
            return "the gates of every step are recorded by the reference loop"
        if job.hold:
            return "zoneout runs in the reference loop"
        if job.reset_BT is not None and not cell.linear:
            return "state reset runs in the reference loop"
        if not job.x_BTI.shape[1] or not job.x_BTI.shape[0]:
            return "there is nothing to do"
        if type(cell) is ConvLSTM:
            return "a convolutional LSTM runs in the reference loop: its product of a step is torch's convolution"
        if type(cell) not in _KNOWN:
            return f"it does not know the cell {cell.name!r}"
        if cell.layer_norm and type(cell) is not LSTM:
            return f"layer norm of {cell.name!r} runs in the reference loop"
        if cell.layer_norm and cell.output_size != cell.hidden_size:
            return "layer norm together with a projection runs in the reference loop"
        return None

    def status(self) -> str:
        if available():
            return f"runs here: compiled by numba, {_threads()}"
        return f"cannot run here: {missing()}"

    def deterministic(self, job: Job) -> SameBits:
        return same_bits(job)

    def run(self, job: Job) -> Unrolled:
        if not torch.is_grad_enabled():
            job = _detached(job)  # a function of autograd's cannot see that nothing will be asked of it
        return twice_differentiable(job, _KNOWN[type(job.cell)](job.cell, job))


class _LinearSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a_TBH: Tensor, b_TBH: Tensor, h_BH: Tensor) -> Tensor:
        from thereafter.kernels.loops.formulas import linear_forward

        a, b = a_TBH.contiguous(), b_TBH.contiguous()
        h = a.new_empty(len(a) + 1, *a.shape[1:])
        h[0] = h_BH
        linear_forward(a.numpy(), b.numpy(), h.numpy())
        ctx.save_for_backward(a, h)
        return h[1:]

    @staticmethod
    def backward(ctx: Any, dy_TBH: Tensor) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy_TBH):
            return no_gradients(ctx)
        from thereafter.kernels.loops.formulas import linear_backward

        a, h = ctx.saved_tensors
        da, db, dh = torch.empty_like(a), torch.empty_like(a), torch.zeros_like(h[0])
        linear_backward(*(x.numpy() for x in (a, h, dy_TBH.contiguous(), da, db, dh)))
        return da, db, dh


def run_linear(cell: Cell, job: Job) -> Unrolled:
    """All steps of a linear cell: coefficients by torch, the recurrence in one compiled pass.

    In finished rows the state stays as it is, and the output is 0.
    """
    z_TBG = project(job)
    a_TBH, b_TBH = cell.coefficients(z_TBG, job.weights)
    a_TBH, b_TBH, live_TB1 = resets_and_ends(job, a_TBH, b_TBH, rows_first=False)
    h_TBH = apply_one(_LinearSteps, a_TBH, b_TBH, job.state.h)
    # Copies: what the loops keep for the backward pass must not change under a user who works in place.
    y_BTH = h_TBH.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    if live_TB1 is not None:
        y_BTH = torch.where(live_TB1.transpose(0, 1), y_BTH, torch.zeros((), dtype=y_BTH.dtype))
    return Unrolled(y_BTH, HState(h_TBH[-1].clone()))


# By the exact type: a cell that was made from one of these may compute something else.
_KNOWN: dict[type[Cell], Callable[[Any, Job], Unrolled]] = {
    LSTM: run_lstm,
    GRU: run_gru,
    Elman: run_elman,
    MinGRU: run_linear,
    MinLSTM: run_linear,
    Diagonal: run_linear,
}


def _threads() -> str:
    from thereafter.kernels.loops.team import pool

    threads = torch.get_num_threads()
    if pool().parallel is None:
        return f"{threads} threads in torch's products; torch's OpenMP library was not found, so the loops take one"
    return f"{threads} of torch's threads"


def _detached(job: Job) -> Job:
    weights = {name: weight.detach() for name, weight in job.weights.items()}
    state = type(job.state)(*(part.detach() for part in job.state))
    return replace(job, x_BTI=job.x_BTI.detach(), state=state, weights=weights)


CPU = Cpu()
