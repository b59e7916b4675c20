"""Random numbers on which a narrow type can be judged: those that both hold, and jobs that do not magnify rounding.

In bfloat16 a number is off by up to 2^-9 of itself. Some jobs turn that into errors that show nothing: where a sum lies
at a kink of the nonlinearity the gradient jumps, a layer norm over five units divides by a spread that may be nearly
nothing, and what grows leaves float16. Such jobs are drawn anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from thereafter.kernels.jobs import Job
from thereafter.kernels.plain import REFERENCE

WIDE = (torch.float64, torch.float32)
NARROW = (torch.bfloat16, torch.float16)

FLOORS: dict[torch.dtype, float] = {torch.float64: 1.0, torch.float32: 1.0, torch.bfloat16: 0.1, torch.float16: 0.1}
"""The least that an error is a share of: a gradient that cancels to nearly nothing keeps the errors of its terms."""

KINKS = {"relu": (0.0,), "leaky_relu": (0.0,), "relu6": (0.0, 6.0)}
"""Where the slope of an Elman network's nonlinearity jumps."""

CLEAR = 0.01
"""How far from a kink every sum is to stay."""

STEADY = 0.5
"""The share of the tolerance by which results may move when every number moves by about 2^-8 of itself."""

LARGEST = 1000.0
"""No result is to be larger: float16 ends at 65,504, and a network without a bounded nonlinearity may grow."""

Results = dict[str, Tensor]


def representable(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """The nearest float64 numbers that all types of this one's kind hold exactly: both narrow ones, or both wide."""
    return numbers.bfloat16().half().double() if dtype in NARROW else numbers.float().double()


def error_of(value: Tensor, truth: Tensor, dtype: torch.dtype, *, by_norm: bool = False) -> float:
    """The largest error as a share of the largest entry; or its norm, as a share of the tensor's norm."""
    away, floor = value.detach().to(truth) - truth, FLOORS[dtype]
    if by_norm:
        return float(away.norm() / truth.norm().clamp(min=floor * math.sqrt(truth.numel())))
    return float(away.abs().max() / truth.abs().max().clamp(min=floor))


def kinked(job: Job) -> bool:
    """Whether the cell's nonlinearity has a kink."""
    return job.cell.describe().get("nonlinearity") in KINKS


def from_kinks(job: Job) -> float:
    """How far the sums of all steps stay from where the nonlinearity's slope jumps; endless where it never does."""
    if not kinked(job) or not job.x_BTI.numel():
        return math.inf
    with torch.no_grad():
        sums_BTH = (REFERENCE.run(replace(job, record=True)).record or {})["preactivation"]
        return min(float((sums_BTH - kink).abs().min()) for kink in KINKS[job.cell.describe()["nonlinearity"]])


def jostled(job: Job, seed: int) -> Job:
    """The same job in float64, with every number off by about 2^-8 of itself."""
    draw = torch.Generator().manual_seed(seed)

    def moved(given: Tensor) -> Tensor:
        noise = torch.randn(given.shape, generator=draw, dtype=given.dtype)
        return (given.detach() * (1 + 2.0**-8 * noise)).requires_grad_()

    return replace(
        job,
        x_BTI=moved(job.x_BTI),
        state=type(job.state)(*map(moved, job.state)),
        weights={name: moved(weight) for name, weight in job.weights.items()},
    )


@dataclass(frozen=True)
class Draw:
    """A job that was drawn: which attempt, its job and results in float64, and how far they move when it is jostled."""

    attempt: int
    job: Job
    truth: Results
    moves: float = 0.0

    def allowed(self, dtype: torch.dtype, tolerance: float) -> float:
        """The error that a kernel may have: the table's, or twice what jostling does, in proportion to the type."""
        if dtype in WIDE:
            return tolerance
        return max(tolerance, 2 * self.moves * torch.finfo(dtype).eps / torch.finfo(torch.bfloat16).eps)


def fair_draw(
    make: Callable[[int], Job],
    ready: Callable[[Job], Job],
    run: Callable[[Job], Results],
    dtype: torch.dtype,
    tolerance: float,
    attempts: int = 8,
) -> Draw:
    """A draw on which this type can be judged; of `attempts` that are not quite, the best.

    `make`: the plain job in float64 of an attempt. `ready`: a job as a kernel gets it. `run`: its results.
    """
    if dtype in WIDE:
        job = make(0)
        return Draw(0, job, run(job))
    draws: list[Draw] = []
    for attempt in range(400):
        job = make(attempt)
        if from_kinks(ready(job)) < CLEAR:
            continue
        truth = run(job)
        if any(array.numel() and float(array.detach().abs().max()) > LARGEST for array in truth.values()):
            continue
        draws.append(Draw(attempt, job, truth, moves(job, truth, run, dtype)))
        if draws[-1].moves <= STEADY * tolerance or len(draws) == attempts:
            break
    return min(draws, key=lambda draw: draw.moves)


def moves(job: Job, truth: Results, run: Callable[[Job], Results], dtype: torch.dtype) -> float:
    """By how much results move when a job is jostled: the most of two times."""
    others = [run(jostled(job, seed)) for seed in range(2)]
    errors = [error_of(other[name], truth[name].detach(), dtype)
              for other in others for name in truth if truth[name].numel()]  # fmt: skip
    return max(errors, default=0.0)
