"""The contracts of networks: the loss over a batch of examples that the training loop takes, encoders, text models.

An encoder turns sources of any kind (sentences, arrays of numbers, pictures) into a `Memory`. `Network` is what the
code that reads a text with a neural model uses of it: reader, body and head.

Shapes: B sources or rows, S places of a source, H numbers of a place or features, T steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, NotRequired, Protocol, Self, TypedDict, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from thereafter.errors import ShapeError
from thereafter.layers.heads import WordHead
from thereafter.layers.recurrent import count_parameters
from thereafter.models.base import Ids
from thereafter.models.look import Look, Observer
from thereafter.models.quiet import Askers, Evaluating, Quietly
from thereafter.models.state import NeuralState

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


class TextFacts(TypedDict):
    """What every neural model needs to know of its text, beside its settings."""

    vocabulary_size: int
    context: str
    line_end: int | None
    counts: NotRequired[Sequence[int] | None]


class Network(Protocol):
    """Tokens to features, and a head over words. `<s>` has the id `vocabulary_size`."""

    vocabulary_size: int
    restart: int | None
    """The token after which the state begins anew, where there is one."""

    @property
    def head(self) -> WordHead:
        """Features to the distribution of the next word."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    def fresh(self, batch: int) -> NeuralState:
        """The state of rows that have read nothing, not even `<s>`."""

    def begin(self, batch: int) -> NeuralState:
        """The state of rows that have read `<s>` and nothing else."""

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, Tensor | None, NeuralState]:
        """Features before the last dropout, the word vectors' matrix for a tied head (or None), the new state."""

    def look(self, tokens_BT: Tensor, state: NeuralState, *, attention: bool = False) -> Look:
        """What it does with the tokens, layer by layer."""

    def advance(self, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
        """Features after each token, and the state with the last of them."""

    def known(self, state: NeuralState) -> Tensor:
        """The features the next prediction is made of."""

    def stack(self, states: Sequence[NeuralState]) -> NeuralState:
        """The rows of several states one below the other."""

    def checked(self, tokens_BT: Ids) -> Tensor:
        """Tokens as a tensor on its device."""

    def quietly(self) -> Quietly:
        """A block without gradients and without dropout."""
