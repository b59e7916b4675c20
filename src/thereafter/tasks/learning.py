"""Examples in the form the training loop takes: batches of about one length, and a network that learns from them.

Shapes: R examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from thereafter.models.state import NeuralState
from thereafter.models.task_net import Batched, Recordable, TaskNet
from thereafter.tasks import batching
from thereafter.tasks.codecs import Codecs
from thereafter.tasks.task import AnyTask
from thereafter.training.learner import Loss
from thereafter.training.settings import TrainingSettings


@dataclass(frozen=True)
class ExampleBatch:
    """Examples as tensors with the number of their targets; see `learner.Batch`."""

    made: Batched
    rows: int
    count: int
    rate_factor: float = 1.0

    def places(self) -> dict[str, Tensor] | None:
        # sentences come in as many shapes as there are lengths: none is met often enough to be recorded
        return self.made.places() if isinstance(self.made, Recordable) else None

    def over(self, places: Mapping[str, Tensor]) -> Self:
        return replace(self, made=self.made.over(places)) if isinstance(self.made, Recordable) else self


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
    ) -> None:
        self.task, self.codecs, self.examples = task, codecs, examples
        self.device = torch.device(training.device)
        self._lengths_R = task.lengths(examples, codecs)
        self._most, self._seed, self._shuffle = int(training.batch or 1), training.seed, shuffle
        self._places = self._most * int(training.steps or 1)
        self._ahead: tuple[batching.Batches, int, Future[ExampleBatch]] | None = None
        self._maker = ThreadPoolExecutor(1, "batches") if self.device.type != "cpu" else None

    def __len__(self) -> int:
        return len(self.examples)

    def epoch(self, number: int) -> ExampleEpoch:
        plan = batching.batches(
            self._lengths_R, self._most, self._places, seed=self._seed, epoch=number, shuffle=self._shuffle
        )
        return ExampleEpoch(self, plan)

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
    plan: batching.Batches

    @property
    def carried(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, k: int) -> ExampleBatch:
        made = self.of.taken(self, k)
        return replace(made, made=made.made.to(self.of.device))

    def make(self, k: int) -> ExampleBatch:
        """Batch k in the host's memory."""
        of = self.of
        chosen = [of.examples[i] for i in self.plan.examples(k)]
        return ExampleBatch(of.task.batch(chosen, of.codecs), len(chosen), of.task.targets(chosen, of.codecs))


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


class HeldOut:
    """Examples that training does not see, as `learner.Heldout`: the mean -log p of their targets."""

    def __init__(self, net: TaskNet[Batched], examples: Examples) -> None:
        self._net, self._epoch = net, examples.epoch(0)

    def measure(self) -> float:
        total, count = 0.0, 0
        with self._net.quietly(), self._net.remembering():
            for k in range(len(self._epoch)):
                batch = self._epoch.batch(k)
                total, count = total + float(self._net.nats(batch.made)), count + batch.count
        return total / max(1, count)
