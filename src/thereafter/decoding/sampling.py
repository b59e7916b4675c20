"""Drawing tokens: a single one, an endless row, or several rows as one batch, each with its own generator.

Shapes: B rows, V words that can be predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Unpack

import numpy as np

from thereafter.decoding.warping import Floats, Warping, WarpingOptions
from thereafter.models.base import Ids, Logs, S, SequenceModel


def draw(weights_V: Floats, rng: np.random.Generator) -> int:
    """Draw one token, with a probability in proportion to its weight."""
    ends = np.cumsum(weights_V)
    drawn = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
    return min(drawn, int(np.flatnonzero(weights_V)[-1]))  # rounding at the very end of the line


def choose(
    logp_V: Logs,
    rng: np.random.Generator,
    *,
    seen: Ids | None = None,
    forbidden: Sequence[int] = (),
    **options: Unpack[WarpingOptions],
) -> int | None:
    """Draw one token from a warped distribution (see `Warping`); None where nothing is possible."""
    warping = Warping(**options)
    weights_V = warping.weights(logp_V, seen=seen, forbidden=forbidden)
    if weights_V is None:
        return None
    return int(np.argmax(weights_V)) if warping.temperature == 0 else draw(weights_V, rng)


def generators(seed: int | None, rows: int) -> list[np.random.Generator]:
    """A generator for each row. The first is that of the seed itself: a single sample is the first of several."""
    root = np.random.SeedSequence(seed)
    return [np.random.default_rng(own) for own in (root, *root.spawn(rows - 1))]


@dataclass(frozen=True)
class Draw:
    """A token drawn for a row, and its log probability under the model, before any warping."""

    row: int
    token: int
    log_prob: float


class Sampler(Generic[S]):
    """Rows that continue a state; the model reads all of them as one batch.

    All start from the first row of the state, or from `rows` of it. Each row draws from its own generator, so its
    tokens do not depend on how long the others run. Finished rows leave the batch once no more than the share `sparse`
    of it still runs: where moving rows is expensive, they stay idle for a while.
    """

    def __init__(
        self,
        model: SequenceModel[S],
        state: S,
        rngs: Sequence[np.random.Generator],
        warping: Warping,
        *,
        prompt: Ids | None = None,
        forbidden: Sequence[int] = (),
        rows: Ids | None = None,
        sparse: float = 1.0,
    ) -> None:
        self._model, self._sparse = model, sparse
        if rows is None and len(rngs) > 1:
            rows = np.zeros(len(rngs), dtype=np.int64)
        self._state = state if rows is None else state.select(rows)
        self._logp_BV = np.asarray(model.predict(self._state))
        self._rngs = rngs
        self._warping = warping
        self._forbidden = forbidden
        self._seen_BV = np.zeros((len(rngs), model.vocabulary_size), dtype=bool)
        if prompt is not None:
            self._seen_BV[:, prompt] = True
        self._batch = list(range(len(rngs)))  # the row that each line of the batch belongs to
        self._drawn: dict[int, int] = {}  # the tokens to read before the next draw
        self._idle: set[int] = set()  # rows of the batch that are finished

    def draw(self) -> list[Draw]:
        """The next token of every row that still runs; a row where nothing can follow is not among them."""
        if self._drawn:
            self._read()
        greedy = self._warping.temperature == 0 and self._warping.repetition_penalty == 1
        tokens = self._likeliest() if greedy else map(self._token, self._batch, self._logp_BV)
        draws = [
            Draw(row, token, float(logp_V[token]))
            for row, token, logp_V in zip(self._batch, tokens, self._logp_BV, strict=True)
            if token is not None
        ]
        self._drawn = {drawn.row: drawn.token for drawn in draws}
        if not draws:
            self._batch, self._logp_BV = [], self._logp_BV[:0]
        return draws

    def _token(self, row: int, logp_V: Logs) -> int | None:
        """The next token of one row."""
        if row in self._idle:
            return None
        seen = np.flatnonzero(self._seen_BV[row]) if self._warping.repetition_penalty != 1 else None
        weights_V = self._warping.weights(logp_V, seen=seen, forbidden=self._forbidden)
        if weights_V is None:
            return None
        greedy = self._warping.temperature == 0
        token = int(np.argmax(weights_V)) if greedy else draw(weights_V, self._rngs[row])
        self._seen_BV[row, token] = True
        return token

    def _likeliest(self) -> list[int | None]:
        """The likeliest token of every row at once, ties to the lower id: as `_token` for plain greedy decoding."""
        token_B = self._logp_BV.argmax(axis=1)
        easy_B = np.isfinite(self._logp_BV[np.arange(len(token_B)), token_B])
        if len(self._forbidden):
            easy_B &= ~np.isin(token_B, list(self._forbidden))
        if self._idle:
            easy_B &= ~np.isin(self._batch, list(self._idle))
        tokens: list[int | None] = token_B.tolist()
        for line in np.flatnonzero(~easy_B).tolist():
            tokens[line] = self._token(self._batch[line], self._logp_BV[line])
        return tokens

    def stop(self, row: int) -> None:
        """The row needs no more tokens."""
        self._drawn.pop(row, None)
        if not self._drawn:
            self._batch, self._logp_BV = [], self._logp_BV[:0]

    def _read(self) -> None:
        """Read the tokens that were drawn; finished rows leave the batch."""
        if len(self._drawn) <= self._sparse * len(self._batch) and len(self._drawn) < len(self._batch):
            lines = [line for line, row in enumerate(self._batch) if row in self._drawn]
            self._state = self._state.select(np.array(lines))
            self._batch = [self._batch[line] for line in lines]
        self._idle = {row for row in self._batch if row not in self._drawn}
        tokens = np.array([self._drawn.get(row, 0) for row in self._batch])
        logp, self._state = self._model.step(tokens, self._state)
        self._logp_BV = np.asarray(logp)
        self._drawn = {}


def continue_from(
    model: SequenceModel[S],
    state: S,
    rng: np.random.Generator,
    *,
    prompt: Ids | None = None,
    forbidden: Sequence[int] = (),
    **options: Unpack[WarpingOptions],
) -> Iterator[int]:
    """Draw token after token, endlessly or until none is possible (a model without smoothing at a dead end)."""
    sampler = Sampler(model, state, [rng], Warping(**options), prompt=prompt, forbidden=forbidden)
    while draws := sampler.draw():
        yield draws[0].token
