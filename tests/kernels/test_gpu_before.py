"""The GRU that resets before its product: its twin against the plain loop, and what is launched against the program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gpu_twins import TWIN, Noting, parameters
from parity import REFERENCE, Situation, cases, differences, make_job, plain, ready, results, situations

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.kernels.gpu import passes
from thereafter.kernels.gpu.geometry import SHARED_BYTES, before_geometry, before_shared_bytes
from thereafter.kernels.gpu.passes import refuses, unrolled
from thereafter.kernels.jobs import Job, SameBits, Unrolled

PROCESSORS = 132
BEFORE = [{"reset": "before", "update": update, "bias": bias} for update in ("old", "new") for bias in ("two", "one")]
OPTIONS = [options for name, options in cases() if name == "gru" and options["reset"] == "before"]


class BeforeTwinKernel:
    """The programs' way with their twin in place of them: on a CPU, in any type."""

    name = "twin"

    def __init__(self, processors: int = PROCESSORS) -> None:
        self.processors = processors

    def refuses(self, job: Job) -> str | None:
        return refuses(job, self.processors)

    def run(self, job: Job) -> Unrolled:
        return unrolled(job, TWIN, self.processors)

    def status(self) -> str:
        return "for tests"

    def deterministic(self, job: Job) -> SameBits:
        return SameBits(range(1, 2), "for tests")


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch):
    """float32 in place of 16-bit numbers, so that nothing hides behind rounding."""
    monkeypatch.setattr(passes, "LOW", (torch.float32,))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(o, marks=() if o["bias"] == "two" else pytest.mark.wide)
        for o in [*BEFORE, *(one for one in OPTIONS if one not in BEFORE)]
        if "layer_norm" not in o
    ],
    ids=str,
)
def test_the_twin_equals_the_plain_loop_in_every_situation(options: dict[str, Any]):
    cell: Cell = CELLS.load("gru")(4, 5, **options)
    kernel, ran, refused = BeforeTwinKernel(), 0, set[str]()
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
    assert refused <= {"the programs do not show their gates", "there is nothing to compute"}
    assert ran > 20


@pytest.mark.parametrize(("rows", "units"), [(3, 40), (17, 130), (70, 260)])
def test_twin_of_layers_that_fill_several_blocks(rows: int, units: int):
    cell: Cell = CELLS.load("gru")(11, units, reset="before")
    at = Situation("sizes", batch=rows, steps=3)
    job = make_job(cell, at, torch.float32, "cpu")
    scaled = {key: (0.2 * weight).detach().requires_grad_() for key, weight in job.weights.items()}
    job = Job(cell, job.x_BTI, job.state, scaled)
    expected = results(REFERENCE, plain(job), at, lay_out=False)
    _, wrong = differences(results(BeforeTwinKernel(), job, at), expected, torch.float32, 1e-4)
    assert not wrong


def test_frozen_weights_and_inputs_get_no_gradient():
    cell: Cell = CELLS.load("gru")(4, 5, reset="before")
    job = make_job(cell, Situation("plain"), torch.float32, "cpu")
    frozen = {name: weight.detach() for name, weight in job.weights.items()}
    made = BeforeTwinKernel().run(Job(cell, job.x_BTI, type(job.state)(job.state.h.detach()), frozen))
    (got,) = torch.autograd.grad(made.y_BTO.sum(), [job.x_BTI])
    expected = torch.autograd.grad(REFERENCE.run(Job(cell, job.x_BTI, job.state, frozen)).y_BTO.sum(), [job.x_BTI])
    torch.testing.assert_close(got, expected[0])
    still = Job(cell, job.x_BTI.detach(), type(job.state)(job.state.h.detach()), frozen)
    assert not BeforeTwinKernel().run(still).y_BTO.requires_grad


def test_bfloat16_rounds_outputs_and_carries_the_state_in_float32():
    cell: Cell = CELLS.load("gru")(4, 5, reset="before")
    job = make_job(cell, Situation("plain", steps=40), torch.bfloat16, "cpu")
    made = BeforeTwinKernel().run(job)
    assert made.y_BTO.dtype == made.state.h.dtype == torch.bfloat16
    expected = REFERENCE.run(plain(job)).y_BTO
    assert float((made.y_BTO.double() - expected).detach().abs().max()) < 3e-2


def test_what_the_programs_cannot_take_is_said_in_words(monkeypatch: pytest.MonkeyPatch):
    def reason(at: Situation, processors: int = PROCESSORS, units: int = 5, **options: Any) -> str:
        cell = CELLS.load("gru")(4, units, **({"reset": "before"} | options))
        return str(refuses(make_job(cell, at, torch.float32, "cpu"), processors))

    assert reason(Situation("plain")) == "None"
    assert "gates" in reason(Situation("record", record=True))
    assert "nothing" in reason(Situation("no row", batch=0))
    assert "layer norm" in reason(Situation("plain"), layer_norm=True)
    assert reason(Situation("plain"), 1, 500) == "3 rows of 500 units do not fit on 1 multiprocessors at once"
    monkeypatch.setattr(passes, "LOW", (torch.bfloat16, torch.float16))
    assert "torch.autocast" in reason(Situation("plain"))


@pytest.mark.parametrize("function", ["before_forward", "before_backward"])
def test_what_is_launched_is_what_the_program_takes(function: str, monkeypatch: pytest.MonkeyPatch):
    noting = Noting(monkeypatch)
    cell: Cell = CELLS.load("gru")(4, 5, reset="before")
    made = unrolled(make_job(cell, Situation("plain"), torch.float32, "cpu"), noting, PROCESSORS)
    made.y_BTO.sum().backward()
    assert noting.launched[f"reset_before.{function}"] == parameters("reset_before", function)


@pytest.mark.parametrize("units", [5, 48, 256, 500, 768, 1024, 1150, 1300, 2048])
@pytest.mark.parametrize("rows", [1, 16, 20, 64, 128, 300])
def test_a_layer_fits_on_the_gpu_it_is_laid_over(rows: int, units: int):
    over = before_geometry(rows, units, PROCESSORS)
    if over is None:
        assert units * rows > 1024 * 128
        return
    tiling = over.forward
    assert tiling == over.backward
    assert over.blocks(tiling) <= PROCESSORS
    assert before_shared_bytes(tiling) <= SHARED_BYTES
    assert over.rows >= rows > over.rows - tiling.rows
    assert over.units >= units
    assert over.units % 128 == 0 == over.units % tiling.own
    assert all(0 <= pieces <= over.units // 512 for pieces in tiling.in_shared)


def test_sizes_that_were_measured_have_their_shape():
    shapes = {size: before_geometry(*size, PROCESSORS) for size in ((64, 1150), (128, 512), (64, 256))}
    tilings = {size: (over, over.forward) for size, over in shapes.items() if over is not None}
    assert {size: (tiling.own, tiling.rows, over.blocks(tiling)) for size, (over, tiling) in tilings.items()} == {
        (64, 1150): (32, 32, 72),
        (128, 512): (32, 16, 128),
        (64, 256): (32, 16, 32),
    }
