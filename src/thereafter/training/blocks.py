"""The order in which training sees a text, and its batches as tensors, cut out of the ids on the device that computes.

The order (`Plan`) is a pure function of the settings, the seed and the epoch: a position (epoch, block) is all that a
resumed run needs. Targets are the ids of the text; the input of each is the id before it, `<s>` before the first (and,
line by line, before every line).

    stream     row b of a block goes on where row b of the block before stopped; every target exactly once an epoch
    partition  pieces of n tokens from a random offset, shuffled; a fresh state for each
    lines      each line on its own, lines of about one length together; every target exactly once an epoch

On a CPU blocks are cut by numpy, which also reads ids that are mapped from a file. On a GPU the ids and the plan of an
epoch lie on the device, and the host does not wait for anything.

Shapes: N ids or targets, R rows of an epoch, K blocks, B rows and T steps of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.text.encoded import IdArray
from thereafter.training.settings import TrainingSettings


@dataclass(frozen=True)
class TextBatch:
    """Inputs and targets, one step apart; `mask` is None where every place holds a target. See `learner.Batch`."""

    inputs_BT: Tensor
    targets_BT: Tensor
    mask_BT: Tensor | None
    count: int
    rate_factor: float = 1.0

    @property
    def rows(self) -> int:
        return len(self.inputs_BT)

    def mean(self, total: Tensor) -> Tensor:
        return total / self.count  # every batch of a shape that is recorded has as many targets

    def places(self) -> dict[str, Tensor] | None:
        if self.mask_BT is not None:  # which places count is asked of the device, and a graph must ask it nothing
            return None
        return {"inputs": self.inputs_BT, "targets": self.targets_BT}

    def over(self, places: Mapping[str, Tensor]) -> Self:
        return replace(self, inputs_BT=places["inputs"], targets_BT=places["targets"])


class Blocks:
    """Cuts the blocks of an epoch out of ids; `start_id` is the input that stands for `<s>`."""

    def __init__(self, ids: IdArray, start_id: int, device: torch.device) -> None:
        self._ids_N = ids
        self._start_id = start_id
        self._device = device
        self._on_device_N: Tensor | None = None
        self._plan: Plan | None = None
        self._rows: tuple[Tensor, Tensor, Tensor] | None = None
        if device.type != "cpu":
            self._on_device_N = torch.from_numpy(np.array(ids, dtype=np.int32)).to(device)

    def __len__(self) -> int:
        return len(self._ids_N)

    def cut(self, plan: Plan, k: int) -> TextBatch:
        """Block k of a plan, as a batch."""
        return (
            self._cut_on_host(plan, k) if self._on_device_N is None else self.cut_on_device(plan, k, self._on_device_N)
        )

    def _cut_on_host(self, plan: Plan, k: int) -> TextBatch:
        rows, width, count = plan.rows(k), plan.width(k), plan.count(k)
        step_T = np.arange(width)
        place_BT = np.minimum(plan.starts_R[rows, None] + step_T, len(self._ids_N) - 1)
        targets_BT = self._ids_N[place_BT].astype(np.int64)
        inputs_BT = self._ids_N[np.maximum(place_BT - 1, 0)].astype(np.int64)
        inputs_BT[plan.fresh_R[rows], 0] = self._start_id
        whole = count == place_BT.size
        mask_BT = None if whole else torch.from_numpy(step_T < plan.lengths_R[rows, None])
        return TextBatch(torch.from_numpy(inputs_BT), torch.from_numpy(targets_BT), mask_BT, count)

    def cut_on_device(self, plan: Plan, k: int, ids_N: Tensor) -> TextBatch:
        """The same from ids that lie on the device, without asking the host for anything."""
        if self._plan is not plan or self._rows is None:
            starts_R, lengths_R, fresh_R = map(torch.from_numpy, (plan.starts_R, plan.lengths_R, plan.fresh_R))
            self._plan = plan
            self._rows = (starts_R.to(self._device), lengths_R.to(self._device), fresh_R.to(self._device))
        rows, width, count = plan.rows(k), plan.width(k), plan.count(k)
        starts_B, lengths_B, fresh_B = (array[rows] for array in self._rows)
        step_T = torch.arange(width, device=self._device)
        place_BT = (starts_B[:, None] + step_T).clamp_(max=len(ids_N) - 1)
        targets_BT = ids_N[place_BT].long()
        inputs_BT = ids_N[(place_BT - 1).clamp_(min=0)].long()
        inputs_BT[:, 0] = torch.where(fresh_B, self._start_id, inputs_BT[:, 0])
        mask_BT = None if count == place_BT.numel() else step_T < lengths_B[:, None]
        return TextBatch(inputs_BT, targets_BT, mask_BT, count)


class TextEpochs:
    """The epochs of a text, as `learner.Epochs`: `plan(epoch)` says in which order, `blocks` cut it.

    `steps`: where blocks have drawn lengths, the length that the learning rate is meant for; a shorter block is learned
    from at a lower rate (Merity, Keskar and Socher 2018).
    """

    def __init__(self, blocks: Blocks, plan: Callable[[int], Plan], steps: int | None = None) -> None:
        self._blocks, self._plan, self._steps = blocks, plan, steps

    def epoch(self, number: int) -> TextEpoch:
        return TextEpoch(self._blocks, self._plan(number), self._steps)


@dataclass(frozen=True)
class TextEpoch:
    """One epoch of a text, as `learner.Epoch`."""

    blocks: Blocks
    plan: Plan
    steps: int | None = None

    @property
    def carried(self) -> bool:
        return self.plan.carried

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, k: int) -> TextBatch:
        block = self.blocks.cut(self.plan, k)
        return block if self.steps is None else replace(block, rate_factor=block.inputs_BT.shape[1] / self.steps)


_JITTER, _PARTITION, _LINES = range(3)
_SHORTEST = 5  # no jittered block is shorter
_BUCKET = 32  # so many batches of lines are sorted by length together


@dataclass(frozen=True)
class Plan:
    """The blocks of one epoch. Block k is the rows bounds[k] to bounds[k + 1], each a stretch of the text.

    `starts`: the first target of each row; `lengths`: how many targets it has; `fresh`: whether `<s>` comes before it
    (else the id before it). `carried`: whether a block goes on in the state that the block before it ended in.
    """

    starts_R: NDArray[np.int64]
    lengths_R: NDArray[np.int64]
    fresh_R: NDArray[np.bool_]
    bounds_K1: NDArray[np.int64]
    carried: bool

    def __len__(self) -> int:
        return len(self.bounds_K1) - 1

    def rows(self, k: int) -> slice:
        """The rows of block k."""
        return slice(int(self.bounds_K1[k]), int(self.bounds_K1[k + 1]))

    def width(self, k: int) -> int:
        """The steps of block k: its longest row."""
        return int(self.lengths_R[self.rows(k)].max())

    def count(self, k: int) -> int:
        """The targets of block k."""
        return int(self.lengths_R[self.rows(k)].sum())


def stream(tokens: int, batch: int, steps: int, *, jitter: bool = False, seed: int = 0, epoch: int = 0) -> Plan:
    """`batch` rows side by side through the whole text, `steps` at a time.

    Rows differ in length by one at most: only the last step of an epoch may lack some rows.
    """
    batch = min(batch, tokens)
    long, extra = divmod(tokens, batch)
    sizes_B = np.full(batch, long) + (np.arange(batch) < extra)
    first_B = np.concatenate([[0], np.cumsum(sizes_B)[:-1]])
    cuts = _cuts(int(sizes_B[0]), steps, np.random.default_rng([seed, epoch, _JITTER]) if jitter else None)
    starts_KB = first_B[None, :] + cuts[:-1, None]
    lengths_KB = np.clip(sizes_B[None, :] - cuts[:-1, None], 0, np.diff(cuts)[:, None])
    bounds_K1 = np.arange(len(cuts)) * batch
    return Plan(starts_KB.ravel(), lengths_KB.ravel(), starts_KB.ravel() == 0, bounds_K1, carried=True)


def _cuts(length: int, steps: int, rng: np.random.Generator | None) -> NDArray[np.int64]:
    """Where blocks begin, and the end. Jittered: one in twenty is about half as long, all vary by some five steps."""
    if rng is None:
        return np.append(np.arange(0, length, steps), length)
    cuts = [0]
    while cuts[-1] < length:
        about = steps if rng.random() < 0.95 else steps / 2
        cuts.append(min(length, cuts[-1] + max(_SHORTEST, int(rng.normal(about, 5)))))
    return np.array(cuts)


def partition(tokens: int, batch: int, steps: int, *, seed: int = 0, epoch: int = 0) -> Plan:
    """Pieces of `steps` targets from a random offset of less than that, in random order; what is left over waits."""
    steps = min(steps, tokens)
    rng = np.random.default_rng([seed, epoch, _PARTITION])
    offset = int(rng.integers(0, min(steps - 1, tokens - steps), endpoint=True))
    starts_R = offset + steps * rng.permutation((tokens - offset) // steps)
    bounds_K1 = np.append(np.arange(0, len(starts_R), batch), len(starts_R))
    return Plan(starts_R, np.full(len(starts_R), steps), starts_R == 0, bounds_K1, carried=False)


def lines(
    ids: IdArray, line_end: int, batch: int, longest: int, *, shuffle: bool = True, seed: int = 0, epoch: int = 0
) -> Plan:
    """Each line a row; a line of more than `longest` tokens is cut, and its later pieces begin with the id before."""
    ends = np.flatnonzero(np.asarray(ids) == line_end) + 1
    if not len(ends) or ends[-1] != len(ids):
        ends = np.append(ends, len(ids))
    first = np.concatenate([[0], ends[:-1]])
    pieces = -(-(ends - first) // longest)
    of_line = np.repeat(np.arange(len(first)), pieces)
    piece = np.arange(len(of_line)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts_R = first[of_line] + piece * longest
    lengths_R = np.minimum(ends[of_line] - starts_R, longest)
    order, bounds_K1 = _bucket_by_length(
        lengths_R, batch, np.random.default_rng([seed, epoch, _LINES]) if shuffle else None
    )
    return Plan(starts_R[order], lengths_R[order], (piece == 0)[order], bounds_K1, carried=False)


def _bucket_by_length(
    lengths_R: NDArray[np.int64], batch: int, rng: np.random.Generator | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An order of rows, and the bounds of batches in it, in which a batch holds rows of about one length.

    Shuffled, the rows of some batches at a time are sorted by length, and the batches shuffled again.
    """
    rows = len(lengths_R)
    order = np.arange(rows) if rng is None else rng.permutation(rows)
    span = rows if rng is None else batch * _BUCKET
    order = np.concatenate(
        [part[np.argsort(lengths_R[part], kind="stable")] for part in np.split(order, range(span, rows, span))]
    )
    batches = np.split(order, range(batch, rows, batch))
    if rng is not None:
        batches = [batches[k] for k in rng.permutation(len(batches))]
    return np.concatenate(batches), np.cumsum([0, *(len(rows) for rows in batches)])


def plans(ids: IdArray, training: TrainingSettings, line_end: int | None) -> Callable[[int], Plan]:
    """The order of each epoch, as the settings ask for it."""
    batch, steps, seed = training.rows, training.steps or 1, training.seed
    if training.batching == "lines" and line_end is not None:
        return lambda epoch: lines(ids, line_end, batch, steps, seed=seed, epoch=epoch)
    if training.batching == "partition":
        return lambda epoch: partition(len(ids), batch, steps, seed=seed, epoch=epoch)
    return lambda epoch: stream(len(ids), batch, steps, jitter=bool(training.jitter), seed=seed, epoch=epoch)
