"""The layer-norm LSTM on a GPU: its twin against the plain loop, and what is launched against the programs' text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gpu_twins import TWIN, Noting, takes
from parity import REFERENCE, Situation, cases, differences, make_job, plain, ready, results, situations

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.kernels.gpu import passes
from thereafter.kernels.gpu.geometry import SHARED_BYTES, norm_geometry, norm_shared_bytes
from thereafter.kernels.gpu.passes import refuses, unrolled
from thereafter.kernels.jobs import Job, SameBits, Unrolled

PROCESSORS = 132
NORMED = [o for name, o in cases() if name == "lstm" and o.get("layer_norm") and not o.get("proj_size")]
NORMED += [
    {"layer_norm": True, "bias": "two"},
    {"layer_norm": True, "bias": "none", "coupled": True},
    {"layer_norm": True, "bias": "one", "coupled": True, "peephole": True},
]


class NormTwinKernel:
    """The kernel with the twin for the programs: on a CPU, in any type."""

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
        return SameBits(range(1, 2), "a twin")


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch):
    """float32 in place of 16-bit numbers, so that nothing hides behind rounding."""
    monkeypatch.setattr(passes, "LOW", (torch.float32,))


def lstm(inputs: int, units: int, **options: Any) -> Cell:
    cell: Cell = CELLS.load("lstm")(inputs, units, **{"layer_norm": True, **options})
    return cell


@pytest.mark.parametrize("options", NORMED, ids=str)
def test_the_twin_equals_the_plain_loop_in_every_situation(options: dict[str, Any]):
    cell, kernel = lstm(4, 5, **options), NormTwinKernel()
    ran, refused = 0, set[str]()
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


@pytest.mark.parametrize(("rows", "units"), [(3, 40), (17, 130), (40, 300), (70, 256)])
def test_sizes_of_every_shape(rows: int, units: int):
    cell, at = lstm(11, units, peephole=True), Situation("sizes", batch=rows, steps=3)
    job = make_job(cell, at, torch.float32, "cpu")
    expected = results(REFERENCE, plain(job), at, lay_out=False)
    _, wrong = differences(results(NormTwinKernel(), job, at), expected, torch.float32, 1e-4)
    assert not wrong


def test_what_the_programs_cannot_take_is_said_in_words(monkeypatch: pytest.MonkeyPatch):
    def reason(cell: Cell, at: Situation, processors: int = PROCESSORS) -> str:
        return str(refuses(make_job(cell, at, torch.float32, "cpu"), processors))

    plain_one = Situation("plain")
    assert reason(lstm(4, 5), plain_one) == "None"
    assert "gates" in reason(lstm(4, 5), Situation("record", record=True))
    assert "nothing" in reason(lstm(4, 5), Situation("no row", batch=0))
    assert "projected" in reason(lstm(4, 5, proj_size=3), plain_one)
    assert "do not fit on 1 multiprocessors" in reason(lstm(4, 500), plain_one, 1)
    monkeypatch.setattr(passes, "LOW", (torch.bfloat16, torch.float16))
    assert "torch.autocast" in reason(lstm(4, 5), plain_one)


def test_without_gradients_nothing_is_kept_for_them():
    cell, at = lstm(4, 5), Situation("plain")
    job = make_job(cell, at, torch.float32, "cpu")
    with torch.no_grad():
        made = NormTwinKernel().run(job)
    torch.testing.assert_close(made.y_BTO, REFERENCE.run(job).y_BTO.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", ["forward", "backward"])
def test_what_is_launched_is_what_the_programs_take(function: str, monkeypatch: pytest.MonkeyPatch):
    noting = Noting(monkeypatch)
    job = make_job(lstm(4, 5), Situation("plain"), torch.float32, "cpu")
    unrolled(job, noting, PROCESSORS).y_BTO.sum().backward()
    assert takes("recurrent", function, noting.launched[f"recurrent.{function}"])


@pytest.mark.parametrize("rows", [1, 16, 17, 32, 64, 100, 128, 256])
@pytest.mark.parametrize("units", [5, 128, 256, 300, 512, 650, 768, 1024, 1150, 1500, 2048])
def test_every_shape_fits_where_it_runs(rows: int, units: int):
    for peephole in (False, True):
        over = norm_geometry(rows, units, PROCESSORS, peephole=peephole)
        if over is None:
            assert rows * units > 64 * 1024
            continue
        for back, tiling in ((False, over.forward), (True, over.backward)):
            assert over.units >= units
            assert over.rows >= rows
            assert over.rows % tiling.rows == 0
            assert over.units % (4 * tiling.own) == 0
            assert over.blocks(tiling) <= PROCESSORS
            assert norm_shared_bytes(tiling, over.units, back=back, peephole=peephole) <= SHARED_BYTES
