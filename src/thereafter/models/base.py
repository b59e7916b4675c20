"""The contract of everything that reads from left to right: n-grams, windows, recurrent nets, Transformers.

Shapes: B rows, T steps, V words that can be predicted, E numbers of a word vector, H features.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError

Logs = NDArray[np.floating]
Ids = NDArray[np.integer]
Floats = NDArray[np.float32]
Fields = dict[str, tuple[tuple[str, ...], NDArray[np.number]]]
"""What is recorded of a model: `{field: (axis names, array)}`."""


_NUMBERS_AT_ONCE = 1 << 21


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


def rows_at_once(vocabulary_size: int) -> int:
    """How many predictions over a vocabulary are in memory at once: those of a whole text never exist."""
    return max(1, min(1024, _NUMBERS_AT_ONCE // max(1, vocabulary_size)))


NOT_NORMALISED = (
    "the scores are not normalised: they are not probabilities, so they have no perplexity and no bits per byte"
)
"""The message wherever such a score would be compared with others."""


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a model that need no run of it.

    `restart`: the token after which the state begins anew, None if the state is carried over line ends. `normalised`:
    its outputs are probabilities, which sum to 1 after every context. `parameters`: how many numbers it has learned,
    tied ones counted once; those of an n-gram are the probabilities it stores. `features`: the size of the features of
    its next prediction; 0 if it has none. `differentiable`: it is a neural model, and can be trained further by
    gradients.
    """

    vocabulary_size: int
    parameters: int
    restart: int | None = None
    normalised: bool = True
    features: int = 0
    differentiable: bool = False

    @property
    def context(self) -> str:
        """`line` if every line starts afresh, else `stream`."""
        return "stream" if self.restart is None else "line"


class State(Protocol):
    """The state of a model after some tokens. A value: a step returns a new one, the old one is unchanged."""

    def select(self, index: Ids) -> Self:
        """The rows `index`, in that order, as a beam search reorders its hypotheses."""

    def key(self) -> Hashable:
        """Equal keys, equal futures; models with continuous states raise TypeError."""


S = TypeVar("S", bound=State)


class SequenceModel(Protocol[S]):
    """Reads tokens, predicts the next one.

    `<s>` is fed by `start`, so the first token is predicted like any other. Feeding a sequence token by token gives the
    same numbers as the whole pass; a contract suite tests it for every registered model.

    No caller uses more of a model than this. One that inherits from it gets `read`, `stack`, `stored`, `observe`,
    `predictions`, `context_sizes`, `last_features` and `input_embedding` by itself, and overrides those for which it
    has a faster way or an answer.
    """

    vocabulary_size: int

    @property
    @abstractmethod
    def facts(self) -> ModelFacts:
        """The facts about it that need no run of it."""

    @abstractmethod
    def start(self, batch: int) -> S:
        """The state of `batch` rows that have read `<s>` and nothing else."""

    @abstractmethod
    def predict(self, state: S) -> Logs:
        """log p of every next token, [B, V]."""

    @abstractmethod
    def step(self, token_B: Ids, state: S) -> tuple[Logs, S]:
        """Read one token per row; log p of every token after it [B, V], and the new state."""

    @abstractmethod
    def log_probs(self, tokens_BT: Ids, state: S) -> tuple[Logs, S]:
        """log p of each observed token, [B, T], and the state after the last."""

    @abstractmethod
    def record(self, tokens_T: Ids, state: S) -> Fields:
        """What a trace shows of this model over one row: `{field: (axis names, array)}`, first axis "step"."""

    def stored(self, weights: str) -> Self:
        """The same model, its matrices stored as `weights` ("bfloat16", "int8") for steps that take less time.

        States of one are states of the other. Steps read the stored matrices; `log_probs` of whole texts may read the
        matrix of the head as it is.
        """
        raise OptionError(
            f"weights is {weights!r} for a {type(self).__name__}; expected a recurrent model; try it without weights"
        )

    def read(self, tokens_BT: Ids, state: S) -> S:
        """The state after tokens that are not scored, such as those of a prompt."""
        return self.log_probs(tokens_BT, state)[1]

    def stack(self, states: Sequence[S]) -> S:
        """The rows of several states one below the other, so that texts of any length share their steps.

        A model that does not implement this takes one state: a server then reads its texts one by one.
        """
        if len(states) == 1:
            return states[0]
        raise OptionError(
            f"{type(self).__name__} was given {len(states)} states and does not say how to stack them; expected one; "
            "try defining stack(states)"
        )

    def observe(self, tokens_BT: Ids, state: S) -> tuple[Logs, Floats | None, S]:
        """log p of each token [B, T], the features it was predicted from [B, T, H] or None, the state after all."""
        logp_BT, after = self.log_probs(tokens_BT, state)
        return logp_BT, None, after

    def predictions(self, tokens_T: Ids, state: S) -> Iterator[Logs]:
        """log p of every token of the vocabulary before each token of one row: pieces [P, V], P by `rows_at_once`."""
        rows: list[Logs] = []
        logp_1V, size = self.predict(state), rows_at_once(self.vocabulary_size)
        for place, token in enumerate(tokens_T.tolist(), 1):
            rows.append(np.asarray(logp_1V)[0])
            if len(rows) == size or place == len(tokens_T):
                yield np.stack(rows)
                rows = []
            if place < len(tokens_T):
                logp_1V, state = self.step(np.array([token]), state)

    def context_sizes(self, tokens_T: Ids) -> NDArray[np.int64]:
        """How many tokens each token of a text is predicted from, `<s>` counted: all since the state began, [T]."""
        steps = np.arange(1, len(tokens_T) + 1)
        if self.facts.restart is None:
            return steps
        begun = np.maximum.accumulate(np.where(tokens_T == self.facts.restart, steps, 0))
        return steps - np.concatenate(([0], begun[:-1]))[: len(steps)]

    def last_features(self, state: S) -> Floats | None:
        """The features the next prediction is made of, [B, H]; None where there are none."""
        return None

    def input_embedding(self) -> Floats | None:
        """The word vectors, [V, E]; None where there are none."""
        return None


def is_normalised(model: SequenceModel[S]) -> bool:
    """Whether a model gives probabilities, which sum to 1 after every context."""
    return model.facts.normalised
