"""Cells of awkward sizes made a little wider: the same numbers, by kernels that need their rows aligned.

On a GPU a matrix product whose rows do not begin at multiples of 16 bytes runs at half the speed or less, and a
recurrent layer is a chain of such products. Units whose weights and biases are 0 stay 0 in every cell (a gate of
sigma(0) keeps half of nothing), so they change no other number and receive no gradient that is kept.

Shapes: I inputs, H hidden units, G H rows of the weights for G gates.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor
from torch.nn import functional as F

from thereafter.kernels.jobs import Job, Unrolled

ALIGNED = 8
"""Numbers of 16 bits in 16 bytes; numbers of 32 bits are aligned twice over."""


def widen(job: Job, multiple: int = ALIGNED) -> Job:
    """The job with inputs and hidden units filled up with zeros to a multiple; the job itself where they are one."""
    inputs, hidden = job.cell.input_size, job.cell.hidden_size
    more_inputs, more = -inputs % multiple, -hidden % multiple
    if not (more_inputs or more) or "weight_hr" in job.weights:
        return job

    def rows(weight: Tensor, more_columns: int) -> Tensor:
        gates = len(weight) // hidden
        split = weight.view(gates, hidden, -1)
        return F.pad(split, (0, more_columns, 0, more)).flatten(0, 1)

    weights = {
        name: rows(weight, {"weight_ih": more_inputs, "weight_hh": more}[name])
        if weight.dim() == 2
        else rows(weight, 0).squeeze(1)
        for name, weight in job.weights.items()
    }
    state = type(job.state)(*(F.pad(part, (0, more)) for part in job.state))
    return replace(job, x_BTI=F.pad(job.x_BTI, (0, more_inputs)), state=state, weights=weights)


def narrow(result: Unrolled, job: Job) -> Unrolled:
    """What the wide job gave, without the units that `job` has not."""
    hidden = job.cell.hidden_size
    state = type(job.state)(*(part[..., :hidden] for part in result.state))
    return replace(result, y_BTO=result.y_BTO[..., :hidden], state=state)
