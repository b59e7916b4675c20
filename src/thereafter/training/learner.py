"""The four contracts by which the training loop knows whatever it trains.

A `Learner` gives the loss of a `Batch`; `Epochs` lay the batches of an epoch out, as a pure function of seed and epoch,
so that a position is two numbers; a `Heldout` set gives the figure by which the best weights are kept. The learner also
says what its targets are called and how a loss is described: "ppl 41.1" of a text, "nats" of a series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from torch import Tensor, nn

from thereafter.models.quiet import NeuralState
from thereafter.training.weights import LayerNames


class Batch(Protocol):
    """What one step learns from."""

    @property
    def rows(self) -> int:
        """How many sequences lie side by side."""

    @property
    def count(self) -> int:
        """The targets: what the total of a loss is divided by."""

    @property
    def rate_factor(self) -> float:
        """What the learning rate is multiplied by: 1.0 but for batches of drawn lengths."""

    def mean(self, total: Tensor) -> Tensor:
        """A total divided by `count`, which in a recorded step lies on the device."""

    def places(self) -> dict[str, Tensor] | None:
        """The tensors it is made of, where a step over them can be recorded as a CUDA graph; else None."""

    def over(self, places: Mapping[str, Tensor]) -> Self:
        """The same batch over other tensors of the same shapes."""


@dataclass(frozen=True)
class Loss:
    """The loss of a batch: `total / count + extra` is to become small.

    `total` is the sum over all targets (-log p, in nats, of whatever is predicted), `extra` what regularisation adds to
    the mean. `state` is what the next batch of the same rows begins with.
    """

    total: Tensor
    extra: Tensor
    state: NeuralState


B = TypeVar("B", bound=Batch)
B_co = TypeVar("B_co", bound=Batch, covariant=True)
B_contra = TypeVar("B_contra", bound=Batch, contravariant=True)


class Learner(Protocol[B_contra]):
    """What learns."""

    unit: str
    """What a target is called where speed is shown: "tok", "targets"."""

    @property
    def module(self) -> nn.Module:
        """Whose weights are trained; all on one device."""

    def fresh(self, rows: int) -> NeuralState:
        """The state of rows that have read nothing; an empty one where nothing is ever carried on."""

    def loss(self, batch: B_contra, state: NeuralState) -> Loss:
        """The loss with gradients, dropout included while the module is training."""

    def trained(self, share: float) -> None:
        """Called before every step with the share of the training that is done."""

    def describe(self, loss: float) -> str:
        """A mean loss as a user reads it, after the word "loss" or "validation"; empty where the number is enough."""

    def figures(self, loss: float) -> dict[str, float]:
        """What else stands in the log beside a validation loss."""


class Epoch(Protocol[B_co]):
    """The batches of one epoch, in order."""

    @property
    def carried(self) -> bool:
        """Whether the rows of a batch go on where those of the batch before it ended."""

    def __len__(self) -> int: ...

    def batch(self, k: int) -> B_co:
        """Batch k, on the device that computes."""


class Epochs(Protocol[B_co]):
    """All that is learned from: epoch after epoch, each a pure function of its number and the seed."""

    def epoch(self, number: int) -> Epoch[B_co]: ...


class Heldout(Protocol):
    """What training does not see."""

    def measure(self) -> float:
        """The mean loss of a target under the weights as they are; draws no random numbers, leaves all as it was."""


@dataclass(frozen=True)
class Course(Generic[B]):
    """What learns, what from, and what it is validated on. `facts` are saved beside the weights. `layers`: see
    `weights.LayerNames`."""

    learner: Learner[B]
    epochs: Epochs[B]
    heldout: Heldout
    facts: Mapping[str, str] = field(default_factory=dict)
    layers: LayerNames = ()
