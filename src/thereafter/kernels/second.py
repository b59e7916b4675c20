"""Derivatives of derivatives for kernels whose backward pass autograd cannot look into.

A compiled backward pass gives numbers without a history, so what was made with `create_graph=True` would miss a part of
its gradient. Here the results of such a kernel go through an identity that knows the job as well. In an ordinary
backward pass it hands gradients on to the kernel. Where autograd records the backward pass, it gives the kernel none,
runs the plain loop once more, and returns the gradients of that: they have derivatives of any order. The same where
many gradients come at once (`is_grads_batched=True`, `jacobian(vectorize=True)`): a kernel cannot read such a tensor.

    y = identity(kernel(x, W), x, W):   dy goes to kernel,                     in an ordinary backward pass
                                        dy dreference/d(x, W) goes to x and W,  where it is recorded, or dy are many
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.plain import REFERENCE
from thereafter.kernels.switches import apply_many, transformed

MaybeTensors = tuple[Tensor | None, ...]


class Called(Protocol):
    """What autograd keeps of a call of a function."""

    @property
    def needs_input_grad(self) -> tuple[bool, ...]: ...
    @property
    def saved_tensors(self) -> tuple[Tensor, ...]: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


def recording() -> bool:
    """In a backward pass: whether autograd records it (`create_graph=True`)."""
    return torch.is_grad_enabled()


def is_passed_over(*gradients: Tensor | None) -> bool:
    """In the backward pass of a kernel: whether there is nothing to do, since the identity gives all gradients."""
    return recording() or all(gradient is None for gradient in gradients)


def are_many(*gradients: Tensor | None) -> bool:
    """Whether gradients are many at once: torch's vmap goes through the backward pass."""
    batched = torch._C._functorch.is_batchedtensor, torch._C._functorch.is_legacy_batchedtensor
    return any(is_batched(d) for d in gradients if d is not None for is_batched in batched)


def no_gradients(ctx: Called) -> tuple[None, ...]:
    """What a kernel's backward returns where it is passed over."""
    return (None,) * len(ctx.needs_input_grad)


def twice_differentiable(job: Job, made: Unrolled) -> Unrolled:
    """The results of a kernel, in the same memory, with derivatives of any order."""
    if not made.y_BTO.requires_grad or transformed():
        return made
    device = job.x_BTI.device.type
    low = torch.get_autocast_dtype(device) if _has_autocast(device) and torch.is_autocast_enabled(device) else None
    asked = _Question(job.cell, tuple(job.weights), 1 + len(job.state), low, job.hold)
    read = (job.x_BTI, *job.state, *job.weights.values())
    y_BTO, *parts = apply_many(_Identity, asked, job.lengths_B, job.reset_BT, made.y_BTO, *made.state, *read)
    return Unrolled(y_BTO, type(made.state)(*parts), made.record)


def gradients_by_reference(
    job: Job, wanted: Sequence[bool], gradients: MaybeTensors, low: torch.dtype | None
) -> list[Tensor | None]:
    """The gradients of input, state and weights, of those that are wanted, from those of outputs and state.

    By the plain loop, so that autograd can differentiate them again. `low`: the type that products were taken in under
    autocast when the job was run first.
    """
    fields, device = len(job.state), job.x_BTI.device.type
    # not every device has an autocast to be switched off
    products = torch.autocast(device, low, enabled=low is not None) if _has_autocast(device) else nullcontext()
    with torch.enable_grad(), products:
        # views: where x was made from the same weights, the way through x is not for this call to go
        read = [part.view_as(part) for part in (job.x_BTI, *job.state, *job.weights.values())]
        state = job.cell.state_type(*read[1 : 1 + fields])
        weights = dict(zip(job.weights, read[1 + fields :], strict=True))
        made = REFERENCE.run(Job(job.cell, read[0], state, weights, job.lengths_B, job.reset_BT, job.hold))
        return recorded_gradients((made.y_BTO, *made.state), gradients, read, wanted)


def recorded_gradients(
    made: Sequence[Tensor], gradients: MaybeTensors, read: Sequence[Tensor], wanted: Sequence[bool]
) -> list[Tensor | None]:
    """The gradients of what was read, of those that are wanted, from those of what was made of it, with a history."""
    results = zip(made, gradients, strict=True)
    charged = [(part.to(d.dtype), d) for part, d in results if d is not None and part.requires_grad]
    asked = [part for part, needed in zip(read, wanted, strict=True) if needed]
    given: Sequence[Tensor | None] = [None] * len(asked)
    if charged and asked:
        parts, incoming = zip(*charged, strict=True)
        given = torch.autograd.grad(parts, asked, incoming, create_graph=True, allow_unused=True)
    rest = iter(given)
    return [next(rest) if needed else None for needed in wanted]


def _has_autocast(device: str) -> bool:
    """The device "meta" has none, say."""
    return bool(torch.amp.is_autocast_available(device))


class _Question(NamedTuple):
    """What a job is beside its tensors: the cell, the names of its weights, the number of results, the lower type, and
    what is held, which has no gradient."""

    cell: Cell
    names: tuple[str, ...]
    results: int
    low: torch.dtype | None
    hold: Mapping[str, Tensor | float]


class _CalledOnce(Called, Protocol):
    asked: _Question


class _Identity(torch.autograd.Function):
    """Results as they are; see above."""

    @staticmethod
    def forward(
        ctx: _CalledOnce, asked: _Question, lengths_B: Tensor | None, reset_BT: Tensor | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        made, read = tensors[: asked.results], tensors[asked.results :]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(lengths_B, reset_BT, *read)
        ctx.asked = asked
        # the same memory, and to autograd no views: outputs may be changed in place
        return tuple(part.detach() for part in made)

    @staticmethod
    def backward(ctx: _CalledOnce, *gradients: Tensor | None) -> MaybeTensors:
        asked = ctx.asked
        if not recording() and not are_many(*gradients):
            # what was saved is not looked at: x may have been changed in place, which the kernels allow
            return None, None, None, *gradients, *[None] * (len(ctx.needs_input_grad) - 3 - asked.results)
        lengths_B, reset_BT, x_BTI, *rest = ctx.saved_tensors
        fields = asked.results - 1
        weights = dict(zip(asked.names, rest[fields:], strict=True))
        job = Job(asked.cell, x_BTI, asked.cell.state_type(*rest[:fields]), weights, lengths_B, reset_BT, asked.hold)
        wanted = ctx.needs_input_grad[3 + asked.results :]
        given = gradients_by_reference(job, wanted, gradients, asked.low)
        return (None,) * (3 + asked.results) + tuple(given)
