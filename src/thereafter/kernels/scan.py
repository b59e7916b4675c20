"""The only door to the kernels: one cell over a batch of sequences.

Shapes: B rows, T steps, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import Cell, Weights
from thereafter.errors import OptionError
from thereafter.kernels.choice import preference
from thereafter.kernels.jobs import Job, Kernel, Unrolled
from thereafter.registry import Registry

KERNELS = Registry(
    "kernel",
    {
        "reference": "thereafter.kernels.reference:REFERENCE",
        "cpu": "thereafter.kernels.cpu:CPU",
        "parallel": "thereafter.kernels.parallel:PARALLEL",
        "vendor": "thereafter.kernels.vendor:VENDOR",
    },
)


def unroll(
    cell: Cell,
    x_BTI: Tensor,
    state: Any,
    weights: Weights,
    *,
    lengths: Tensor | None = None,
    reverse: bool = False,
    reset: Tensor | None = None,
    hold: Mapping[str, Tensor | float] | None = None,
    record: bool = False,
    kernel: str = "auto",
) -> Unrolled:
    """Run a cell over sequences: outputs [B, T, O], the state after each row's last step, and the record if asked for.

    `lengths` [B]; `reverse` starts at each row's true end; `reset` [B, T] and `hold` as in `Job`. `kernel="auto"` takes
    the fastest that can run; a named one runs or raises, saying why not.
    """
    if lengths is not None:
        lengths = lengths.to(torch.int64)  # the compiled loops read nothing else
    if reset is not None and lengths is not None:
        # a reset beyond a row's end is none: the state stands still there, and a reversed row begins before it
        reset = reset & (torch.arange(reset.shape[1], device=reset.device) < lengths.unsqueeze(1))
    job = Job(cell, x_BTI, state, weights, lengths, reset, dict(hold or {}), record)
    if reverse:
        return _turned(_run(_turned_job(job), kernel), lengths)
    return _run(job, kernel)


def choose(job: Job) -> Kernel:
    """The kernel that `auto` takes: the first of these, fastest first, that does not refuse."""
    for name in preference(job):
        kernel: Kernel = KERNELS.load(name)
        if kernel.refuses(job) is None:
            return kernel
    found: Kernel = KERNELS.load("reference")
    return found


def _run(job: Job, kernel: str) -> Unrolled:
    if kernel == "auto":
        return choose(job).run(job)
    chosen: Kernel = KERNELS.load(kernel)
    reason = chosen.refuses(job)
    if reason is not None:
        raise OptionError(f"the kernel {kernel!r} cannot run this: {reason}; try kernel='auto'")
    return chosen.run(job)


def _turned_job(job: Job) -> Job:
    """The same job with time running the other way in every row."""
    lengths = job.lengths_B
    reset = job.reset_BT
    if reset is not None:
        # A reset stands between two steps. Seen from the other side it comes before the step on its left.
        reset = turn(torch.cat([reset[:, 1:], torch.zeros_like(reset[:, :1])], dim=1), lengths)
    hold = {name: turn(share, lengths) if isinstance(share, Tensor) else share for name, share in job.hold.items()}
    return replace(job, x_BTI=turn(job.x_BTI, lengths), reset_BT=reset, hold=hold)


def _turned(result: Unrolled, lengths: Tensor | None) -> Unrolled:
    record = {name: turn(array, lengths) for name, array in result.record.items()} if result.record else result.record
    return Unrolled(turn(result.y_BTO, lengths), result.state, record)


def turn(x_BT: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each row within its own length; what lies beyond stays where it is."""
    if lengths is None:
        return x_BT.flip(1)
    batch, steps = x_BT.shape[:2]
    step = torch.arange(steps, device=x_BT.device)
    ends = lengths.to(x_BT.device).unsqueeze(1)
    start = steps * torch.arange(batch, device=x_BT.device).unsqueeze(1)
    places_N = (start + torch.where(step < ends, ends - 1 - step, step)).flatten()
    rearranged: Any = _Rearranged
    turned: Tensor = rearranged.apply(x_BT, places_N)
    return turned


class _Rearranged(torch.autograd.Function):
    """The places of all rows in another order that is its own inverse: the way back is the same, and copies too, where
    autograd's own would add. For `torch.func` as well."""

    @staticmethod
    def forward(x_BT: Tensor, places_N: Tensor) -> Tensor:
        return x_BT.flatten(0, 1).index_select(0, places_N).view(x_BT.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, dy_BT: Tensor) -> tuple[Tensor, None]:
        rearranged: Any = _Rearranged
        return rearranged.apply(dy_BT, *ctx.saved_tensors), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], x: Tensor, places_N: Tensor) -> tuple[Tensor, int]:
        rearranged: Any = _Rearranged
        return rearranged.apply(x.movedim(in_dims[0], -1), places_N), x.dim() - 1  # one more axis behind all others

    @staticmethod
    def jvp(ctx: Any, dx_BT: Tensor, _: None) -> Tensor:
        return _Rearranged.forward(dx_BT, *ctx.saved_tensors)
