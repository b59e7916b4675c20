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
import torch.nn.functional as F
from torch import Tensor

from thereafter.base.compiled import available, missing
from thereafter.cells.base import Cell
from thereafter.cells.conv_lstm import ConvLSTM
from thereafter.cells.diagonal import Diagonal
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import MinGRU, MinLSTM
from thereafter.kernels.jobs import Job, SameBits, Unrolled
from thereafter.kernels.second import twice_differentiable


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
        from thereafter.kernels.cpu.same_bits import same_bits

        return same_bits(job)

    def run(self, job: Job) -> Unrolled:
        if not torch.is_grad_enabled():
            job = _detached(job)  # a function of autograd's cannot see that nothing will be asked of it
        return twice_differentiable(job, _KNOWN[type(job.cell)](job.cell, job))


def _run_lstm(cell: LSTM, job: Job) -> Unrolled:
    from thereafter.kernels.cpu.lstm import run_lstm, run_projected_lstm

    if cell.output_size != cell.hidden_size:
        y_BTO, parts = run_projected_lstm(cell, job, _project(job))
    else:
        y_BTO, parts = run_lstm(cell, job)
    return Unrolled(y_BTO, type(job.state)(*parts))


def _run_gru(cell: GRU, job: Job) -> Unrolled:
    from thereafter.kernels.cpu.gru import run_gru

    y_BTO, parts = run_gru(cell, job)
    return Unrolled(y_BTO, type(job.state)(*parts))


def _run_elman(cell: Elman, job: Job) -> Unrolled:
    from thereafter.kernels.cpu.elman import run_elman

    y_BTO, parts = run_elman(cell, job)
    return Unrolled(y_BTO, type(job.state)(*parts))


def _run_linear(cell: Cell, job: Job) -> Unrolled:
    from thereafter.kernels.cpu.workspace import run_linear

    return _batch_first(job, *run_linear(cell, job, _project(job)))


# By the exact type: a cell that was made from one of these may compute something else.
_KNOWN: dict[type[Cell], Callable[[Any, Job], Unrolled]] = {
    LSTM: _run_lstm,
    GRU: _run_gru,
    Elman: _run_elman,
    MinGRU: _run_linear,
    MinLSTM: _run_linear,
    Diagonal: _run_linear,
}


def _batch_first(job: Job, h_TBO: Tensor, parts: tuple[Tensor, ...]) -> Unrolled:
    """What the loops give, time first, as a kernel answers; 0 beyond the end of each row."""
    # A copy: what the loops keep for the backward pass must not change under a user who works in place.
    y_BTO = h_TBO.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    if job.lengths_B is not None:
        live_BT1 = (torch.arange(y_BTO.shape[1], device=y_BTO.device) < job.lengths_B.unsqueeze(1)).unsqueeze(-1)
        y_BTO = torch.where(live_BT1, y_BTO, torch.zeros((), dtype=y_BTO.dtype))
    return Unrolled(y_BTO, type(job.state)(*parts))


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


def _project(job: Job) -> Tensor:
    """z of all steps, time first, with every bias."""
    weights = job.weights
    x_TBI = job.x_BTI.transpose(0, 1).contiguous()
    bias = weights.get("bias_ih")
    if bias is not None and "bias_hh" in weights:
        bias = bias + weights["bias_hh"]
    return F.linear(x_TBI, weights["weight_ih"], bias)


CPU = Cpu()
