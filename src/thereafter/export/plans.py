"""The plans, one for each generation of models: what a target writes.

Shapes as in `parts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.export.parts import Array, BlockPlan, HeadPlan, LayerPlan, StatePart, WordingPlan


@dataclass(frozen=True)
class RecurrentPlan:
    """x = `embedding`[token], through the layers, log p by the head."""

    kind: str
    wording: WordingPlan
    embedding: Array
    layers: tuple[LayerPlan, ...]
    head: HeadPlan

    def state(self) -> list[StatePart]:
        return [part for layer in self.layers for lane in layer.lanes for part in lane.state()]


@dataclass(frozen=True)
class WindowPlan:
    """f = tanh(`matrix` [x_{t-W+1}; ...; x_t] + `bias`), then the head; with `direct` it sees [f; x...].

    The state is the window of the last W tokens, oldest first, full of `<s>` at first.
    """

    kind: str
    wording: WordingPlan
    embedding: Array
    window: int
    matrix: Array
    bias: Array
    direct: bool
    head: HeadPlan

    def state(self) -> list[StatePart]:
        return [StatePart("tokens", (self.window,), whole=True, fresh=float(self.wording.start))]


@dataclass(frozen=True)
class AveragePlan:
    """f = the mean of the vectors of the last W tokens read, of fewer at the beginning: -1 stands for none."""

    kind: str
    wording: WordingPlan
    embedding: Array
    window: int
    head: HeadPlan

    def state(self) -> list[StatePart]:
        return [StatePart("tokens", (self.window,), whole=True, fresh=-1.0)]


@dataclass(frozen=True)
class TransformerPlan:
    """x = sqrt(H) `embedding`[token] + `positions`[position], blocks, the last norm (pre-norm only), the head.

    `pre`: x + f(norm(x)), else norm(x + f(x)). The state: the tokens in sight [B, N], and for each block the keys and
    values [B, K, N, D]. Before a token is read where N = C, the last C // 2 tokens are read again from position 0 into
    a fresh state, the rest is forgotten; so a state never holds more than C tokens.
    """

    kind: str
    wording: WordingPlan
    embedding: Array
    positions: Array
    heads: int
    context: int
    pre: bool
    blocks: tuple[BlockPlan, ...]
    norm: tuple[Array, Array] | None
    head: HeadPlan

    @property
    def scale(self) -> float:
        """What word vectors are multiplied by."""
        return math.sqrt(self.embedding.shape[1])

    def state(self) -> list[StatePart]:
        size = self.embedding.shape[1] // self.heads
        names = [f"{kind}_{number}" for number in range(len(self.blocks)) for kind in ("keys", "values")]
        return [StatePart("tokens", (0,), whole=True), *(StatePart(name, (self.heads, 0, size)) for name in names)]

    def fixed_state(self) -> list[StatePart]:
        """The state in a fixed size: `count` tokens are in sight, in the first places of all that is C long."""
        kept = (self.heads, self.context, self.embedding.shape[1] // self.heads)
        first = [StatePart("count", (), whole=True), StatePart("seen", (self.context,), whole=True)]
        return [*first, *(StatePart(part.name, kept) for part in self.state()[1:])]


@dataclass(frozen=True)
class NgramPlan:
    """A back-off model as a flat trie; `ngram.tables.Tables` says what its arrays are.

    The state is one node. `first`: the node after `<s>`, with which a text begins: there is no fresh state before it,
    and `start` is never read. `uniform`: unseen words after a context all get exp(backoff) of the longest context that
    has children (add-alpha), with no going on to shorter ones; see `NgramModel._distribution`.
    """

    kind: str
    wording: WordingPlan
    order: int
    word: NDArray[np.int32]
    logp: Array
    suffix: NDArray[np.int32]
    backoff: Array
    first_child: NDArray[np.int32]
    level_starts: NDArray[np.int64]
    first: int
    uniform: bool

    def state(self) -> list[StatePart]:
        return [StatePart("node", (), whole=True, fresh=float(self.first))]


NeuralPlan = RecurrentPlan | WindowPlan | AveragePlan | TransformerPlan
Plan = NeuralPlan | NgramPlan


def arrays_of(part: object) -> Iterator[NDArray[np.generic]]:
    """Every array in a plan or in a part of one; the matrix of a tied head is the embedding's and comes twice."""
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, (list, tuple)):
        for one in part:
            yield from arrays_of(one)
    elif isinstance(part, dict):
        yield from arrays_of(list(part.values()))
    elif hasattr(part, "__dataclass_fields__"):
        yield from arrays_of(list(vars(part).values()))
