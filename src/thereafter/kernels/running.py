"""A job by a kernel: the kernels by name, the one that `auto` takes, and time turned round before and after.

Shapes: B rows, T steps, O outputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.kernels.choice import preference
from thereafter.kernels.functions import apply_one, traced
from thereafter.kernels.jobs import Job, Kernel, Unrolled
from thereafter.registry import Registry

KERNELS = Registry(
    "kernel",
    {
        "reference": "thereafter.kernels.reference:REFERENCE",
        "cpu": "thereafter.kernels.cpu:CPU",
        "parallel": "thereafter.kernels.parallel:PARALLEL",
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
