"""The fast CPU kernel: what does not recur is hoisted, weight gradients are one deferred product, and between them the
LSTM runs its whole sequence in one compiled call. float32 and float64; no compiler on the user's machine.

Products over all steps are torch's. In the LSTM the recurrent product and all that is between two of them run on the
same OpenMP threads (`loops.team`), each with its own rows of the batch, or its own units of the layer.
The GRU and Elman cells take torch's product a step, with a loop compiled for one thread between. No pool of threads is
made: it would fight torch's for the cores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.compiled import available, missing
from thereafter.kernels.jobs import Job, Unrolled


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
        if cell.layer_norm and not isinstance(cell, LSTM):
            return f"layer norm of {cell.name!r} runs in the reference loop"
        if cell.layer_norm and cell.output_size != cell.hidden_size:
            return "layer norm together with a projection runs in the reference loop"
        if not (cell.linear or isinstance(cell, (LSTM, GRU, Elman))):
            return f"it does not know the cell {cell.name!r}"
        return None

    def status(self) -> str:
        if available():
            return f"runs here: compiled by numba, {_threads()}"
        return f"cannot run here: {missing()}"

    def run(self, job: Job) -> Unrolled:
        from thereafter.kernels.cpu.elman import run_elman
        from thereafter.kernels.cpu.gru import run_gru
        from thereafter.kernels.cpu.linear import run_linear
        from thereafter.kernels.cpu.lstm import run_lstm, run_projected_lstm

        cell = job.cell
        if not torch.is_grad_enabled():
            job = _detached(job)  # a function of autograd's cannot see that nothing will be asked of it
        parts: tuple[Tensor, ...]
        if isinstance(cell, LSTM) and cell.output_size == cell.hidden_size:
            y_BTO, parts = run_lstm(job)
            return Unrolled(y_BTO, type(job.state)(*parts))
        z_TBG = _project(job)
        if isinstance(cell, LSTM):
            h_TBO, parts = run_projected_lstm(job, z_TBG)
        elif isinstance(cell, GRU):
            h_TBO, parts = run_gru(job, z_TBG)
        elif isinstance(cell, Elman):
            h_TBO, parts = run_elman(job, z_TBG)
        else:
            h_TBO, parts = run_linear(job, z_TBG)
        # A copy: what the loops keep for the way back must not change under a user who works in place.
        y_BTO = h_TBO.transpose(0, 1).clone(memory_format=torch.contiguous_format)
        if job.lengths_B is not None:
            live_BT1 = (torch.arange(y_BTO.shape[1]) < job.lengths_B.unsqueeze(1)).unsqueeze(-1)
            y_BTO = torch.where(live_BT1, y_BTO, torch.zeros((), dtype=y_BTO.dtype))
        return Unrolled(y_BTO, type(job.state)(*parts))


def _threads() -> str:
    from thereafter.kernels.loops.team import pool

    threads = torch.get_num_threads()
    if pool().parallel is None:
        return f"{threads} threads in torch's products; torch's OpenMP library was not found, so the LSTM takes one"
    return f"{threads} of torch's threads"


def _detached(job: Job) -> Job:
    weights = {name: weight.detach() for name, weight in job.weights.items()}
    state = type(job.state)(*(part.detach() for part in job.state))
    return replace(job, x_BTI=job.x_BTI.detach(), state=state, weights=weights)


def _project(job: Job) -> Tensor:
    """z of all steps, time first, with every bias that may be hoisted."""
    weights: Any = job.weights
    x_TBI = job.x_BTI.transpose(0, 1).contiguous()
    bias = weights.get("bias_ih")
    if "bias_hh" in weights and _hoists_second_bias(job.cell):
        bias = bias + weights["bias_hh"]
    return F.linear(x_TBI, weights["weight_ih"], bias)


def _hoists_second_bias(cell: Cell) -> bool:
    """All cells but the GRU that resets after the product, where the reset gate multiplies that bias."""
    return not (isinstance(cell, GRU) and cell.reset == "after")


CPU = Cpu()
