"""What the code that reads a text with a neural model uses of it: one protocol over reader, body and head.

Shapes: B rows, T steps, H features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Protocol, TypedDict

import torch
from torch import Tensor

from thereafter.layers.heads import WordHead
from thereafter.models.base import Ids
from thereafter.models.look import Look, Observer
from thereafter.models.quiet import Quietly
from thereafter.models.state import NeuralState


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
