"""The contracts of networks: the loss over a batch of examples that the training loop takes, and encoders.

An encoder turns sources of any kind (sentences, arrays of numbers, pictures) into a `Memory`.

Few shapes for many batches: a training step is recorded once for each shape, as a CUDA graph, and then replayed.
Sentences come in as many shapes as there are lengths. Filled up to the next of a few lengths (`filled_length`), and to
the most rows that a batch of that length can have (`filled_rows`), they come in one or two dozen. Padding
counts for nothing.

Shapes: B sources or rows, S places of a source, H numbers of a place or features, T steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor

from thereafter.errors import ShapeError
from thereafter.models.quiet import SharedNetwork

PAD, UNKNOWN = 0, 1
"""The ids that every lexicon of a task begins with."""
IGNORED = -100
"""The target of positions that are ignored: torch's own number."""
CELLS = ("elman", "gru", "lstm")
"""Cells that read a sentence in both directions."""


def read_as_unknown(words_BT: Tensor, share: float) -> Tensor:
    """The words with a share of them drawn to be the unknown one, so that it is learned; padding is unchanged."""
    drawn_BT = torch.rand(words_BT.shape, device=words_BT.device) < share
    return words_BT.masked_fill(drawn_BT & (words_BT != PAD), UNKNOWN)


def inside(lengths_B: Tensor, x_BT: Tensor) -> Tensor:
    """True where a row of an array [B, T, ...] is real, [B, T], on its device."""
    return torch.arange(x_BT.shape[1], device=x_BT.device) < lengths_B.to(x_BT.device)[:, None]


class Batched(Protocol):
    """Examples as tensors."""

    def to(self, device: torch.device) -> Self:
        """The same on another device."""


@runtime_checkable
class Recordable(Protocol):
    """Examples of one shape whose loss asks the device for nothing: a step over them can become a CUDA graph
    (`training/graphs.py`).

    A recorded step repeats whatever is not a tensor as it was when recorded: a network whose loss depends on
    `TaskNet.trained` must not be given such batches.
    """

    def places(self) -> dict[str, Tensor] | None:
        """The tensors the batch is made of; None where one of them is missing."""

    def over(self, places: Mapping[str, Tensor]) -> Self:
        """The same batch over other tensors of the same shapes."""


@runtime_checkable
class Fillable(Recordable, Protocol):
    """Examples of any lengths, which can be filled up to one of a few shapes (`filled_length`)."""

    def filled(self, most: int, places: int) -> Self:
        """The same examples in the least of those shapes; `most` and `places` are the limits of all batches."""


X_contra = TypeVar("X_contra", contravariant=True)


class TaskNet(SharedNetwork, ABC, Generic[X_contra]):
    """A network that learns from whole examples: its loss is `nats`, the sum of -log p of all targets of a batch.

    `trained`: the share of its training that is done, which the loop sets before every step.
    """

    trained: float = 0.0

    @property
    def recordable(self) -> bool:
        """Whether a step of its training can be recorded: what is computed depends on weights and batch alone."""
        return True

    @abstractmethod
    def nats(self, batch: X_contra) -> Tensor:
        """The sum of -log p of the targets; with gradients, and dropout while training."""

    @property
    def device(self) -> torch.device:
        return next(chain(self.parameters(), self.buffers())).device

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """While many batches are evaluated with the same weights: what is computed for one may serve the next."""
        yield


@dataclass(frozen=True)
class Memory:
    """B encoded sources: all that a decoder ever sees of them.

    `h_BSH`: a vector for each place; `inside_BS`: true where a place is real, and one is in every source. `summary`:
    one encoding of the whole source, by name and with the sources as first axis: a recurrent decoder begins with
    `h` (and `c`, of an LSTM), [B, layers, H]. `place_BS`: where each place stands in the source, if they were read in
    another order.
    """

    h_BSH: Tensor
    inside_BS: Tensor
    summary: Mapping[str, Tensor] = field(default_factory=dict)
    place_BS: Tensor | None = None

    def __post_init__(self) -> None:
        if self.h_BSH.dim() != 3 or self.inside_BS.shape != self.h_BSH.shape[:2] or self.inside_BS.dtype != torch.bool:
            raise ShapeError(
                f"a memory has vectors of the shape {tuple(self.h_BSH.shape)} and {self.inside_BS.dtype} of the shape "
                f"{tuple(self.inside_BS.shape)} that says where it is real; expected [sources, places, numbers], and "
                "true or false for [sources, places]; try inside = torch.ones(h.shape[:2], dtype=torch.bool)"
            )
        for name, tensor in self.summary.items():
            if len(tensor) != len(self):
                raise ShapeError(
                    f"the summary {name!r} has the shape {tuple(tensor.shape)} beside {len(self)} sources; "
                    "expected the sources as its first axis"
                )

    def __len__(self) -> int:
        return len(self.h_BSH)


Batch = TypeVar("Batch", contravariant=True)


class Encoder(Protocol[Batch]):
    """Reads the sources of a batch, of whichever kind."""

    def encode(self, batch: Batch) -> Memory:
        """What a decoder is given: `decoder.given(encoder.encode(batch))` is a `SequenceModel`."""


_FINE = 8
"""Number of multiples of a step that come first; after them there are four lengths per doubling."""


def filled_length(length: int, step: int) -> int:
    """The next of `step`, 2 `step`, ... 8 `step`, 10, 12, 14, 16, 20, ...: beyond 8 steps at most a quarter is filling.

    >>> [filled_length(n, 4) for n in (1, 4, 9, 32, 33, 41, 65)]
    [4, 4, 12, 32, 40, 48, 80]
    """
    width = _width(length, step)
    return -(-length // width) * width


def filled_rows(rows: int, longest: int, step: int, most: int, places: int) -> int:
    """How many rows batches of this length are filled up to: the most that one can have, as a multiple of 8.

    A batch has at most `most` rows, and rows times its longest at most `places` (`tasks/batching.py`); the shortest
    one of the same filled length has the most of them.

    >>> filled_rows(3, 14, 8, most=32, places=1280), filled_rows(20, 61, 8, most=32, places=1280)
    (32, 24)
    """
    shortest = filled_length(longest, step) - _width(longest, step) + 1
    least = max(rows, min(most, places // shortest))
    return -(-least // 8) * 8 if least > 8 else least


def filled(array: Tensor, shape: Sequence[int], value: int = 0) -> Tensor:
    """An array in the corner of a larger one."""
    larger = array.new_full(tuple(shape), value)
    larger[tuple(slice(size) for size in array.shape)] = array
    return larger


def counted(rows: int, of: int) -> Tensor:
    """True for the first `rows` of `of` rows, [B]."""
    return torch.arange(of) < rows


def _width(length: int, step: int) -> int:
    width = step
    while length > _FINE * width:
        width *= 2
    return width
