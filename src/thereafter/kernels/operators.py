"""The kernels as operators of torch's own, `thereafter::scan` and `thereafter::scan_backward`.

torch.compile, torch.export and its ONNX exporter write down the operators that a program calls, on tensors that have
shapes and no numbers. A compiled loop is none; behind an operator it is one box, whose outputs' shapes are known
(`register_fake`) and whose derivative is the other operator (`register_autograd`). All that a job is stands in a plain
schema: tensors, numbers, strings. So batch and length stay free, and what was exported needs this package alone to run.

`scan_backward` runs the job once more to get what the derivative needs: a program may have been stored in between.
Without tracing nothing comes here: the kernels are called directly, which is faster.

Shapes: B rows, T steps, I inputs, O outputs, S the size of a state field.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Protocol

import torch
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.errors import ShapeError
from thereafter.kernels.jobs import MASKED, Job, SameBits, Unrolled, cell_of, spell
from thereafter.kernels.running import choose, run
from thereafter.kernels.second import are_many, gradients_by_reference, recording
from thereafter.kernels.switches import traced

_JOB = (
    "Tensor x, Tensor[] state, Tensor[] weights, Tensor? lengths, Tensor? reset, Tensor[] masks, float[] shares, "
    "str cell, str kernel, str low"
)
"""What both operators are given of a job. `state`, `shares`: one for each state field, the latter being the number that
`Job.hold` has for it, or -1 where it is the next of the `masks`. `weights`: in the order of `Cell.shapes`. `cell`: as
`spell` writes it. `low`: the type that products are taken in under autocast, or nothing."""

Given = tuple[
    Tensor, list[Tensor], list[Tensor], Tensor | None, Tensor | None, list[Tensor], list[float], str, str, str
]


class Operator:
    """Any other kernel, behind torch's dispatcher."""

    name = "operator"

    def refuses(self, job: Job) -> str | None:
        if job.record:
            return "the operator gives no records"
        kind = type(job.cell)
        if CELLS.paths.get(job.cell.name) != f"{kind.__module__}:{kind.__qualname__}":
            return f"no other process could make the cell {job.cell.name!r} by its name"
        return None

    def status(self) -> str:
        return "runs everywhere: any of the others as an operator, taken by torch.compile and torch.export"

    def deterministic(self, job: Job) -> SameBits:
        return choose(job).deterministic(job)

    def run(self, job: Job, kernel: str = "auto") -> Unrolled:
        """By the operator, and within it by that kernel."""
        y_BTO, *parts = torch.ops.thereafter.scan.default(*_given(job, kernel))
        return Unrolled(y_BTO, job.cell.state_type(*parts[: len(job.state)]))


def _given(job: Job, kernel: str) -> Given:
    """A job in the plain form of the schema."""
    cell = job.cell
    weights = [job.weights[name] for name in cell.shapes()]
    device, kind = job.x_BTI.device.type, weights[0].dtype
    low = str(torch.get_autocast_dtype(device)).removeprefix("torch.") if torch.is_autocast_enabled(device) else ""
    hold = [job.hold.get(name, 0.0) for name in cell.state_sizes()]
    return (
        job.x_BTI.to(kind),  # under autocast they may differ
        [part.to(kind) for part in job.state],
        weights,
        job.lengths_B,
        job.reset_BT,
        [share for share in hold if isinstance(share, Tensor)],
        [MASKED if isinstance(share, Tensor) else share for share in hold],
        spell(cell),
        kernel,
        low,
    )


def _job_of(given: Given) -> tuple[Job, str, str]:
    """The job of such arguments, the kernel that is to run it and the type of its products."""
    x_BTI, state, weights, lengths_B, reset_BT, masks, shares, spelled, kernel, low = given
    cell = cell_of(spelled)
    if lengths_B is not None:
        lengths_B = _checked(lengths_B, x_BTI.shape[1])
    left = iter(masks)
    given_hold = zip(cell.state_sizes(), shares, strict=True)
    hold = {name: next(left) if share == MASKED else share for name, share in given_hold if share}
    named = dict(zip(cell.shapes(), weights, strict=True))
    return Job(cell, x_BTI, cell.state_type(*state), named, lengths_B, reset_BT, hold), kernel, low


def _checked(lengths_B: Tensor, steps: int) -> Tensor | None:
    """Lengths whose numbers could not be looked at before; None where all rows are whole, as the layers have it."""
    if len(lengths_B) and not 0 <= int(lengths_B.min()) <= int(lengths_B.max()) <= steps:
        raise ShapeError(
            f"lengths runs from {int(lengths_B.min())} to {int(lengths_B.max())}; expected 0 to {steps}, the steps of "
            "the input; try lengths.clamp(0, steps)"
        )
    return None if bool((lengths_B == steps).all()) else lengths_B


def _ran(job: Job, kernel: str, low: str) -> tuple[Tensor, ...]:
    """Outputs and state, in the types that went in."""
    with torch.autocast(job.x_BTI.device.type, getattr(torch, low) if low else None, enabled=bool(low)):
        done = run(job, kernel)
    return tuple(part.to(job.x_BTI.dtype) for part in (done.y_BTO, *done.state))


