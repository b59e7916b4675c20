"""The largest batch that the memory of a GPU holds, found by trying: `batch="auto"`.

Rows are doubled until a step does not fit, then bisected to within a sixteenth, on multiples of 8. A trial takes whole
steps over the longest batches there are, forward, backward and update, with a network of its own: neither the weights
nor the random numbers of the training are touched, and the number written down gives the same training.

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
from typing import Generic

import torch

from thereafter.base import progress
from thereafter.base.devices import available_memory, is_out_of_memory, memory_in_words, out_of_memory
from thereafter.kernels.functions import leaving_unread
from thereafter.models.state import NeuralState
from thereafter.training import numerics, optimizers
from thereafter.training.graphs import changed_by_a_step
from thereafter.training.learner import B, Learner
from thereafter.training.numerics import mixed_products, seeded, steady_products
from thereafter.training.settings import TrainingSettings
from thereafter.training.weights import weights_of

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


def describe_batch(rows: int, most: int, training: TrainingSettings) -> str:
    """The note on what was found."""
    if not is_searched(training):
        return f"batch {rows:,}, the default: the largest that fits is searched for on a GPU"
    reason = "all that the data gives" if rows == most else "the largest that fits into the memory of the GPU"
    return f"batch {rows:,}: {reason} (seldom the best to learn from; a larger learning rate may help)"


def choose(
    begin: Callable[[torch.device], Learner[B]],
    batches: Callable[[int], Iterable[B]],
    training: TrainingSettings,
    usual: int,
    most: int,
    validated: Callable[[int], Iterable[B]] | None = None,
) -> tuple[int, str]:
    """The most rows that fit into the memory of a GPU, elsewhere the usual number, and the note on it; see
    `find_batch`."""
    if is_searched(training):
        usual = find_batch(begin, batches, training, first=min(usual, most), most=most, validated=validated)
    return usual, describe_batch(usual, most, training)


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
            seeded(training.seed, device),
            numerics.as_in(None, device),
            steady_products(training.precision, device),
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
        self._optimizer = optimizers.make(learner.module, training)
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
        _, scale = optimizers.clip(self._optimizer.gradients(), self._training.clip or 0.0)
        self._optimizer.step(0.0, scale)
        self._optimizer.clear()
        return loss.state.detach()


def _free(device: torch.device) -> None:
    """Give memory back that nothing refers to any more."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
