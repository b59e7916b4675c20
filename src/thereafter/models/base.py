"""The contract of everything that reads from left to right: n-grams, windows, recurrent nets, Transformers.

Shapes: B rows, T steps, V words that can be predicted.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError

Logs = NDArray[np.floating[Any]]
Ids = NDArray[np.integer[Any]]


def checked_tokens(tokens_BT: Ids, vocabulary_size: int) -> Ids:
    """Tokens as a model takes them: [rows, steps], each one of its vocabulary."""
    tokens = np.asarray(tokens_BT)
    if tokens.ndim != 2:
        raise OptionError(f"tokens have {tokens.ndim} axes; expected [rows, steps]")
    if tokens.size and not (tokens.min() >= 0 and tokens.max() < vocabulary_size):
        raise OptionError(
            f"token ids run from {tokens.min()} to {tokens.max()}; expected 0 to {vocabulary_size - 1}; "
            "try encoding with the model's own tokenizer"
        )
    return tokens


NOT_NORMALISED = (
    "the scores are not normalised: they are no probabilities, so they have no perplexity and no bits per byte"
)
"""What is said wherever such a score would stand beside others."""


def is_normalised(model: object) -> bool:
    """Whether a model gives probabilities, which sum to 1 after every context; one that does not has `proper` False."""
    return bool(getattr(model, "proper", True))


class State(Protocol):
    """What a model remembers of what it has read. A value: stepping returns a new one and leaves the old as it was."""

    def select(self, index: Ids) -> Self:
        """The rows `index`, in that order, as a beam search reorders its hypotheses."""

    def key(self) -> Hashable:
        """Equal keys, equal futures; models with continuous states raise TypeError."""


S = TypeVar("S")


class SequenceModel(Protocol[S]):
    """Reads tokens, predicts the next one.

    `<s>` is fed by `start`, so the first token is predicted like any other. Feeding a sequence token by token gives the
    same numbers as the whole pass; a contract suite tests it for every registered model.
    """

    vocabulary_size: int

    def start(self, batch: int) -> S:
        """The state of `batch` rows that have read `<s>` and nothing else."""

    def predict(self, state: S) -> Logs:
        """log p of every next token, [B, V]."""

    def step(self, token_B: Ids, state: S) -> tuple[Logs, S]:
        """Read one token a row; log p of every token after it [B, V], and the new state."""

    def log_probs(self, tokens_BT: Ids, state: S) -> tuple[Logs, S]:
        """log p of each token that came, [B, T], and the state after the last."""

    def record(self, tokens_T: Ids, state: S) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """What a trace shows of this model over one row: `{field: (axis names, array)}`, first axis "step"."""
