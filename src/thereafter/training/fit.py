"""One training from its first step to its end, whatever learns: the loop and what it needs around it.

The best weights are kept, in memory and in the run folder. A training that is interrupted saves its position; one that
is resumed begins at its snapshot. The last line of the log has the final figures. A device that runs out of memory ends
it in one sentence, with its newest snapshot saved.

With `batch="auto"` the largest batch that the memory of a GPU holds is found by trying. Rows are doubled until a step
does not fit, then bisected to within a sixteenth, on multiples of 8. A trial takes whole steps over the longest batches
there are, forward, backward and update, with a network of its own: neither the weights nor the random numbers of the
training are touched, and the number written down gives the same training.

    needed = what stays (weights, optimizer, snapshot, best weights) + activations
             + where steps are recorded, activations once more, since graphs of other shapes keep their own, and a copy
               of what a rehearsed step changes

must be at most 9/10 of what the process may take; the rest is for fragments and for validation. A batch so large keeps
a GPU busy and is rarely the best to learn from: fewer steps are taken, at the learning rate of smaller ones.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import nn

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.devices import available_memory, is_out_of_memory, memory_in_words, out_of_memory
from thereafter.errors import DeviceMemoryError, FormatError
from thereafter.kernels.switches import leaving_unread
from thereafter.models.quiet import NeuralState
from thereafter.runs.writer import Destination, RunWriter, Snapshot, write_snapshot
from thereafter.training.control import Counters
from thereafter.training.graphs import changed_by_a_step
from thereafter.training.learner import B, Course, Learner
from thereafter.training.logs import logging_in
from thereafter.training.loop import Loop
from thereafter.training.numerics import computing, mixed_products
from thereafter.training.settings import TrainingSettings
from thereafter.training.weights import clip_gradients, load_weights, make_optimizer, put_weights, weights_of

_SINCE = "the steps since its last checkpoint are lost: with more memory it goes on from there with"
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, StopIteration, RuntimeError)


M = TypeVar("M", bound=nn.Module)


def fit(
    begin: Callable[[torch.device], tuple[M, Course[B]]],
    training: TrainingSettings,
    place: Destination,
    last_line: Callable[[M, Counters], Table],
    finish: Callable[[M], None] | None = None,
) -> M:
    """Train; returns the network with the best weights, in evaluation mode.

    `begin(device)` builds the network, with the training's own random numbers; `last_line` are the figures that the log
    ends with. `finish` is given the network with its best weights, and may change them once more.
    """
    device, writer, snapshot = torch.device(training.device), place.writer, place.snapshot
    initial = {name: torch.from_numpy(np.array(array)) for name, array in place.initial.items()}
    best: dict[str, torch.Tensor] = {}

    def best_weights() -> dict[str, torch.Tensor]:
        if best or writer is None:
            return best
        # they are from before the run was resumed
        return {name: torch.from_numpy(np.array(array)) for name, array in writer.read_weights().items()}

    with (
        computing(training, device, snapshot),
        nullcontext() if writer is None or not training.logs else logging_in(writer.folder, training),
    ):
        remedy = _use_less(training)
        try:
            with memory_in_words(device, "building the network", remedy):
                module, course = begin(device)
        except KeyboardInterrupt:  # a training that has just been written down
            if writer is not None:
                writer.stopped(0)
            raise
        started = bool(initial) and snapshot is None
        known = started and initial.keys() == weights_of(module).keys()
        if started:
            put_weights(module, initial)

        def keep() -> None:
            best.update({name: tensor.clone() for name, tensor in weights_of(module).items()})
            if writer is not None:
                writer.write_weights({name: tensor.cpu().numpy() for name, tensor in best.items()}, course.facts)

        def write(snapshot: Snapshot) -> None:
            if writer is not None:
                write_snapshot(writer.state, snapshot)

        loop = Loop(course, training, place.journal, keep, None if writer is None else write, started, known)
        if snapshot is not None:
            try:
                loop.restore(snapshot)
            except _DAMAGED as error:
                message = f"the checkpoint is damaged or of another model ({error}); try training again"
                raise FormatError(message) from error
            place.journal.write({"event": "resumed", "step": loop.at.step})
        is_full = False
        try:
            loop.run()
        except KeyboardInterrupt:
            loop.forget_graphs()  # what is saved needs memory
            if writer is not None:
                writer.stopped(loop.rescue())
            raise
        except (RuntimeError, DeviceMemoryError) as error:
            if not is_out_of_memory(error):
                raise
            is_full = True
        finally:
            loop.forget_graphs()
        if is_full:  # outside the block, since the error's frames hold the whole step
            raise _rescued(device, remedy, loop, writer)
        if finish is not None:
            load_weights(module, best_weights())
            finish(module.eval())
            keep()
        place.journal.write({"event": "trained", **last_line(module, loop.at)})
        if writer is not None:
            writer.finish(place.journal)
    load_weights(module, best_weights())
    return module.eval()


def _use_less(training: TrainingSettings) -> str:
    """What makes a training need less memory."""
    ways = [f"a smaller batch (it is {training.batch})"]
    ways += ["batch='auto' (--batch auto)"] if is_searched(training) else []
    ways += [f"fewer steps (they are {training.steps})"] if training.steps else []
    ways += ["precision='bfloat16'"] if training.precision == "float32" and training.device == "cuda" else []
    return f"{', '.join(ways[:-1])} or {ways[-1]}" if len(ways) > 1 else ways[0]


def _rescued(device: torch.device, remedy: str, loop: Loop[B], writer: RunWriter | None) -> DeviceMemoryError:
    """The error of a device that is full, once the newest snapshot is on the disk and the step's memory is free."""
    loop.model.zero_grad(set_to_none=True)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    full = out_of_memory(device, "training", remedy)
    if writer is None:
        return full
    try:
        step = loop.rescue()
        again = f"step {step:,} goes on with" if step else "it begins again with"
        rest = f"nothing is lost: with more memory {again}" if step or not writer.state.exists() else _SINCE
    except (RuntimeError, DeviceMemoryError) as error:
        if not is_out_of_memory(error):
            raise
        rest = _SINCE
    return DeviceMemoryError(f"{full}; {rest}: {writer.resume_line}")


