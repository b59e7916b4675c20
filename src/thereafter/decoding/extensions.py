"""The tokens by which the hypotheses of a search can be extended, best first.

Shapes: R hypotheses, V words that can be predicted, C candidates of a hypothesis, M = R C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.warping import Floats, largest
from thereafter.models.base import Ids, Logs, S


@runtime_checkable
class Ranking(Protocol[S]):
    """A `SequenceModel` that ranks words on its own device, so that only a few numbers have to leave it."""

    vocabulary_size: int

    def read(self, tokens_BT: Ids, state: S) -> S:
        """The state after tokens."""

    def ranked(self, state: S, count: int) -> tuple[Ids, Logs]:
        """The likeliest words after each row, likeliest first, and their log p: [B, count] each."""


class Next(Protocol):
    """The distribution of the next token after each hypothesis."""

    @property
    def words(self) -> int:
        """How many tokens there are."""

    def top(self, count: int) -> tuple[Ids, Logs, Logs]:
        """The likeliest tokens of each row, likeliest first; their log p; the scores that are summed: [R, count]."""

    def part(self, first: int, end: int) -> Self:
        """Those of the rows `first` to `end`."""


@dataclass(frozen=True)
class Dense:
    """All log p, [R, V]; `score_RV` are the scores that are summed."""

    logp_RV: Logs
    score_RV: Logs

    @property
    def words(self) -> int:
        return int(self.score_RV.shape[1])

    def top(self, count: int) -> tuple[Ids, Logs, Logs]:
        token_RC = largest(self.score_RV, count)
        score_RC = np.take_along_axis(self.score_RV, token_RC, 1)
        same = self.score_RV is self.logp_RV
        return token_RC, score_RC if same else np.take_along_axis(self.logp_RV, token_RC, 1), score_RC

    def part(self, first: int, end: int) -> Dense:
        return Dense(self.logp_RV[first:end], self.score_RV[first:end])


class Ranked(Generic[S]):
    """Tokens after a state that the model ranks itself."""

    def __init__(self, model: Ranking[S], state: S) -> None:
        self._model, self._state = model, state

    @property
    def words(self) -> int:
        return self._model.vocabulary_size

    def top(self, count: int) -> tuple[Ids, Logs, Logs]:
        token_RC, logp_RC = self._model.ranked(self._state, count)
        return token_RC, logp_RC, logp_RC

    def part(self, first: int, end: int) -> Ranked[S]:
        return Ranked(self._model, self._state.select(np.arange(first, end)))


class Extensions:
    """The hypotheses of several texts, each extended by one token, by falling sums; ties by hypothesis, then by token.

    Only the `count` likeliest tokens of each hypothesis are ranked, which is far less work than ranking all of them.
    One more than there are beams is enough if a single token ends a text. If a caller walks past the last extension
    whose rank is certain, more tokens are ranked, for that text alone.

    `total_R`: the sums so far, -inf in a row without a hypothesis; `first`: the first row of each text, and the end of
    all rows.
    """

    def __init__(
        self, after: Next, total_R: Floats, first: NDArray[np.int64], forbidden: Sequence[int], count: int
    ) -> None:
        self._after, self._total_R = after, total_R
        self._first, self._forbidden, self._count = first, forbidden, count
        self._candidates = min(after.words, count + len(forbidden))
        token_RC, logp_RC, score_RC = after.top(self._candidates)
        total_RC = total_R[:, None] + score_RC
        for token in forbidden:
            total_RC[token_RC == token] = -np.inf
        possible_RC = ~np.isneginf(total_RC)
        possible_R = possible_RC.any(axis=1)
        self._dead_R: NDArray[np.bool_] = np.logical_not(possible_R | np.isneginf(total_R))
        self._some_dead = bool(self._dead_R.any())
        last_RC = np.zeros(token_RC.shape, dtype=bool)
        if self._candidates < after.words:
            last_R = self._candidates - 1 - possible_RC[:, ::-1].argmax(axis=1)
            last_RC[np.arange(len(last_RC)), last_R] = possible_R
        self._ranked = self._by_text(token_RC, logp_RC, total_RC, last_RC)

    def _by_text(
        self, token_RC: Ids, logp_RC: Logs, total_RC: Floats, last_RC: NDArray[np.bool_]
    ) -> list[list[tuple[int, int, float, float, bool]]]:
        """The best extensions of each text, best first."""
        sizes = np.diff(self._first)
        text_R = np.repeat(np.arange(len(sizes)), sizes)
        row_TW = np.zeros((len(sizes), int(sizes.max())), dtype=np.int64)
        total_TWC = np.full((*row_TW.shape, self._candidates), -np.inf)
        slot_R = np.arange(len(text_R)) - self._first[text_R]
        row_TW[text_R, slot_R], total_TWC[text_R, slot_R] = np.arange(len(text_R)), total_RC
        # no more than two for each beam are looked at, unless more than one token of a hypothesis can end it
        order_TM = np.argsort(-total_TWC.reshape(len(sizes), -1), axis=1, kind="stable")[:, : 2 * self._count]
        row_TM = np.take_along_axis(row_TW, order_TM // self._candidates, 1)
        column_TM = order_TM % self._candidates
        last_TM = last_RC[row_TM, column_TM]
        last_TM[:, -1] |= order_TM.shape[1] < total_TWC[0].size
        columns = (
            token_RC[row_TM, column_TM],
            logp_RC[row_TM, column_TM],
            np.take_along_axis(total_TWC.reshape(len(sizes), -1), order_TM, 1),
        )
        listed = (array.tolist() for array in (row_TM, *columns, last_TM))
        return [list(zip(*text, strict=True)) for text in zip(*listed, strict=True)]

    def first_row(self, text: int) -> int:
        """Where the hypotheses of a text begin."""
        return int(self._first[text])

    def dead_ends(self, text: int) -> list[int]:
        """The hypotheses of a text that no token can follow."""
        if not self._some_dead:
            return []
        dead: list[int] = np.flatnonzero(self._dead_R[self._first[text] : self._first[text + 1]]).tolist()
        return dead

    def falling(self, text: int) -> Iterator[tuple[int, int, float, float]]:
        """The extensions of a text, best first: row, token, its log p, the new sum."""
        for number, (row, token, log_prob, total, last) in enumerate(self._ranked[text], start=1):
            if total == -np.inf:
                return
            yield row, token, log_prob, total
            if last:
                yield from islice(self._further(text), number, None)
                return

    def _further(self, text: int) -> Iterator[tuple[int, int, float, float]]:
        """As `falling`, with more tokens of each hypothesis ranked."""
        first, end = self._first[text : text + 2].tolist()
        alone = np.array([0, end - first])
        after, total_R = self._after.part(first, end), self._total_R[first:end]
        wider = Extensions(after, total_R, alone, self._forbidden, 4 * self._count)
        for row, token, log_prob, total in wider.falling(0):
            yield first + row, token, log_prob, total
