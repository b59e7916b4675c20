"""The readable twin of the persistent programs, and everything around them, against the plain loop: every gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gpu_twins import TWIN
from parity import REFERENCE, Situation, cases, differences, make_job, plain, ready, results, situations
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.kernels import gpu
from thereafter.kernels.gpu import passes
from thereafter.kernels.gpu.passes import blocks_of, unrolled
from thereafter.kernels.jobs import Job, SameBits, Unrolled
from thereafter.kernels.running import choose, run
from thereafter.kernels.second import twice_differentiable

PROCESSORS = 132
FOUR_BLOCKS = [
    (name, options)
    for name, options in cases()
    if name in ("lstm", "gru", "elman")
    and blocks_of(CELLS.load(name)(4, 5, **options))
    and "layer_norm" not in options
    and options.get("reset") != "before"
]
PLAIN = [{"bias": "two"}, {"nonlinearity": "tanh", "bias": "two"}, {"reset": "after", "update": "old", "bias": "two"}]
CORE = [
    (name, options)
    for name, options in FOUR_BLOCKS
    if options in PLAIN or (options | {"bias": "two"} not in PLAIN and options.get("nonlinearity", "relu") == "relu")
]
"""Each cell as it is, and each of its options once; the same with other biases and other nonlinearities is wide."""


class TwinKernel:
    """The kernel `gpu` with its twin in place of the programs: on a CPU, in any type."""

    name = "twin"

    def __init__(self, processors: int = PROCESSORS) -> None:
        self.processors = processors

    def refuses(self, job: Job) -> str | None:
        return gpu.cannot_take(job, self.processors)

    def run(self, job: Job) -> Unrolled:
        return unrolled(job, TWIN, self.processors)

    def status(self) -> str:
        return "for tests"

    def deterministic(self, job: Job) -> SameBits:
        return gpu.GPU.deterministic(job)


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch):
    """float32 in place of 16-bit numbers, so that nothing hides behind rounding."""
    monkeypatch.setattr(passes, "LOW", (torch.float32,))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(*case, marks=() if case in CORE else pytest.mark.wide, id=f"{case[0]}-{case[1]}")
        for case in FOUR_BLOCKS
    ],
)
def test_the_twin_equals_the_plain_loop_in_every_situation(name: str, options: dict[str, Any]):
    cell: Cell = CELLS.load(name)(4, 5, **options)
    kernel, ran, refused = TwinKernel(), 0, set[str]()
    for at in situations(cell):
        job = make_job(cell, at, torch.float32, "cpu")
        reason = kernel.refuses(ready(job, at))
        if reason is not None:
            refused.add(reason)
            continue
        expected = results(REFERENCE, plain(job), at, lay_out=False)
        _, wrong = differences(results(kernel, job, at), expected, torch.float32, 1e-4)
        assert not wrong, f"{at.name}: {wrong}"
        ran += 1
    allowed = {"the programs do not show their gates", "there is nothing to compute"}
    if options.get("proj_size"):
        allowed.add("zoneout of a projected h needs the step-by-step form")
    assert refused <= allowed
    assert ran > 20


@pytest.mark.parametrize(("rows", "units"), [(3, 40), (17, 130), (40, 300), (70, 260), (140, 140)])
def test_sizes_of_every_shape(rows: int, units: int):
    for name, options in (("lstm", {"peephole": True}), ("gru", {}), ("elman", {"nonlinearity": "relu"})):
        cell: Cell = CELLS.load(name)(11, units, **options)
        at = Situation("sizes", batch=rows, steps=3)
        job = make_job(cell, at, torch.float32, "cpu")
        scaled = {key: (0.2 * weight).detach().requires_grad_() for key, weight in job.weights.items()}
        job = Job(cell, job.x_BTI, job.state, scaled)
        expected = results(REFERENCE, plain(job), at, lay_out=False)
        _, wrong = differences(results(TwinKernel(), job, at), expected, torch.float32, 1e-4)
        assert not wrong, f"{name}: {wrong}"


def test_what_the_programs_cannot_take_is_said_in_words(monkeypatch: pytest.MonkeyPatch):
    def reason(at: Situation, **options: Any) -> str | None:
        return gpu.cannot_take(make_job(CELLS.load("lstm")(4, 5, **options), at, torch.float32, "cpu"), PROCESSORS)

    assert reason(Situation("plain")) is None
    assert "gates" in str(reason(Situation("record", record=True)))
    assert "nothing" in str(reason(Situation("no row", batch=0)))
    assert "do not fit on 1 multiprocessors" in str(
        gpu.cannot_take(make_job(CELLS.load("lstm")(4, 500), Situation("plain"), torch.float32, "cpu"), 1)
    )
    monkeypatch.setattr(passes, "LOW", (torch.bfloat16, torch.float16))
    assert "torch.autocast" in str(reason(Situation("plain")))


def test_without_a_gpu_the_kernel_says_so_and_auto_takes_another():
    job = make_job(CELLS.load("lstm")(4, 5), Situation("plain"), torch.float32, "cpu")
    assert "NVIDIA" in str(gpu.GPU.refuses(job))
    assert choose(job).name != "gpu"
    assert run(job, "auto").y_BTO.shape == (3, 6, 5)
    if not torch.cuda.is_available():
        assert "does not run here" in gpu.GPU.status()


def test_lower_precision_rounds_outputs_and_keeps_sums():
    cell = CELLS.load("lstm")(4, 5)
    job = make_job(cell, Situation("plain"), torch.float32, "cpu")
    low = Job(
        cell,
        job.x_BTI.bfloat16(),
        type(job.state)(*(part.bfloat16() for part in job.state)),
        {name: weight.bfloat16() for name, weight in job.weights.items()},
    )
    made = unrolled(low, TWIN, PROCESSORS)
    assert made.y_BTO.dtype == torch.bfloat16
    expected = REFERENCE.run(plain(job)).y_BTO
    assert float((made.y_BTO.detach().double() - expected.detach()).abs().max()) < 3e-2


@pytest.mark.parametrize("options", [{}, {"layer_norm": True}, {"proj_size": 3}, {"reset": "before"}], ids=str)
def test_under_autocast_products_are_taken_in_its_type(options: dict[str, Any]):
    cell: Cell = CELLS.load("gru" if "reset" in options else "lstm")(4, 5, **options)
    job = make_job(cell, Situation("plain"), torch.float32, "cpu")
    with torch.autocast("cpu", torch.bfloat16):
        made = unrolled(job, TWIN, PROCESSORS)
    assert made.y_BTO.dtype == torch.bfloat16
    made.y_BTO.float().sum().backward()
    assert all(weight.grad is not None and weight.grad.dtype == torch.float32 for weight in job.weights.values())


def test_derivatives_of_derivatives_know_what_is_held():
    cell = CELLS.load("lstm")(4, 5)
    for at in (Situation("mask", hold="mask"), Situation("mean", hold="mean", lengths=(4, 6, 1))):
        job = make_job(cell, at, torch.float32, "cpu")
        made = twice_differentiable(job, unrolled(job, TWIN, PROCESSORS))
        expected = REFERENCE.run(job)
        leaves = (job.x_BTI, *job.weights.values())

        def second(y_BTO: Tensor, leaves: tuple[Tensor, ...] = leaves) -> tuple[Tensor, ...]:
            first = torch.autograd.grad(y_BTO.square().sum(), leaves, create_graph=True)
            return torch.autograd.grad(first[0].square().sum(), leaves)

        for ours, plain_loop in zip(second(made.y_BTO), second(expected.y_BTO), strict=True):
            torch.testing.assert_close(ours, plain_loop, rtol=1e-3, atol=1e-4)


def test_float64_is_refused_under_autocast_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passes, "LOW", (torch.bfloat16, torch.float16))
    job = make_job(CELLS.load("gru")(4, 5), Situation("plain"), torch.float64, "cpu")
    with torch.autocast("cpu", torch.bfloat16):
        assert "torch.float64" in str(gpu.cannot_take(job, PROCESSORS))


def test_a_cell_that_counts_is_handed_on_within_float16():
    c = torch.tensor([1e6, -1e6, 3.0])
    assert passes.last_cell(c, torch.float16).tolist() == [2.0**15, -(2.0**15), 3.0]
    assert passes.last_cell(c, torch.bfloat16)[0].isfinite()
