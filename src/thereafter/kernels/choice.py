"""Which kernel is fastest for a job: what `benchmarks/kernels.py` measures, as a table."""

from __future__ import annotations

from typing import NamedTuple

import torch

from thereafter.kernels.functions import transformed
from thereafter.kernels.jobs import Job


class FewSteps(NamedTuple):
    """Up to how many steps something else is faster on a CPU than our kernel, which begins by laying weights out: the
    plain loop, and beyond it torch's own. While training, and without gradients."""

    loop: tuple[int, int] = (0, 0)
    vendor: tuple[int, int] = (0, 0)


_FEW_STEPS = {
    "lstm": FewSteps(loop=(1, 1), vendor=(0, 2)),
    "lstm of one row": FewSteps(loop=(1, 3)),
    "projected lstm": FewSteps(loop=(1, 1), vendor=(0, 5)),
    "gru": FewSteps(loop=(1, 0), vendor=(1, 5)),
    "elman": FewSteps(loop=(4, 3), vendor=(0, 10)),
    "linear": FewSteps(loop=(1, 3)),
}


def preference(job: Job) -> tuple[str, ...]:
    """Names of kernels, fastest first; after all of them comes the plain loop."""
    if transformed():
        return ()
    if job.x_BTI.device.type != "cpu":
        return _on_gpu(job)
    steps, mode = job.x_BTI.shape[1], 0 if _learning(job) else 1
    few = _FEW_STEPS.get(_family(job), FewSteps()) if _measured(job) else FewSteps()
    if steps <= few.loop[mode]:
        return ()
    if steps <= few.vendor[mode] and job.plain:
        # for a single step of a cell that torch has not, the plain loop
        return ("vendor", "cpu") if steps > 1 else ("vendor",)
    return ("cpu", "parallel") if job.cell.linear else ("cpu", "vendor")


_FEW_ON_GPU = 8
"""Up to so many steps cuDNN is as fast as our programs, or faster, which first bring the weights into order. Played
from a graph 4 steps are enough; begun kernel by kernel, a GRU of 256 units wants 24."""


def _on_gpu(job: Job) -> tuple[str, ...]:
    """As `benchmarks/recurrent_gpu.py` measures it, played from graphs and begun kernel by kernel."""
    if not _tried(job.x_BTI.device):
        return ("parallel",) if job.cell.linear else ("vendor",)
    if job.cell.linear:
        return "gpu", "parallel"
    if job.cell.name == "elman":  # a quarter of the product: four blocks are three too many
        return "vendor", "gpu"
    return ("gpu", "vendor") if job.x_BTI.shape[1] > _FEW_ON_GPU else ("vendor", "gpu")


def _tried(device: torch.device) -> bool:
    """Whether our programs were tried on such a GPU; on others they run by name alone."""
    from thereafter.kernels.gpu import lacks

    return device.type == "cuda" and lacks(device.index) is None


def _family(job: Job) -> str:
    cell = job.cell
    if cell.linear:
        return "linear"
    if cell.output_size != cell.hidden_size:
        return f"projected {cell.name}"
    return f"{cell.name} of one row" if cell.name == "lstm" and len(job.x_BTI) == 1 else cell.name


def _measured(job: Job) -> bool:
    """Whether the table speaks of such a job. In lower precision our kernel takes no part, and one kernel should make
    all lengths: torch's and the plain loop give outputs of different types under autocast."""
    return job.x_BTI.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")


def _learning(job: Job) -> bool:
    """Whether gradients will be asked for."""
    read = (job.x_BTI, *job.state, *job.weights.values())
    return torch.is_grad_enabled() and any(array.requires_grad for array in read)
