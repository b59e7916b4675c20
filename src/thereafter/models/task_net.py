"""What networks beyond the next word share: a loss over a batch of examples, in the form the training loop takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from thereafter.layers.counting import count_parameters
from thereafter.models.quiet import Askers, Evaluating, Quietly

PAD, UNKNOWN = 0, 1
"""The ids that every lexicon of a task begins with."""
IGNORED = -100
"""The target of what counts for nothing: torch's own number."""
CELLS = ("elman", "gru", "lstm")
"""Cells that read a sentence in both directions."""


def read_as_unknown(words_BT: Tensor, share: float) -> Tensor:
    """The words with a share of them drawn to be the unknown one, so that it is learned; padding stays what it is."""
    drawn_BT = torch.rand(words_BT.shape, device=words_BT.device) < share
    return words_BT.masked_fill(drawn_BT & (words_BT != PAD), UNKNOWN)


class Batched(Protocol):
    """Examples as tensors."""

    def to(self, device: torch.device) -> Self:
        """The same on another device."""


@runtime_checkable
class Recordable(Protocol):
    """Examples of one shape whose loss asks the device for nothing: a step over them can become a CUDA graph
    (`training/graphs.py`).

    A recorded step repeats what is no tensor as it was when it was recorded: a network whose loss depends on
    `TaskNet.trained` must not be given such batches.
    """

    def places(self) -> dict[str, Tensor] | None:
        """The tensors the batch is made of; None where one of them is missing."""

    def over(self, places: Mapping[str, Tensor]) -> Self:
        """The same batch over other tensors of the same shapes."""


@runtime_checkable
class Fillable(Recordable, Protocol):
    """Examples of any lengths, which can be filled up to one of a few shapes (`shapes.py`)."""

    def filled(self, most: int, places: int) -> Self:
        """The same examples in the least of those shapes; `most` and `places` are the limits of all batches."""


X_contra = TypeVar("X_contra", contravariant=True)


class TaskNet(nn.Module, ABC, Generic[X_contra]):
    """A network that learns from whole examples: its loss is `nats`, the sum of -log p of all targets of a batch.

    `trained`: the share of its training that is done, which the loop sets before every step.
    """

    trained: float = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._askers = Askers()

    @property
    def recordable(self) -> bool:
        """Whether a step of its training can be recorded: what is computed depends on weights and batch alone."""
        return True

    @abstractmethod
    def nats(self, batch: X_contra) -> Tensor:
        """The sum of -log p of the targets; with gradients, and dropout while training."""

    def weights_by_layer(self) -> list[list[str]]:
        """The names of its weights, a list for each layer, the head's first; one list where it is not divided."""
        return [[name for name, _ in self.named_parameters()]]

    def parameters_count(self) -> int:
        """How many numbers it learns, tied ones counted once."""
        return count_parameters(self)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """While many batches are answered with the same weights: what is worked out for one may serve the next."""
        yield

    def quietly(self) -> Quietly:
        """A block without gradients and without dropout, for this thread and any other."""
        return Quietly(self, self._askers)

    def evaluating(self) -> Evaluating:
        """A block without dropout, in which gradients may be taken."""
        return Evaluating(self, self._askers)
