"""What is launched is what the programs take: names, orders, sizes; without Triton, by reading their source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gpu_twins import Noting, parameters, takes
from parity import Situation, make_job
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.kernels import gpu
from thereafter.kernels.gpu import CAPABILITIES, GPU, cannot_take, copying, launch, passes
from thereafter.kernels.gpu.compiling import Constant
from thereafter.kernels.gpu.geometry import (
    SHARED_BYTES,
    BlockTiling,
    Geometry,
    before_geometry,
    before_shared_bytes,
    geometry,
    shared_bytes,
)
from thereafter.kernels.jobs import Job
from thereafter.kernels.running import preference

SIZES = [(64, 1150), (40, 1150), (128, 512), (64, 1024), (16, 768), (64, 256), (20, 650), (5, 48), (3, 5), (200, 256)]


TILINGS = {"wide": BlockTiling("wide", 16, 16, 4, 128, 1, 1), "narrow": BlockTiling("narrow", 8, 16, 4)}


@pytest.mark.parametrize("family", ["wide", "narrow"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_arguments_stand_in_the_order_of_the_program(family: str, direction: str, monkeypatch: pytest.MonkeyPatch):
    over = Geometry(16, 128, TILINGS[family], TILINGS[family])
    monkeypatch.setattr(passes, "geometry", lambda *sizes, **about: over)
    noting, cell = Noting(monkeypatch), CELLS.load("lstm")(4, 5)
    job = make_job(cell, Situation("plain"), torch.bfloat16, "cpu")
    passes.unrolled(job, noting, 132).y_BTO.sum().backward()
    assert takes("recurrent", direction, noting.launched[f"recurrent.{direction}"])


@pytest.mark.parametrize("busy", [False, True], ids=["plain", "busy"])
@pytest.mark.parametrize(("rows", "units"), SIZES)
def test_every_shape_fits_the_gpu(rows: int, units: int, busy: bool):
    over = geometry(rows, units, 132, busy=busy)
    assert over is not None
    assert over.rows >= rows
    assert over.units >= units
    for tiling, back in ((over.forward, False), (over.backward, True)):
        assert over.blocks(tiling) <= 132
        assert over.rows % tiling.rows == 0
        columns = (4 if back else 1) * over.units
        if tiling.family == "narrow":
            assert columns % (64 * tiling.warps) == 0
        if tiling.family == "wide":
            assert over.units % tiling.chunk == 0
            assert over.units % (4 * tiling.own) == 0
            assert shared_bytes(tiling, over.units, back=back) <= SHARED_BYTES
            assert tiling.in_registers <= over.units // tiling.chunk


def test_what_does_not_fit_has_no_shape():
    assert geometry(512, 1024, 132) is None
    assert geometry(64, 4096, 132) is None
    assert geometry(64, 1150, 16) is None


@pytest.mark.parametrize("function", ["copy_gates", "turn_gates", "copy_rows"])
def test_copies_pass_what_their_programs_take(function: str, monkeypatch: pytest.MonkeyPatch):
    """The numbers of every copy, by name, in the program's order; the program itself is not run."""
    launched: dict[str, tuple[list[str], set[str]]] = {}

    def noted(name: str, source: Tensor, target: Tensor, numbers: dict[str, int], given: dict[str, Constant], n: int):
        launched[name] = ["source", "target", *numbers], set(given)
        assert n > 0

    monkeypatch.setattr(copying, "_copy", noted)
    copies, how = copying.CopyPrograms(), copying.FilledUnits(5, 128, (0, 1, None, 2))
    copies.slices(torch.ones(15, 4), how, 8, 16, torch.bfloat16)
    copies.turned(torch.ones(15, 5), how, torch.bfloat16)
    copies.gates(torch.ones(512, 8), how, 4, torch.float32)
    copies.rows(torch.ones(3, 2, 5), 16, 8, torch.bfloat16)
    assert launched[function] == parameters("copying", function)


OTHERS = [number for number, about in CAPABILITIES.items() if not about.tried]


@pytest.mark.parametrize("capability", OTHERS)
def test_other_cards_get_programs_without_hoppers_instructions(capability: int):
    about = CAPABILITIES[capability]
    assert not about.warpgroups
    for rows, units in ((16, 768), (64, 256), (5, 48), (3, 5)):
        over = geometry(rows, units, 108, wide=False)
        assert over is not None
        assert (over.forward.family, over.backward.family) == ("narrow", "narrow")
    assert geometry(64, 1150, 108, wide=False) is None
    before = before_geometry(16, 512, 108, about.shared)
    assert before is not None
    assert before_shared_bytes(before.forward) <= about.shared


