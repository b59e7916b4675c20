"""Recorded steps where memory runs out: graphs are forgotten and recorded again, and a validation is given room.

torch's recording is stood in for: a "graph" keeps so many bytes of a device that has few of them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import ReferenceType, ref

import pytest
import torch
from torch import Tensor

import thereafter
from thereafter.base import devices, progress
from thereafter.errors import DeviceMemoryError
from thereafter.models.quiet import NeuralState
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


@pytest.mark.wide
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


@pytest.mark.wide
def test_what_does_not_fit_by_itself_is_computed_as_usual(monkeypatch: pytest.MonkeyPatch, notes: list[str]) -> None:
    device = SmallDevice(10, monkeypatch)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))
    assert steps(graphs, [4, 11, 4]) == [True, False, False]
    assert notes[-1] == "this model's steps are not recorded as CUDA graphs (CUDA out of memory.)"


@pytest.mark.parametrize("full", [torch.cuda.OutOfMemoryError, pytest.param(DeviceMemoryError, marks=pytest.mark.wide)])
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


def test_a_step_is_recorded_only_where_its_rehearsal_left_room(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SmallDevice(10, monkeypatch)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))
    steps(graphs, [3])
    tight = [True]

    @contextmanager
    def leaving_room(device: torch.device) -> Iterator[None]:
        yield
        if tight.pop() if tight else False:
            raise torch.cuda.OutOfMemoryError("out of memory: recording needs more")

    monkeypatch.setattr(recording, "leaving_room", leaving_room)
    assert steps(graphs, [4]) == [True]
    assert (device.cleared, device.used, device.recorded) == (1, 4, 2)  # none began before there was room


@pytest.mark.wide
def test_recordings_that_are_forgotten_at_once_are_given_up(monkeypatch: pytest.MonkeyPatch, notes: list[str]) -> None:
    device = SmallDevice(10, monkeypatch)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))
    assert steps(graphs, [6, 7] * 2) == [True] * 4
    assert not graphs.gave_up
    assert steps(graphs, [6, 7] * 2) == [False] * 4
    assert graphs.gave_up
    assert notes[-1].startswith("this model's steps are not recorded")
    assert device.cleared == 4


@pytest.mark.wide
def test_recordings_that_are_used_are_kept_on_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SmallDevice(10, monkeypatch)
    graphs: Graphs[Row] = Graphs(device.learn, nullcontext, torch.device("cpu"))
    for length in [6, 7] * 4:
        assert steps(graphs, [length] * 16) == [True] * 16
    assert device.cleared == 7


@pytest.mark.parametrize(("free", "allowed", "expected"), [(5, 100, 8), (50, 20, 20)])
def test_the_memory_of_others_and_the_limit_of_the_process_both_count(
    monkeypatch: pytest.MonkeyPatch, free: int, allowed: int, expected: int
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 200))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3)
    monkeypatch.setattr(devices, "allowed_memory", lambda device: allowed)
    assert devices.available_memory(torch.device("cuda", 0)) == expected


class Recorded:
    """Graphs that record nothing and fill the memory until they are cleared."""

    gave_up = False

    def __init__(self, loop: Loop[Row]) -> None:
        self.loop = loop  # as real ones: they take the loop's steps
        self.cleared = 0
        loop.model.register_buffer("steps_seen", torch.zeros(()), persistent=False)

    def play(self, *given: object) -> None:
        return None

    def clear(self) -> None:
        self.cleared += 1


def out_of_room(call: int, own: Callable[..., object], made: list[Recorded]) -> Callable[..., object]:
    """As `own`, but memory runs out at the end of one call, unless graphs have been cleared for it."""
    calls = [0]

    def limited(*given: object, **named: object) -> object:
        result = own(*given, **named)
        calls[0] += 1
        if calls[0] >= call and not made[0].cleared:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return result

    return limited


SMALL: dict[str, Any] = {"hidden": 4, "dropout": 0.5, "steps": 4, "batch": 2, "epochs": 1, "device": "cpu", "seed": 1}
SMALL |= {"log_every": 1, "checkpoint_every": 3, "checkpoint_seconds": 0.0, "validate_every": 4}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("a b c d e f g h " * 40)
    return path


def losses(model: Any) -> list[float]:
    return [line["loss"] for line in model.log if line["event"] in ("step", "validation")]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """The graphs of trainings."""
    graphs: list[Recorded] = []

    def new(loop: Loop[Row]) -> Recorded:
        graphs.append(Recorded(loop))
        return graphs[-1]

    monkeypatch.setattr(Loop, "new_graphs", new)
    return graphs


@pytest.mark.parametrize(("name", "call"), [("_loss", 5), ("snapshot", 3)])
def test_a_training_whose_graphs_had_to_make_room_has_the_same_losses(
    monkeypatch: pytest.MonkeyPatch, text: Path, tmp_path: Path, made: list[Recorded], name: str, call: int
) -> None:
    expected = losses(thereafter.train(text, model="lstm", **SMALL))
    made.clear()
    own, seen = Loop._loss, []

    def loss(loop: Loop[Row], batch: Row, state: NeuralState) -> tuple[Tensor, Tensor, NeuralState]:
        results = own(loop, batch, state)
        loop.model.steps_seen += 1  # as running means of a batch norm
        seen.append(int(loop.model.steps_seen))
        return results

    monkeypatch.setattr(Loop, "_loss", loss)
    monkeypatch.setattr(Loop, name, out_of_room(call, getattr(Loop, name), made))
    model = thereafter.train(text, model="lstm", out=tmp_path / "run", **SMALL)
    assert losses(model) == expected
    assert made[0].cleared == 2  # once to make room, once at the end
    assert seen[-1] == model.log[-1]["steps"]


@pytest.mark.wide
def test_the_best_weights_are_kept_although_graphs_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, text: Path, made: list[Recorded]
) -> None:
    own = Loop.__init__

    def begin(loop: Loop[Row], *given: Any, **named: Any) -> None:
        own(loop, *given, **named)
        monkeypatch.setattr(loop, "_keep", out_of_room(2, loop._keep, made))

    monkeypatch.setattr(Loop, "__init__", begin)
    model = thereafter.train(text, model="lstm", **SMALL)
    assert made[0].cleared == 2
    assert model.log[-1]["best_step"] > 4


@pytest.mark.wide
def test_an_interrupted_training_is_saved_in_the_memory_of_its_graphs(
    monkeypatch: pytest.MonkeyPatch, text: Path, tmp_path: Path, made: list[Recorded]
) -> None:
    def stop(training: Training) -> None:
        if training.at.step == 5:
            monkeypatch.setattr(Loop, "snapshot", out_of_room(1, Loop.snapshot, made))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), thereafter.watching(before_step=stop):
        thereafter.train(text, model="lstm", out=tmp_path / "run", **SMALL)
    assert made[0].cleared
    resumed = losses(thereafter.resume(tmp_path / "run"))
    assert resumed == losses(thereafter.train(text, model="lstm", **SMALL))


@pytest.mark.wide
@pytest.mark.parametrize("fails", [False, True])
def test_a_training_that_ended_keeps_no_graphs(monkeypatch: pytest.MonkeyPatch, text: Path, fails: bool) -> None:
    """Without a garbage collection: their memory is for the next training."""
    references: list[ReferenceType[Recorded]] = []

    def new(loop: Loop[Row]) -> Recorded:
        graphs = Recorded(loop)
        references.append(ref(graphs))
        return graphs

    def fault(training: Training) -> None:
        if fails and training.at.step == 3:
            raise ValueError("a fault of the user's own")

    monkeypatch.setattr(Loop, "new_graphs", new)
    gc.collect()
    gc.disable()
    try:
        with suppress(ValueError), thereafter.watching(before_step=fault):
            thereafter.train(text, model="lstm", **SMALL)
        assert references
        assert [one() for one in references] == [None] * len(references)
    finally:
        gc.enable()
