"""Examples in the form the training loop takes: batches of about one length, and a network that learns from them.

The batches are a pure function of lengths, settings, seed and epoch, as those of a text are (`training/blocks.py`): a
position is all that a resumed run needs. One very long example makes a batch of its own and cannot make all others
long; padding counts as steps.

Shapes: R examples, K batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.models.quiet import NeuralState
from thereafter.models.task_net import Batched, Fillable, Recordable, TaskNet
from thereafter.tasks.task import AnyTask, Codecs
from thereafter.training.learner import Loss
from thereafter.training.settings import TrainingSettings

_EXAMPLES = 17  # tells these draws from others of the same seed
_BUCKET = 32  # so many batches are sorted by length together


@dataclass(frozen=True)
class Batches:
    """The batches of one epoch; batch k is the examples order[bounds[k] : bounds[k + 1]]."""

    order_R: NDArray[np.int64]
    bounds_K1: NDArray[np.int64]
    carried: bool = False
    """Nothing is carried from batch to batch."""

    def __len__(self) -> int:
        return len(self.bounds_K1) - 1

    def examples(self, k: int) -> NDArray[np.int64]:
        """The examples of batch k."""
        return self.order_R[self.bounds_K1[k] : self.bounds_K1[k + 1]]


def batches(
    lengths_R: NDArray[np.int64], most: int, places: int, *, seed: int = 0, epoch: int = 0, shuffle: bool = True
) -> Batches:
    """At most `most` examples a batch, and rows times the longest at most `places` (but one example always goes).

    >>> plan = batches(np.array([3, 9, 2, 3]), most=3, places=9, shuffle=False)
    >>> [plan.examples(k).tolist() for k in range(len(plan))]
    [[2, 0, 3], [1]]
    """
    rng = np.random.default_rng([seed, epoch, _EXAMPLES]) if shuffle else None
    rows = len(lengths_R)
    order = np.arange(rows) if rng is None else rng.permutation(rows)
    span = rows if rng is None else most * _BUCKET
    pieces = np.split(order, range(span, rows, span)) if rows else []
    chosen = [
        batch
        for part in pieces
        for batch in _cut(part[np.argsort(lengths_R[part], kind="stable")], lengths_R, most, places)
    ]
    if rng is not None:
        chosen = [chosen[k] for k in rng.permutation(len(chosen))]
    bounds = np.cumsum([0, *(len(batch) for batch in chosen)])
    return Batches(np.concatenate(chosen) if chosen else np.empty(0, np.int64), bounds)


def _cut(sorted_R: NDArray[np.int64], lengths_R: NDArray[np.int64], most: int, places: int) -> list[NDArray[np.int64]]:
    """Batches of examples that come sorted by length."""
    chosen, begin = [], 0
    for end in range(1, len(sorted_R) + 1):
        longer = end == len(sorted_R) or (end + 1 - begin) * int(lengths_R[sorted_R[end]]) > places
        if longer or end - begin == most:
            chosen.append(sorted_R[begin:end])
            begin = end
    return chosen


@dataclass(frozen=True)
class TensorBatch:
    """To inherit from, as a dataclass of tensors with an example a row; one that is not known is None.

    See `task_net.Recordable`. Tensors `on_host` stay where the host can read them.
    """

    on_host: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with each of its tensors changed alike."""
        return replace(self, **{name: change(tensor) for name, tensor in self.tensors().items()})

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        return self.each(lambda tensor: tensor.to(device, non_blocking=device.type == "cuda"))

    def places(self) -> dict[str, Tensor] | None:
        """The tensors it is made of; None where one of them is not known."""
        return None if any(part is None for part in vars(self).values()) else self.tensors()

    def over(self, places: Mapping[str, Tensor]) -> Self:
        """The same over other tensors of the same shapes."""
        return replace(self, **places)

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by name, without those that stay on the host and those that are not known."""
        parts = vars(self).items()
        return {name: part for name, part in parts if isinstance(part, Tensor) and name not in self.on_host}


@dataclass(frozen=True)
class FillableBatch(TensorBatch):
    """Examples of any lengths; those that are filled up to a shape can be recorded. See `task_net.Fillable`."""

    on_host: ClassVar[tuple[str, ...]] = ("lengths_B",)

    @property
    def recorded(self) -> bool:
        """Whether it is filled up to a shape of which a step may be recorded as a graph."""
        return False

    def places(self) -> dict[str, Tensor] | None:
        return self.tensors() if self.recorded else None

    def tensors(self) -> dict[str, Tensor]:
        """As in any batch; where a graph reads them, the host need not."""
        parts = vars(self).items()
        return {name: part for name, part in parts if part is not None and (self.recorded or name not in self.on_host)}


_COUNT = "count"  # among the places of a batch
MEASURED_AT_ONCE = 4
"""So many times as many examples are measured at once on a GPU as learned from: nothing is kept for a backward pass."""


@dataclass(frozen=True)
class ExampleBatch:
    """Examples as tensors with the number of their targets; see `learner.Batch`."""

    made: Batched
    rows: int
    count: int
    rate_factor: float = 1.0
    recorded_count: Tensor | None = None
    """The same as `count`, on the device."""

    def mean(self, total: Tensor) -> Tensor:
        return total / (self.count if self.recorded_count is None else self.recorded_count)

    def places(self) -> dict[str, Tensor] | None:
        places = self.made.places() if isinstance(self.made, Recordable) else None
        if places is None or self.recorded_count is None:
            return None
        return {**places, _COUNT: self.recorded_count}

    def over(self, places: Mapping[str, Tensor]) -> Self:
        if not isinstance(self.made, Recordable):
            return self
        made = self.made.over({name: place for name, place in places.items() if name != _COUNT})
        return replace(self, made=made, recorded_count=places[_COUNT])

    def pinned(self) -> Self:
        """In memory that a GPU reads by itself, while the host goes on."""
        count = self.recorded_count
        return replace(self, made=_pinned(self.made), recorded_count=None if count is None else count.pin_memory())

    def to(self, device: torch.device) -> Self:
        count = self.recorded_count
        moved = None if count is None else count.to(device, non_blocking=True)
        return replace(self, made=self.made.to(device), recorded_count=moved)


class Examples:
    """All examples of a part, as `learner.Epochs`."""

    def __init__(
        self,
        task: AnyTask,
        codecs: Codecs,
        training: TrainingSettings,
        examples: Sequence[object],
        *,
        shuffle: bool = True,
        recordable: bool = False,
    ) -> None:
        """`recordable`: steps over them may be recorded as CUDA graphs, so batches are filled up to a few shapes."""
        self.task, self.codecs, self.examples = task, codecs, examples
        self.device = torch.device(training.device)
        self._lengths_R = task.lengths(examples, codecs)
        self._most, self._seed, self._shuffle = int(training.batch or 1), training.seed, shuffle
        self._places = self._most * int(training.steps or 1)
        self._pins = self.device.type == "cuda" and torch.cuda.is_available()
        self._recorded = recordable and training.graphs and self.device.type == "cuda"
        self._ahead: tuple[Batches, int, Future[ExampleBatch]] | None = None
        self._maker = ThreadPoolExecutor(1, "batches") if self.device.type != "cpu" else None

    def __len__(self) -> int:
        return len(self.examples)

    def epoch(self, number: int) -> ExampleEpoch:
        plan = batches(self._lengths_R, self._most, self._places, seed=self._seed, epoch=number, shuffle=self._shuffle)
        return ExampleEpoch(self, plan)

    def make(self, chosen: Sequence[object]) -> ExampleBatch:
        """A batch in the host's memory."""
        made = self.task.batch(chosen, self.codecs)
        if self._recorded and isinstance(made, Fillable):
            made = made.filled(self._most, self._places)
        count = self.task.targets(chosen, self.codecs)
        # without it a batch has no places, and a step over it is not recorded
        recorded_count = torch.tensor(float(count)) if self._recorded else None
        batch = ExampleBatch(made, len(chosen), count, recorded_count=recorded_count)
        return batch.pinned() if self._pins else batch

    def taken(self, epoch: ExampleEpoch, k: int) -> ExampleBatch:
        """Batch k in the host's memory. Where a GPU computes, a thread makes the batch after it meanwhile."""
        if self._maker is None:
            return epoch.make(k)
        ahead = self._ahead
        batch = ahead[2].result() if ahead and ahead[0] is epoch.plan and ahead[1] == k else epoch.make(k)
        # its plan, not the epoch, which holds these examples: they and the thread end with the training
        self._ahead = (epoch.plan, k + 1, self._maker.submit(epoch.make, k + 1)) if k + 1 < len(epoch) else None
        return batch


