"""The tokens that hypotheses of a search may go on with, from the best down.

Shapes: R hypotheses, V words that can be predicted, C candidates of a hypothesis, M = R C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.warping import Floats, largest
from thereafter.models.base import Logs


class Extensions:
    """Hypotheses of several texts, each with one token more, by falling sums; ties by hypothesis, then by token.

    Of each hypothesis only its `count` likeliest tokens are ranked, which is far less work than ranking them all. One
    more than there are beams is enough where a single token ends a text. Where the walk comes to the last of them, more
    are ranked, of that text alone.

    `score_RV`: the log p that sums are made of; `total_R`: the sums so far, -inf in a row without a hypothesis;
    `first`: the first row of each text, and the end of all rows.
    """

    def __init__(
        self,
        logp_RV: Logs,
        score_RV: Logs,
        total_R: Floats,
        first: NDArray[np.int64],
        forbidden: Sequence[int],
        count: int,
    ) -> None:
        self._logp_RV, self._score_RV, self._total_R = logp_RV, score_RV, total_R
        self._first, self._forbidden, self._count = first, forbidden, count
        words = score_RV.shape[1]
        self._candidates = min(words, count + len(forbidden))
        token_RC = largest(score_RV, self._candidates)
        score_RC = np.take_along_axis(score_RV, token_RC, 1)
        logp_RC = score_RC if score_RV is logp_RV else np.take_along_axis(logp_RV, token_RC, 1)
        total_RC = total_R[:, None] + score_RC
        for token in forbidden:
            total_RC[token_RC == token] = -np.inf
        possible_RC = ~np.isneginf(total_RC)
        idle_R = np.isneginf(total_R)
        self._dead_R: NDArray[np.bool_] = np.logical_not(possible_RC.any(axis=1) | idle_R)
        self._some_dead = bool(self._dead_R.any())
        last_RC = np.zeros(token_RC.shape, dtype=bool)
        if self._candidates < words:
            last_R = self._candidates - 1 - possible_RC[:, ::-1].argmax(axis=1)
            last_RC[np.arange(len(last_RC)), last_R] = possible_RC.any(axis=1)
        text_R = np.repeat(np.arange(len(first) - 1), np.diff(first))
        order_M = np.lexsort((-total_RC.ravel(), text_R.repeat(self._candidates)))  # stable
        row_M = order_M // self._candidates
        columns = (row_M, *(array.ravel()[order_M] for array in (token_RC, logp_RC, total_RC, last_RC)))
        self._ranked = list(zip(*(column.tolist() for column in columns), strict=True))

    def first_row(self, text: int) -> int:
        """Where the hypotheses of a text begin."""
        return int(self._first[text])

    def dead_ends(self, text: int) -> list[int]:
        """Which of the hypotheses of a text nothing can follow."""
        if not self._some_dead:
            return []
        dead: list[int] = np.flatnonzero(self._dead_R[self._first[text] : self._first[text + 1]]).tolist()
        return dead

    def falling(self, text: int) -> Iterator[tuple[int, int, float, float]]:
        """The extensions of a text from the best down: row, token, its log p, the new sum."""
        first, end = self._first[text] * self._candidates, self._first[text + 1] * self._candidates
        for number, (row, token, log_prob, total, last) in enumerate(self._ranked[first:end], start=1):
            if total == -np.inf:
                return
            yield row, token, log_prob, total
            if last:
                yield from islice(self._further(text), number, None)
                return

    def _further(self, text: int) -> Iterator[tuple[int, int, float, float]]:
        """The same with more tokens of each hypothesis ranked."""
        first, end = self._first[text : text + 2].tolist()
        more = Extensions(
            self._logp_RV[first:end],
            self._score_RV[first:end],
            self._total_R[first:end],
            np.array([0, end - first]),
            self._forbidden,
            4 * self._count,
        )
        for row, token, log_prob, total in more.falling(0):
            yield first + row, token, log_prob, total
