"""A job by a kernel: the kernels by name, the one that `auto` takes, and time turned round before and after.

Which is fastest for a job is a table of what `benchmarks/kernels.py` measures.

Shapes: B rows, T steps, O outputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from thereafter.base.kinds import Registry
from thereafter.errors import OptionError
from thereafter.kernels.jobs import Job, Kernel, Unrolled
from thereafter.kernels.switches import apply_one, traced, transformed

KERNELS = Registry(
    "kernel",
    {
        "reference": "thereafter.kernels.plain:REFERENCE",
        "cpu": "thereafter.kernels.cpu:CPU",
        "parallel": "thereafter.kernels.plain:PARALLEL",
        "gpu": "thereafter.kernels.gpu:GPU",
        "vendor": "thereafter.kernels.vendor:VENDOR",
        "operator": "thereafter.kernels.operators:OPERATOR",
    },
)


def choose(job: Job) -> Kernel:
    """The kernel that `auto` takes: the first of these, fastest first, that does not refuse."""
    for name in preference(job):
        kernel: Kernel = KERNELS.load(name)
        if kernel.refuses(job) is None:
            return kernel
    plain: Kernel = KERNELS.load("reference")
    return plain


def run(job: Job, kernel: str) -> Unrolled:
    if kernel == "auto":
        return choose(job).run(job)
    chosen: Kernel = KERNELS.load(kernel)
    reason = chosen.refuses(job)
    if reason is not None:
        raise OptionError(f"the kernel {kernel!r} cannot run this: {reason}; try kernel='auto'")
    return chosen.run(job)


def reverse_job(job: Job) -> Job:
    """The same job with time running the other way in every row."""
    lengths = job.lengths_B
    reset = job.reset_BT
    if reset is not None:
        # A reset stands between two steps. Seen from the other side it comes before the step on its left.
        reset = reverse_rows(torch.cat([reset[:, 1:], torch.zeros_like(reset[:, :1])], dim=1), lengths)
    hold = {
        name: reverse_rows(share, lengths) if isinstance(share, Tensor) else share for name, share in job.hold.items()
    }
    return replace(job, x_BTI=reverse_rows(job.x_BTI, lengths), reset_BT=reset, hold=hold)


def reverse_result(result: Unrolled, lengths: Tensor | None) -> Unrolled:
    """What such a job gave, in the order of the rows' own time."""
    record = (
        {name: reverse_rows(array, lengths) for name, array in result.record.items()}
        if result.record
        else result.record
    )
    return Unrolled(reverse_rows(result.y_BTO, lengths), result.state, record)


def reverse_rows(x_BT: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each row within its own length; what lies beyond stays where it is."""
    if lengths is None:
        return x_BT.flip(1)
    batch, steps = x_BT.shape[:2]
    step = torch.arange(steps, device=x_BT.device)
    ends = lengths.to(x_BT.device).unsqueeze(1)
    start = steps * torch.arange(batch, device=x_BT.device).unsqueeze(1)
    places_N = (start + torch.where(step < ends, ends - 1 - step, step)).flatten()
    if traced():
        return x_BT.flatten(0, 1).index_select(0, places_N).view(x_BT.shape)  # what is exported has no Python inside
    return apply_one(_Rearranged, x_BT, places_N)


class _Rearranged(torch.autograd.Function):
    """The places of all rows in another order that is its own inverse. So the backward pass is the same function, which
    copies, where autograd's own would add. It works under `torch.func` as well."""

    @staticmethod
    def forward(x_BT: Tensor, places_N: Tensor) -> Tensor:
        return x_BT.flatten(0, 1).index_select(0, places_N).view(x_BT.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, dy_BT: Tensor) -> tuple[Tensor, None]:
        return apply_one(_Rearranged, dy_BT, *ctx.saved_tensors), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], x: Tensor, places_N: Tensor) -> tuple[Tensor, int]:
        return apply_one(
            _Rearranged, x.movedim(in_dims[0], -1), places_N
        ), x.dim() - 1  # one more axis behind all others

    @staticmethod
    def jvp(ctx: Any, dx_BT: Tensor, _: None) -> Tensor:
        return _Rearranged.forward(dx_BT, *ctx.saved_tensors)


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