SEARCHED = {"cuda"}
"""The types of device whose memory is searched for: a CPU swaps long before it refuses."""
MOST_PLACES = 2**20
"""Rows times steps at most: with a few thousand features for each place indices stay below 2^32, and no training gains
by more at a time."""
_GRID, _CLOSE = 8, 16
_MARGIN = 0.1
_REMEDY = "fewer steps, a smaller network, or precision='bfloat16'"


def is_searched(training: TrainingSettings) -> bool:
    """Whether the memory of the training's device is searched; elsewhere `auto` means the default batch."""
    return torch.device(training.device).type in SEARCHED


def choose_rows(
    begin: Callable[[torch.device], Learner[B]],
    batches: Callable[[int], Iterable[B]],
    training: TrainingSettings,
    usual: int,
    most: int,
    validated: Callable[[int], Iterable[B]] | None = None,
) -> tuple[int, str]:
    """The most rows that fit into the memory of a GPU, elsewhere the usual number, and the note on it; see
    `find_batch`."""
    if not is_searched(training):
        return usual, f"batch {usual:,}, the default: the largest that fits is searched for on a GPU"
    rows = find_batch(begin, batches, training, first=min(usual, most), most=most, validated=validated)
    reason = "all that the data gives" if rows == most else "the largest that fits into the memory of the GPU"
    return rows, f"batch {rows:,}: {reason} (seldom the best to learn from; a larger learning rate may help)"


