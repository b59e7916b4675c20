"""The only door to the kernels: a cell over a batch of sequences, or a step at a time, and weights laid out for them;
a chain of tags.

Shapes: B rows, T steps, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import Cell, Weights
from thereafter.kernels.chain import Chain, ChainKernel, ChainLoop
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.operators import OPERATOR
from thereafter.kernels.plain import REFERENCE
from thereafter.kernels.running import KERNELS, choose, reverse_job, reverse_result, run
from thereafter.kernels.step.stepper import Slot, Stepper, compiles
from thereafter.kernels.step.storing import Narrow, rounded
from thereafter.kernels.switches import backends, traced
from thereafter.kernels.vendor import cudnn_mode

__all__ = [
    "KERNELS",
    "chain_kernel",
    "choose",
    "make_stepper",
    "prepare_weights",
    "reverse_job",
    "reverse_result",
    "sharing_lines",
    "unroll",
]


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
        return reverse_result(_run(reverse_job(job), kernel), lengths)
    return _run(job, kernel)


def _run(job: Job, kernel: str) -> Unrolled:
    """A job as it is run, or as torch writes it down: then the plain loop alone is taken apart into its steps."""
    if not traced() or kernel == "operator":
        return run(job, kernel)
    if kernel == "reference" or OPERATOR.refuses(job) is not None:
        return REFERENCE.run(job)
    return OPERATOR.run(job, kernel)


def make_stepper(
    cell: Cell,
    weights: dict[str, Tensor],
    batch: int,
    outlet: Slot,
    hold: dict[str, float],
    packed: dict[str, Tensor],
    narrow: Narrow | None = None,
) -> Stepper:
    """What steps one cell of a stream in place: the fast one of this cell, else one that takes any cell and option.

    `outlet`: where h goes. `hold`: the share of each state field that is kept (zoneout). `packed` takes what is made of
    the weights, or has it already from another stream of the same weights. `narrow`: how matrices are stored.
    """
    from thereafter.kernels.step.stepper import FAST_STEPPERS, AnyStepper

    plain = not cell.layer_norm and not hold
    if plain and compiles(weights["weight_ih"]):
        from thereafter.kernels.step.compiled_steppers import COMPILED_STEPPERS

        compiled = COMPILED_STEPPERS.get(type(cell))
        if compiled is not None and compiled.takes(cell):
            return compiled.make(cell, weights, batch, outlet, packed, narrow)
    weights = {name: rounded(weight, narrow) if weight.dim() == 2 else weight for name, weight in weights.items()}
    fast = FAST_STEPPERS.get(type(cell))
    if plain and fast is not None and fast.takes(cell):
        return fast.make(cell, weights, batch, outlet, packed)
    return AnyStepper(cell, weights, batch, outlet, packed, hold)


def chain_kernel(chain: Chain) -> ChainKernel:
    """What computes a chain of tags: programs where it is on a GPU that has them, else the plain loop."""
    if chain.emissions_BTK.device.type == "cuda":
        from thereafter.kernels.gpu.crf import chains_on_gpu

        return chains_on_gpu(chain) or ChainLoop()
    return ChainLoop()


def sharing_lines() -> dict[str, str]:
    """What the threads of a scan share on this machine, and on how many of them bits are the same, in words."""
    from thereafter.kernels.cpu import plan

    return plan.lines()


def prepare_weights(cell: Cell, weights: Weights) -> None:
    """Move the weights of a cell that cuDNN can run into one buffer, in cuDNN's order; all other cells are left alone.

    The parameters stay the same objects with the same values; only where their numbers lie changes.
    """
    mode = cudnn_mode(cell)
    names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    flat = [weights[name] for name in names if name in weights]
    if mode is None or cell.bias == "one" or not all(_acceptable(weight) for weight in flat):
        return
    if len({weight.dtype for weight in flat}) > 1 or len({weight.data_ptr() for weight in flat}) < len(flat):
        return
    import torch.backends.cudnn.rnn

    projected = 0 if cell.output_size == cell.hidden_size else cell.output_size
    number = backends().cudnn.rnn.get_cudnn_mode(mode)
    with torch.cuda.device(flat[0].device), torch.no_grad():
        torch._cudnn_rnn_flatten_weight(
            flat, len(flat), cell.input_size, number, cell.hidden_size, projected, 1, True, False
        )


def _acceptable(weight: Tensor) -> bool:
    # torch.backends.cudnn.is_acceptable knows nothing of bfloat16, which cuDNN's recurrent layers take
    cudnn = backends().cudnn
    known = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    return bool(weight.is_cuda and cudnn.is_available() and cudnn.enabled and weight.dtype in known)
