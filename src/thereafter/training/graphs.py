"""Training steps as CUDA graphs: recorded once, then launched by one call of the host instead of some thousand.

A recurrent layer on a GPU is a long chain of short kernels, and the host needs several times as long to launch them as
the GPU to run them. A graph holds all of a step: loss, gradients, clipping, the new weights, the state to carry on.
What changes from step to step lies in tensors that keep their place: ids, rate, carried state. Random numbers go on
from replay to replay as they would without a graph.

A shape of batch is recorded when it comes up for the first time, after a rehearsal that is undone. So whether a step is
replayed does not depend on what was computed before it, and a training that is resumed computes the same bits. A batch
with gaps is computed as usual.

All graphs share the memory of their steps, since no two run at once. Pieces of it fit one shape and not another: where
a rehearsal shows that it would grow beyond what the device has, all graphs are forgotten, and recorded again as their
shapes come up. Where they do not last, or a shape does not fit by itself, recording is given up.

Memory must not run out while a graph is recorded: torch 2.11 and its neighbours keep what a broken recording held for
the life of the process (pytorch issue 188439). In a rehearsal, a step that is taken and undone, it may run out and
nothing is lost, so it is there that the memory is measured.

Shapes: B rows, T steps.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from thereafter.base import progress
from thereafter.base.devices import available_memory, is_out_of_memory
from thereafter.errors import DeviceMemoryError
from thereafter.kernels.switches import RECORDING, leaving_unread
from thereafter.models.quiet import NeuralState
from thereafter.training.learner import B
from thereafter.training.numerics import generator_states, set_generators
from thereafter.training.weights import Optimizer, weights_of

R = TypeVar("R")
Shapes = tuple[torch.Size, ...]
_WORTH, _TIMES = 16, 4
"""Recordings that are forgotten before so many steps, so many times in a row, cost more than they save."""


@dataclass(frozen=True)
class _Recorded:
    """A graph and the places it reads its batch from and writes its figures to."""

    graph: torch.cuda.CUDAGraph
    places: dict[str, Tensor]
    figures_3: Tensor


class Graphs(Generic[B]):
    """The graphs of one training.

    `learn(batch, state, rate)` takes a whole step and returns its three figures and the state after it; a state of None
    stands for a fresh one. It must ask the device for nothing. `undoing()`: a block after which weights, optimizer and
    random numbers are what they were before it.
    """

    def __init__(
        self,
        learn: Callable[[B, NeuralState | None, Tensor], tuple[Tensor, NeuralState]],
        undoing: Callable[[], AbstractContextManager[None]],
        device: torch.device,
    ) -> None:
        self._learn, self._undoing = learn, undoing
        self._recorded: dict[Shapes, _Recorded] = {}
        self._rate = torch.zeros((), device=device)
        self._carried: dict[str, Tensor] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._failed = self._was_full = False
        self._played = self._seldom = 0

    @property
    def gave_up(self) -> bool:
        """Whether no step is recorded any more."""
        return self._failed

    def clear(self) -> None:
        """Forget all graphs and give their memory back."""
        torch.cuda.synchronize(self._rate.device)  # the last one may still run
        self._recorded.clear()
        self._pool = torch.cuda.graph_pool_handle()
        gc.collect()  # of what earlier trainings left
        torch.cuda.empty_cache()

    def play(self, batch: B, state: NeuralState | None, rate: float) -> tuple[Tensor, NeuralState | None] | None:
        """The figures of a step and the state after it; None where this batch must be computed as usual."""
        places = batch.places()
        if self._failed or places is None or not self._fits(state):
            return None
        shapes = tuple(tensor.shape for tensor in places.values())
        if state is not None:
            for name, tensor in state.tensors().items():
                if tensor is not self._carried[name]:
                    self._carried[name].copy_(tensor)
        recorded = self._recorded.get(shapes) or self._record(batch, places, shapes, state)
        if recorded is None:
            return None
        for name, tensor in places.items():
            recorded.places[name].copy_(tensor)
        self._rate.fill_(rate)
        recorded.graph.replay()
        self._played += 1
        return recorded.figures_3.clone(), None if state is None else state.with_tensors(self._carried)

    def _fits(self, state: NeuralState | None) -> bool:
        """A state has a fixed place where all of it is on the device and no part grows with what was read."""
        if state is None:
            return True
        tensors = state.tensors()
        if any(tensor.device != self._rate.device for tensor in tensors.values()):
            return False
        if not self._carried:
            self._carried = {name: torch.empty_like(tensor) for name, tensor in tensors.items()}
        return all(tensor.shape == self._carried[name].shape for name, tensor in tensors.items())

    def _record(
        self, batch: B, places: dict[str, Tensor], shapes: Shapes, state: NeuralState | None
    ) -> _Recorded | None:
        try:
            self._recorded[shapes] = self._written_down(batch, places, state)
            return self._recorded[shapes]
        except RuntimeError as error:  # outside the block nothing of the step is alive any more
            # a recording that broke off may fail once more at its end, in other words
            is_full = is_out_of_memory(error) or is_out_of_memory(error.__context__ or error)
            reason = str(error).splitlines()[0]
        if is_full and self._recorded:
            if not self._was_full:
                progress.note(
                    "the GPU does not hold the recorded steps of all shapes at once; a smaller batch is faster"
                )
            self._was_full = True
            self._seldom = self._seldom + 1 if self._played < _WORTH else 0
            self._played = 0
            self.clear()
            if self._seldom < _TIMES:
                return self._record(batch, places, shapes, state)
        # whatever cannot be recorded can still be computed, only more slowly
        self._failed = True
        progress.note(f"this model's steps are not recorded as CUDA graphs ({reason})")
        return None

    def _written_down(self, batch: B, places: dict[str, Tensor], state: NeuralState | None) -> _Recorded:
        own = {name: tensor.clone() for name, tensor in places.items()}
        before = None if state is None else state.with_tensors(self._carried)
        figures_3, graph = torch.zeros(3, device=self._rate.device), torch.cuda.CUDAGraph()
        with leaving_room(self._rate.device), leaving_unread(), self._undoing():
            # what must exist before recording: loaded and compiled programs, memory, buffers of libraries
            self._learn(batch.over(own), before, self._rate)
        # other threads may go on with the GPU meanwhile: one of them makes the next batch
        recording = torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local")
        with RECORDING, leaving_unread(), recording:
            step_3, after = self._learn(batch.over(own), before, self._rate)
            figures_3.copy_(step_3)
            for name, place in self._carried.items() if before is not None else ():
                place.copy_(after.tensors()[name].detach())
        return _Recorded(graph, own, figures_3)


def beside_graphs(graphs: Graphs[B] | None, compute: Callable[[], R], restore: Callable[[], None] | None = None) -> R:
    """What `compute()` gives; where graphs fill the memory they make room: then `restore()`, and once more."""
    try:
        return compute()
    except (RuntimeError, DeviceMemoryError) as error:
        if graphs is None or not is_out_of_memory(error):
            raise
    if restore is not None:
        restore()
    graphs.clear()
    return compute()


def changed_by_a_step(model: nn.Module, optimizer: Optimizer) -> list[Tensor]:
    """All tensors that a step changes."""
    return [*weights_of(model).values(), *optimizer.state()[0].values()]


@contextmanager
def undone(model: nn.Module, optimizer: Optimizer, device: torch.device) -> Iterator[None]:
    """A block after which weights, optimizer and random numbers are what they were before it."""
    generators = generator_states(device)
    changing = changed_by_a_step(model, optimizer)
    before = [tensor.clone() for tensor in changing]
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(changing, before)
        set_generators(generators, device)


_SPARE = 1.1
"""Pieces of memory fit a recorded step less well than a rehearsed one: it finds those of other graphs."""
_WORKSPACES = 2**26
"""Bytes that libraries take for the stream of a recording: 32 MiB for cuBLAS on Hopper, and as much again."""


@contextmanager
def leaving_room(device: torch.device) -> Iterator[None]:
    """Raises torch.cuda.OutOfMemoryError unless the memory that the block took is free after it, and a tenth more.

    What the block took is what torch has kept by its end, and at least what was in use at a time: some of that may lie
    in gaps of older memory, which a recording cannot use. Where memory ran out in between, torch gave some back, and
    neither tells.
    """
    if device.type != "cuda":
        yield
        return
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    kept, used = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
    gave_back = _times_given_back(device)
    yield
    torch.cuda.synchronize(device)
    taken = max(torch.cuda.memory_reserved(device) - kept, torch.cuda.max_memory_allocated(device) - used)
    needed = _SPARE * taken + _WORKSPACES
    torch.cuda.empty_cache()
    room = available_memory(device) - torch.cuda.memory_reserved(device)
    if needed > room or _times_given_back(device) > gave_back:
        raise torch.cuda.OutOfMemoryError(f"out of memory: recording needs {needed:.0f} bytes, {room:.0f} are free")


def _times_given_back(device: torch.device) -> int:
    """How often memory had run out and torch gave back what it kept."""
    return int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0))