@torch.library.custom_op("thereafter::scan", mutates_args=(), schema=f"({_JOB}) -> (Tensor, Tensor, Tensor)")
def scan(*given: *Given) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs [B, T, O] and the state after each row's last step, h and c; c of a cell without has no columns."""
    with torch.no_grad():
        y_BTO, *parts = _ran(*_job_of(given))
    # what an operator gives must lie apart from what it was given, and from what else it gives
    h_BO, *rest = (part.clone(memory_format=torch.contiguous_format) for part in parts)
    return y_BTO.contiguous(), h_BO, rest[0] if rest else h_BO.new_empty(len(h_BO), 0)


@scan.register_fake
def _scan_shapes(*given: *Given) -> tuple[Tensor, Tensor, Tensor]:
    if torch.onnx.is_in_onnx_export():
        from thereafter.kernels.onnx_table import offer_translation

        offer_translation()
    x_BTI, cell = given[0], cell_of(given[7])
    rows, steps = x_BTI.shape[:2]
    h_BO, *rest = (x_BTI.new_empty(rows, size) for size in cell.state_sizes().values())
    return x_BTI.new_empty(rows, steps, cell.output_size), h_BO, rest[0] if rest else x_BTI.new_empty(rows, 0)


@torch.library.custom_op(
    "thereafter::scan_backward", mutates_args=(), schema=f"(Tensor[] gradients, bool[] wanted, {_JOB}) -> Tensor[]"
)
def scan_backward(gradients: list[Tensor], wanted: list[bool], *given: *Given) -> list[Tensor]:
    """The gradients of input, state and weights, of those that are wanted, from those of outputs and state."""
    leaves = [leaf.detach().requires_grad_(needed) for leaf, needed in zip(_differentiable(given), wanted, strict=True)]
    state = len(given[1])
    again = leaves[0], leaves[1 : 1 + state], leaves[1 + state :], *given[3:]
    with _recording():
        made = _ran(*_job_of(again))
        charged = [(part, d) for part, d in zip(made, gradients, strict=False) if part.requires_grad]
        asked = [leaf for leaf in leaves if leaf.requires_grad]
        grads: Iterable[Tensor | None] = [None] * len(asked)
        if charged:
            parts, given_gradients = zip(*charged, strict=True)
            grads = torch.autograd.grad(parts, asked, given_gradients, allow_unused=True)
    return [_apart(grad, leaf) for grad, leaf in zip(grads, asked, strict=True)]


@scan_backward.register_fake
def _gradient_shapes(gradients: list[Tensor], wanted: list[bool], *given: *Given) -> list[Tensor]:
    leaves = zip(_differentiable(given), wanted, strict=True)
    return [leaf.new_empty(leaf.shape) for leaf, needed in leaves if needed]


def _differentiable(given: Given) -> list[Tensor]:
    """Input, state and weights in one list."""
    return [given[0], *given[1], *given[2]]


def _apart(gradient: Tensor | None, leaf: Tensor) -> Tensor:
    """A gradient in memory of its own, zeros where nothing depends on the leaf."""
    if gradient is None:
        return leaf.detach().new_zeros(leaf.shape)
    return gradient.clone(memory_format=torch.contiguous_format)


def _recording() -> ExitStack:
    """Autograd inside an operator: the dispatcher has left its layers behind when it calls one."""
    stack, keys = ExitStack(), torch._C.DispatchKey
    for key in (keys.AutogradFunctionality, keys.ADInplaceOrView):
        stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
    stack.enter_context(torch.enable_grad())
    return stack


class _Context(Protocol):
    """What autograd keeps of a call."""

    needs_input_grad: tuple[bool | Sequence[bool], ...]
    saved_tensors: tuple[Tensor, ...]
    fields: int
    weights: int
    rest: tuple[list[float], str, str, str]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...


def _keep(ctx: _Context, inputs: Given, output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*_differentiable(inputs), inputs[3], inputs[4], *inputs[5])
    ctx.fields, ctx.weights, ctx.rest = len(inputs[1]), len(inputs[2]), inputs[6:]


def _differentiate(ctx: _Context, *gradients: Tensor) -> tuple[Tensor | Sequence[Tensor | None] | None, ...]:
    x_BTI, *saved = ctx.saved_tensors
    state, saved = saved[: ctx.fields], saved[ctx.fields :]
    weights, (lengths_B, reset_BT, *masks) = saved[: ctx.weights], saved[ctx.weights :]
    needs = ctx.needs_input_grad
    wanted = [bool(needs[0]), *_needs(needs[1], ctx.fields), *_needs(needs[2], ctx.weights)]
    given = x_BTI, state, weights, lengths_B, reset_BT, masks, *ctx.rest
    if (recording() or are_many(*gradients)) and not traced():
        # by the plain loop, so that autograd can differentiate them again
        job, _, low = _job_of(given)
        low_type = getattr(torch, low) if low else None
        first, *others = gradients_by_reference(job, wanted, gradients[: 1 + ctx.fields], low_type)
    else:
        grads = iter(torch.ops.thereafter.scan_backward.default(list(gradients[: 1 + ctx.fields]), wanted, *given))
        first, *others = (next(grads) if needed else None for needed in wanted)
    nothing = [None] * len(masks)
    return first, others[: ctx.fields], others[ctx.fields :], None, None, nothing, *[None] * len(ctx.rest)


def _needs(given: bool | Sequence[bool], count: int) -> list[bool]:
    """One answer for each tensor of a list."""
    return [bool(given)] * count if isinstance(given, bool) else [bool(needed) for needed in given]


scan.register_autograd(_differentiate, setup_context=_keep)

OPERATOR = Operator()