def job_of(cell: Cell, rows: int) -> Job:
    narrow = torch.bfloat16
    weights = {name: torch.zeros(shape, dtype=narrow) for name, shape in cell.shapes().items()}
    state = cell.state_type(*(torch.zeros(rows, size, dtype=narrow) for size in cell.state_sizes().values()))
    return Job(cell, torch.zeros(rows, 20, cell.input_size, dtype=narrow), state, weights)


def test_what_other_cards_cannot_run_is_refused_in_words():
    lstm, normed = CELLS.load("lstm")(8, 256), CELLS.load("lstm")(8, 16, layer_norm=True)
    large = CELLS.load("lstm")(8, 1150)
    card, hopper = CAPABILITIES[89], CAPABILITIES[90]
    assert cannot_take(job_of(lstm, 64), 142, card) is None
    assert "Hopper's instructions (H100, H200)" in str(cannot_take(job_of(normed, 4), 142, card))
    assert cannot_take(job_of(normed, 4), 132, hopper) is None
    assert "fit on 142 multiprocessors at once without the wide" in str(cannot_take(job_of(large, 64), 142, card))
    assert cannot_take(job_of(large, 64), 132, hopper) is None


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """A GPU of some capability seems to be there, with a Triton and a driver."""

    def forget() -> None:
        for cached in (gpu.lacks, gpu.lacks_by_name, gpu.untried, gpu._caution, launch.capability):
            cached.cache_clear()

    def card(capability: int) -> None:
        forget()
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: divmod(capability, 10))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
        monkeypatch.setattr(gpu, "lacks_triton", lambda: None)
        monkeypatch.setattr(gpu, "lacks_driver", lambda: None)

    yield card
    forget()


def on_gpu(cell: str, steps: int) -> Any:
    """As much of a job as the choice of a kernel reads."""
    x_BTI = SimpleNamespace(device=torch.device("cuda", 0), shape=(4, steps, 8))
    return SimpleNamespace(x_BTI=x_BTI, cell=CELLS.load(cell)(8, 8))


def test_auto_takes_the_programs_on_cards_that_were_tried(pretend: Callable[[int], None]):
    pretend(90)
    assert preference(on_gpu("lstm", 35)) == ("gpu", "vendor")
    assert preference(on_gpu("mingru", 35)) == ("gpu", "parallel")
    assert GPU.status().startswith("runs here: persistent programs for lstm")


@pytest.mark.parametrize("capability", OTHERS)
def test_other_cards_run_them_by_name_with_a_warning(pretend: Callable[[int], None], capability: int):
    pretend(capability)
    assert preference(on_gpu("lstm", 35)) == ("vendor",)
    assert preference(on_gpu("mingru", 35)) == ("parallel",)
    assert gpu.lacks_by_name(0) is None
    words = f"they compile for capability {capability / 10}, but were never run on it"
    assert words in str(gpu.lacks(0))
    assert GPU.status().startswith("runs here by name alone: ")
    assert words in GPU.status()
    with pytest.warns(UserWarning, match=words):
        gpu._caution(0)


def test_a_card_that_no_program_is_compiled_for_is_refused(pretend: Callable[[int], None]):
    pretend(75)
    assert str(gpu.lacks_by_name(0)).startswith("the programs are compiled for capability 8.0 (A100), 8.6 (")
    assert str(gpu.lacks_by_name(0)).endswith("this is a card of 7.5")
    assert preference(on_gpu("lstm", 35)) == ("vendor",)
    assert "needs a GPU of capability 9.0 (H100, H200) and Triton 3.6 or 3.7 (that of torch 2.11 or" in GPU.status()


def test_without_a_gpu_one_sentence_says_what_it_would_need(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert GPU.status().startswith(
        "does not run here: no NVIDIA GPU; it needs a GPU of capability 9.0 (H100, H200) and Triton 3.6 or 3.7"
    )
    assert GPU.status().endswith(
        "; by name also 8.0 (A100), 8.6 (A10, RTX 30), 8.9 (L40, RTX 40), 10.0 (B200), 12.0 (RTX 50)"
    )
