"""The n-gram as a SequenceModel.

Shapes: B rows, T steps, V words that can be predicted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.models.base import Fields, Ids, ModelFacts, SequenceModel, checked_tokens, rows_at_once
from thereafter.ngram.scoring import score
from thereafter.ngram.tables import Tables


@dataclass(frozen=True)
class NgramState:
    """The longest known context of each row, as a node of the trie."""

    nodes: NDArray[np.int32]

    def select(self, index: Ids) -> NgramState:
        return NgramState(self.nodes[index])

    def key(self) -> Hashable:
        return tuple(self.nodes.tolist())


class NgramModel(SequenceModel[NgramState]):
    """A smoothed n-gram model over finished tables.

    In `line` context a step over `</s>` returns to the start state; in `stream` context the context goes on.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        context: str,
        line_end: int | None,
        smoothing: str,
        uniform: bool = False,
        proper: bool = True,
        discounts: dict[int, tuple[float, ...]] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.tables = tables
        self.vocabulary_size = tables.vocabulary_size
        self.order = tables.order
        self.context = context
        self.line_end = line_end
        self.smoothing = smoothing
        self.uniform = uniform
        self.proper = proper
        self.discounts = dict(discounts or {})
        self.notes = list(notes)
        self._restart = line_end if context == "line" and line_end is not None else -1
        self._facts = ModelFacts(
            vocabulary_size=self.vocabulary_size,
            parameters=sum(tables.sizes()),
            restart=line_end if context == "line" else None,
            normalised=proper,
        )
        # <s> is a context only where there are contexts at all
        self._start = 1 + self.vocabulary_size if self.order > 1 else 0

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    def start(self, batch: int) -> NgramState:
        return NgramState(np.full(batch, self._start, dtype=np.int32))

    def predict(self, state: NgramState) -> NDArray[np.float32]:
        logp_BV = np.empty((len(state.nodes), self.vocabulary_size), dtype=np.float32)
        for row, node in zip(logp_BV, state.nodes.tolist(), strict=True):
            self._distribution(node, row)
        return logp_BV

    def step(self, token_B: Ids, state: NgramState) -> tuple[NDArray[np.float32], NgramState]:
        _, after = self.log_probs(np.asarray(token_B).reshape(-1, 1), state)
        return self.predict(after), after

    def stack(self, states: Sequence[NgramState]) -> NgramState:
        return NgramState(np.concatenate([state.nodes for state in states]))

    def log_probs(self, tokens_BT: Ids, state: NgramState) -> tuple[NDArray[np.float32], NgramState]:
        tokens = self._check_tokens(tokens_BT)
        scores = np.empty(tokens.shape, dtype=np.float32)
        nodes = np.empty(len(tokens), dtype=np.int32)
        for b, (row, node) in enumerate(zip(tokens, state.nodes.tolist(), strict=True)):
            scores[b], _, nodes[b] = self._read(row, node)
        return scores, NgramState(nodes)

    def record(self, tokens_T: Ids, state: NgramState) -> Fields:
        """Per step: log p of the token, the order of the n-gram that gave it, the length of the context before it."""
        scores, nodes, before = self._walk(tokens_T, state)
        return {
            "log_prob": (("step",), scores),
            "order": (("step",), self.tables.order_of(nodes).astype(np.int8)),
            "context": (("step",), self.tables.order_of(before).astype(np.int8)),
        }

    def predictions(self, tokens_T: Ids, state: NgramState) -> Iterator[NDArray[np.float32]]:
        _, _, before = self._walk(tokens_T, state)
        size = rows_at_once(self.vocabulary_size)
        return (self.predict(NgramState(before[begin : begin + size])) for begin in range(0, len(before), size))

    def context_sizes(self, tokens_T: Ids) -> NDArray[np.int64]:
        """The words before each token in the longest known n-gram that ends with it: 0 where only it is known."""
        _, nodes, _ = self._walk(tokens_T, self.start(1))
        return self.tables.order_of(nodes) - 1

    def _walk(
        self, tokens_T: Ids, state: NgramState
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int32]]:
        """log p of each token of a row, the node of its longest known n-gram, and the node of its context."""
        scores, nodes, _ = self._read(self._check_tokens(tokens_T.reshape(1, -1))[0], int(state.nodes[0]))
        # The context of a token is the node of the token before it, shortened to order - 1 words.
        after = np.where(nodes < self.tables.contexts, nodes, self.tables.suffix[nodes])
        after = np.where(tokens_T == self._restart, self._start, after).astype(np.int32)
        return scores, nodes, np.concatenate([state.nodes[:1], after[:-1]])[: len(nodes)]

    def _read(self, row: Ids, node: int) -> tuple[NDArray[np.float32], NDArray[np.int32], int]:
        return score(self.tables, row, node, uniform=self.uniform, line_end=self._restart, start=self._start)

    def _distribution(self, node: int, out_V: NDArray[np.float32]) -> None:
        """Fill in log p of every word after a context: the unigrams, then each longer context in turn."""
        tables = self.tables
        chain = tables.chain(node)[:-1]
        if self.uniform:
            chain = [c for c in chain if tables.first_child[c + 1] > tables.first_child[c]][:1]
        out_V[:] = tables.logp[1 : 1 + self.vocabulary_size]
        for context in reversed(chain):
            if self.uniform:
                out_V[:] = tables.backoff[context]
            else:
                out_V += tables.backoff[context]
            children = slice(tables.first_child[context], tables.first_child[context + 1])
            out_V[tables.word[children]] = tables.logp[children]

    def _check_tokens(self, tokens_BT: Ids) -> Ids:
        return checked_tokens(tokens_BT, self.vocabulary_size)
