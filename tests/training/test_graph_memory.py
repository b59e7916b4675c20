"""Recorded steps where memory runs out: graphs are forgotten and recorded again, and a validation is given room.

torch's recording is stood in for: a "graph" keeps so many bytes of a device that has few of them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from weakref import ReferenceType, ref

import pytest
import torch
from torch import Tensor

import thereafter
from thereafter import progress
from thereafter.errors import DeviceMemoryError
from thereafter.models.state import NeuralState
from thereafter.training import graphs as recording
from thereafter.training.graphs import Graphs, beside_graphs
from thereafter.training.loop import Loop
from thereafter.training.watching import Training


@dataclass(frozen=True)
class Row:
    """A batch of one length; see `learner.Batch`."""

    x_T: Tensor
    rate_factor: float = 1.0

    @property
    def rows(self) -> int:
        return 1

    @property
    def count(self) -> int:
        return len(self.x_T)

    def mean(self, total: Tensor) -> Tensor:
        return total / self.count

    def places(self) -> dict[str, Tensor] | None:
        return {"x": self.x_T}

    def over(self, places: Mapping[str, Tensor]) -> Self:
        return type(self)(places["x"])  # type: ignore[return-value]


class SmallDevice:
    """A device that holds graphs of so many steps in all; it runs out in a rehearsal, or while a step is recorded."""

    def __init__(self, room: int, monkeypatch: pytest.MonkeyPatch, *, rehearsal: bool = True) -> None:
        self.room, self.rehearsal = room, rehearsal
        self.used = self.recorded = self.cleared = 0
        self.recording = False
        monkeypatch.setattr(recording.torch.cuda, "CUDAGraph", _Graph)
        monkeypatch.setattr(recording.torch.cuda, "graph", self.graph)
        monkeypatch.setattr(recording.torch.cuda, "graph_pool_handle", lambda: (0, self.cleared))
        monkeypatch.setattr(recording.torch.cuda, "synchronize", lambda device: None)
        monkeypatch.setattr(recording.torch.cuda, "empty_cache", self.empty)

    @contextmanager
    def graph(self, graph: object, pool: object, capture_error_mode: str) -> Iterator[None]:
        self.recording = True
        try:
            yield
        except torch.cuda.OutOfMemoryError as error:
            raise RuntimeError("operation failed due to a previous error during capture") from error
        finally:
            self.recording = False

    def empty(self) -> None:
        self.used, self.cleared = 0, self.cleared + 1

    def learn(self, batch: Row, state: NeuralState | None, rate: Tensor) -> tuple[Tensor, NeuralState]:
        if self.used + batch.count > self.room and (self.recording or self.rehearsal):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        if self.recording:  # a rehearsal gives its memory back
            self.used, self.recorded = self.used + batch.count, self.recorded + 1
        return torch.tensor([float(batch.count), 0.0, 0.0]), NeuralState({})


class _Graph:
    def replay(self) -> None:
        return None


def steps(graphs: Graphs[Row], lengths: list[int]) -> list[bool]:
    """Whether batches of these lengths are played."""
    return [graphs.play(Row(torch.zeros(length)), None, 0.1) is not None for length in lengths]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    shown: list[str] = []
    monkeypatch.setattr(progress, "note", shown.append)
    return shown


@pytest.mark.parametrize("rehearsal", [True, False])
def test_graphs_are_forgotten_where_they_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, notes: list[str], rehearsal: bool
) -> None:
    device = SmallDevice(10, monkeypatch, rehearsal=rehearsal)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))
    assert steps(graphs, [4, 5, 4, 5]) == [True] * 4
    assert (device.cleared, device.used, device.recorded) == (0, 9, 2)
    assert steps(graphs, [6, 6, 4, 3]) == [True] * 4  # 6 does not fit beside 4 and 5, 3 not beside 6 and 4
    assert (device.cleared, device.used) == (2, 3)
    assert notes == ["the GPU does not hold the recorded steps of all shapes at once; a smaller batch is faster"]


def test_what_does_not_fit_by_itself_is_computed_as_usual(monkeypatch: pytest.MonkeyPatch, notes: list[str]) -> None:
    device = SmallDevice(10, monkeypatch)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))
    assert steps(graphs, [4, 11, 4]) == [True, False, False]
    assert notes[-1] == "this model's steps are not recorded as CUDA graphs (CUDA out of memory.)"


@pytest.mark.parametrize("full", [torch.cuda.OutOfMemoryError, DeviceMemoryError])
def test_a_validation_is_given_the_memory_of_graphs(monkeypatch: pytest.MonkeyPatch, full: type[Exception]) -> None:
    device = SmallDevice(10, monkeypatch)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))
    steps(graphs, [8])

    def measure() -> float:
        if device.used:
            raise full("CUDA out of memory.")
        return 2.5

    with pytest.raises(full):
        beside_graphs(None, measure)
    assert beside_graphs(graphs, measure) == 2.5
    assert steps(graphs, [8]) == [True]


def test_a_step_beside_graphs_begins_again_as_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SmallDevice(10, monkeypatch)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))
    steps(graphs, [8])
    order: list[str] = []

    def compute() -> str:
        order.append("compute")
        if device.used:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return "gradients"

    assert beside_graphs(graphs, compute, lambda: order.append("restore")) == "gradients"
    assert order == ["compute", "restore", "compute"]


def test_other_faults_of_a_validation_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SmallDevice(10, monkeypatch)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))

    def measure() -> float:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        beside_graphs(graphs, measure)
    assert device.cleared == 0


class Recorded:
    """Graphs that record nothing."""

    def __init__(self, loop: Loop[Row]) -> None:
        self.loop = loop  # as real ones: they take the loop's steps

    def play(self, *given: object) -> None:
        return None


class Full(Recorded):
    """Graphs that fill the memory: the first step beside them runs out, after it has drawn random numbers."""

    times = 0

    def clear(self) -> None:
        type(self).times += 1


def test_a_training_whose_graphs_had_to_make_room_has_the_same_losses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("a b c d e f g h " * 40)

    def losses() -> list[float]:
        options = {"hidden": 4, "dropout": 0.5, "steps": 4, "batch": 2, "epochs": 1, "device": "cpu", "log_every": 1}
        model = thereafter.train(tmp_path / "text.txt", model="lstm", **options)  # type: ignore[call-overload]
        return [line["loss"] for line in model.log if line["event"] == "step"]

    expected = losses()
    own, raised = Loop._loss, [0]

    def loss(loop: Loop[Row], batch: Row, state: NeuralState) -> tuple[Tensor, Tensor, NeuralState]:
        results = own(loop, batch, state)
        raised[0] += 1
        if raised[0] == 5:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return results

    monkeypatch.setattr(Loop, "_new_graphs", lambda loop: Full(loop))
    monkeypatch.setattr(Loop, "_loss", loss)
    assert losses() == expected
    assert Full.times == 1


@pytest.mark.parametrize("fails", [False, True])
def test_a_training_that_ended_keeps_no_graphs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: bool) -> None:
    """Without a garbage collection: their memory is for the next training."""
    made: list[ReferenceType[Recorded]] = []

    def new(loop: Loop[Row]) -> Recorded:
        graphs = Recorded(loop)
        made.append(ref(graphs))
        return graphs

    def fault(training: Training) -> None:
        if fails and training.at.step == 3:
            raise ValueError("a fault of the user's own")

    monkeypatch.setattr(Loop, "_new_graphs", new)
    (tmp_path / "text.txt").write_text("a b c d e f g h " * 40)
    gc.collect()
    gc.disable()
    try:
        with suppress(ValueError), thereafter.watching(before_step=fault):
            thereafter.train(tmp_path / "text.txt", model="lstm", hidden=4, steps=4, batch=2, epochs=1, device="cpu")
        assert made
        assert [one() for one in made] == [None] * len(made)
    finally:
        gc.enable()
