"""The convolutional LSTM on a GPU: torch's convolution a step, and between two of them torch's one kernel for gates.

    z = W * x of all steps at once;   r_t = U * h_{t-1};   h_t, c_t = gates(z_t + r_t, c_{t-1})

The plain loop launches many short kernels a step, forward and backward, where this launches fewer. Gates are
computed and the memory is kept in the state's type, float32 under autocast, in which only convolutions are halved.

Shapes: B rows, T steps, G gate rows, O numbers of a map.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.cells.base import HCState
from thereafter.cells.conv_lstm import ConvLSTM
from thereafter.kernels.jobs import Job, Unrolled


def conv_lstm_refuses(cell: ConvLSTM, job: Job) -> str | None:
    """Why torch's kernel for the gates of an LSTM cannot run a job."""
    if job.x_BTI.device.type != "cuda":
        return "torch has the gates of an LSTM in one kernel on a GPU alone"
    if cell.options.peephole or cell.options.coupled or cell.layer_norm:
        return "torch's gates of an LSTM have no peepholes, no coupling and no layer norm"
    if not job.plain or not job.x_BTI.numel():
        return "lengths, resets and records of a convolutional LSTM run in the reference loop"
    return None


def run_conv_lstm(cell: ConvLSTM, job: Job) -> Unrolled:
    """All steps of a job that is not refused."""
    z_BTG = cell.project(job.x_BTI, job.weights)
    h_BO, c_BO = job.state
    outputs = []
    for t in range(job.x_BTI.shape[1]):
        h_BO, c_BO = gates(z_BTG[:, t], cell.recur(h_BO, job.weights), c_BO)
        outputs.append(h_BO)
    return Unrolled(torch.stack(outputs, dim=1), HCState(h_BO, c_BO))


def gates(z_BG: Tensor, r_BG: Tensor, c_BO: Tensor) -> tuple[Tensor, Tensor]:
    """h and c after a step, in the type of c."""
    with torch.autocast(c_BO.device.type, enabled=False):
        given = (z_BG.to(c_BO.dtype).contiguous(), r_BG.to(c_BO.dtype).contiguous(), c_BO.contiguous())
        made: tuple[Tensor, Tensor, Tensor] = torch.ops.aten._thnn_fused_lstm_cell(*given)
    return made[0], made[1]