@dataclass(frozen=True, eq=False)
class ExampleEpoch:
    """The batches of one epoch, as `learner.Epoch`."""

    of: Examples
    plan: Batches

    @property
    def carried(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, k: int) -> ExampleBatch:
        return self.of.taken(self, k).to(self.of.device)

    def make(self, k: int) -> ExampleBatch:
        """Batch k in the host's memory."""
        return self.of.make([self.of.examples[i] for i in self.plan.examples(k)])


class ExampleLearner:
    """A network of a task, as `learner.Learner`. Its targets are tags, labels, numbers: no perplexity is asked for."""

    unit = "targets"

    def __init__(self, net: TaskNet[Batched]) -> None:
        self._net = net

    @property
    def module(self) -> TaskNet[Batched]:
        return self._net

    def fresh(self, rows: int) -> NeuralState:
        return NeuralState({})  # every example begins anew

    def loss(self, batch: ExampleBatch, state: NeuralState) -> Loss:
        nats = self._net.nats(batch.made)
        return Loss(nats, nats.new_zeros((), dtype=torch.float32), state)

    def trained(self, share: float) -> None:
        self._net.trained = share

    def describe(self, loss: float) -> str:
        return ""

    def figures(self, loss: float) -> dict[str, float]:
        return {}


def _pinned(made: Batched) -> Batched:
    """The same examples, where they are a dataclass of tensors, in memory that a GPU reads by itself."""
    if not is_dataclass(made):
        return made
    values = {field.name: getattr(made, field.name) for field in fields(made)}
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    # one number that stands for many is not copied out
    whole = {name: tensor for name, tensor in tensors.items() if tensor.is_contiguous()}
    return replace(made, **{name: tensor.pin_memory() for name, tensor in whole.items()})


class HeldOut:
    """Examples that training does not see, as `learner.Heldout`: the mean -log p of their targets."""

    def __init__(self, net: TaskNet[Batched], examples: Examples) -> None:
        self._net, self._epoch = net, examples.epoch(0)

    @classmethod
    def of(
        cls,
        net: TaskNet[Batched],
        task: AnyTask,
        codecs: Codecs,
        training: TrainingSettings,
        examples: Sequence[object],
    ) -> Self:
        """These examples, in the order of their lengths; on a GPU several times as many at once as in training."""
        if training.device != "cpu":
            training = replace(training, batch=MEASURED_AT_ONCE * int(training.batch or 1))
        return cls(net, Examples(task, codecs, training, examples, shuffle=False))

    def measure(self) -> float:
        total, count = 0.0, 0
        with self._net.quietly(), self._net.remembering():
            for k in range(len(self._epoch)):
                batch = self._epoch.batch(k)
                total, count = total + float(self._net.nats(batch.made)), count + batch.count
        return total / max(1, count)