def find_batch(
    begin: Callable[[torch.device], Learner[B]],
    batches: Callable[[int], Iterable[B]],
    training: TrainingSettings,
    *,
    first: int,
    most: int,
    validated: Callable[[int], Iterable[B]] | None = None,
) -> int:
    """The most rows whose steps fit into the memory of the device.

    `begin(device)` builds a network for the trials alone, `batches(rows)` gives the longest batches of so many rows on
    the device. `first`: the rows to begin with; `most`: as many as the data gives. `validated(rows)`: the longest
    batches of a validation, where those grow with the rows. DeviceMemoryError where not even one row fits.
    """
    device = torch.device(training.device)
    _free(device)
    try:
        with (
            progress.task("finding the largest batch"),
            computing(training, device),
            memory_in_words(device, "a network of this size", _REMEDY),
        ):
            trials = _Trials(begin(device), batches, validated, training, device)
            rows = largest(trials.fits, first, most)
    finally:
        _free(device)
    if not rows:
        raise out_of_memory(device, "a batch of one row", _REMEDY)
    return rows


def largest(fits: Callable[[int], bool], first: int, most: int) -> int:
    """The largest number from 1 to `most` that fits, to within a sixteenth and on multiples of 8; 0 where none does.

    >>> [largest(lambda rows: rows <= 100, first, most) for first, most in ((8, 1000), (8, 50), (400, 400))]
    [96, 50, 100]
    """
    low = high = max(1, min(first, most))
    if fits(low):
        while low == high < most:
            high = min(2 * low, most)
            low = high if fits(high) else low
    else:
        low //= 2
        while low and not fits(low):
            low, high = low // 2, low
    while high - low > max(_GRID, low // _CLOSE):
        middle = (low + high) // 2 // _GRID * _GRID
        if middle <= low:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class _Trials(Generic[B]):
    """A network with all that stays in memory while it is trained."""

    def __init__(
        self,
        learner: Learner[B],
        batches: Callable[[int], Iterable[B]],
        validated: Callable[[int], Iterable[B]] | None,
        training: TrainingSettings,
        device: torch.device,
    ) -> None:
        self._learner, self._training, self._device = learner, training, device
        self._batches, self._validated = batches, validated
        self._optimizer = make_optimizer(learner.module, training)
        kept = weights_of(learner.module)
        snapshot = {**kept, **self._optimizer.state()[0]}
        self._copies = [tensor.clone() for tensor in (*kept.values(), *snapshot.values())]

    def fits(self, rows: int) -> bool:
        """Whether steps over batches of so many rows leave enough memory free."""
        try:
            return self._needed(rows) <= (1 - _MARGIN) * available_memory(self._device)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return False
        finally:
            self._optimizer.clear()
            _free(self._device)

    def _needed(self, rows: int) -> int:
        """The bytes that steps over batches of so many rows need; 0 on a device that does not count them."""
        counted = self._device.type == "cuda"
        stays = torch.cuda.memory_allocated(self._device) if counted else 0
        if counted:
            torch.cuda.reset_peak_memory_stats(self._device)
        self._learner.module.train()
        for batch in self._batches(rows):
            state = self._learner.fresh(batch.rows)
            for _ in range(2):  # the second goes on from the state of the first
                state = self._step(batch, state)
        self._learner.module.eval()
        with torch.no_grad():
            for batch in () if self._validated is None else self._validated(rows):
                self._learner.loss(batch, self._learner.fresh(batch.rows))
        if not counted:
            return 0
        activations = torch.cuda.max_memory_allocated(self._device) - stays
        if not self._training.graphs:
            return stays + activations
        rehearsed = sum(tensor.nbytes for tensor in changed_by_a_step(self._learner.module, self._optimizer))
        return stays + 2 * activations + rehearsed

    def _step(self, batch: B, state: NeuralState) -> NeuralState:
        # as a step is computed that will be recorded: lengths on the device choose other kernels
        unread = leaving_unread() if self._training.graphs else nullcontext()
        with mixed_products(self._training.precision, self._device), unread:
            loss = self._learner.loss(batch, state)
        torch.autograd.backward(loss.total / batch.count + loss.extra)
        _, scale = clip_gradients(self._optimizer.gradients(), self._training.clip or 0.0)
        self._optimizer.step(0.0, scale)
        self._optimizer.clear()
        return loss.state.detach()


def _free(device: torch.device) -> None:
    """Give memory back that nothing refers to any more."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
