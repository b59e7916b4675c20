"""Drawing tokens: a single one, or several rows as one batch, each with its own generator.

A row of `draw_rows` draws what `draw` would draw for it alone: its weights are the same numbers, and of its generator
it uses one uniform number. Rows whose settings cut alike (top-k, top-p, min-p, forbidden tokens) are drawn in a few
operations over all of them; temperatures may differ. Rows with a repetition penalty are drawn one by one.

Shapes: B rows, R rows that cut alike, V words that can be predicted, W places for them in full blocks, S words
of a block, K blocks, or the likeliest words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.warping import Floats, Warping, keep_nucleus, largest
from thereafter.models.base import Ids, Logs, S, SequenceModel


def draw(weights_V: Floats, rng: np.random.Generator) -> int:
    """Draw one token, with a probability in proportion to its weight."""
    ends = np.cumsum(weights_V)
    drawn = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
    return min(drawn, int(np.flatnonzero(weights_V)[-1]))  # rounding at the very end of the line


def choose(
    logp_V: Logs,
    rng: np.random.Generator,
    warping: Warping,
    *,
    seen: Ids | None = None,
    forbidden: Sequence[int] = (),
) -> int | None:
    """Draw one token from a warped distribution (see `Warping`); None where nothing is possible."""
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
        token = choose(logp_V, self._rngs[row], self._warping, seen=seen, forbidden=self._forbidden)
        if token is not None:
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


_ROWS = 8
"""Rows that are weighed at once: those of common vocabularies then stay in a processor's cache."""
_BLOCK = 128
"""Words whose weights are summed first."""
_ONES_S = np.ones(_BLOCK)

Cut = tuple[int | None, float, float, tuple[int, ...]]


@dataclass(frozen=True)
class RowDrawing:
    """How one row draws. `seen`: the tokens that pay the repetition penalty, where there is one."""

    warping: Warping
    rng: np.random.Generator
    forbidden: tuple[int, ...] = ()
    seen: Ids | None = None

    @property
    def cut(self) -> Cut:
        """What must be equal for rows to be drawn together."""
        return self.warping.top_k, self.warping.top_p, self.warping.min_p, self.forbidden


def draw_rows(logp_BV: Logs, drawings: Sequence[RowDrawing]) -> list[int | None]:
    """A token for each row; None where nothing is possible."""
    tokens: list[int | None] = [None] * len(drawings)
    alike: dict[Cut, list[int]] = {}
    for line, drawing in enumerate(drawings):
        if drawing.warping.repetition_penalty != 1 or len(drawings) == 1:
            tokens[line] = choose(
                logp_BV[line], drawing.rng, drawing.warping, seen=drawing.seen, forbidden=drawing.forbidden
            )
        else:
            alike.setdefault(drawing.cut, []).append(line)
    for lines in alike.values():
        logp_RV = logp_BV if len(lines) == len(logp_BV) else logp_BV[lines]
        for line, token in zip(lines, _draw_alike(logp_RV, [drawings[line] for line in lines]), strict=True):
            tokens[line] = token
    return tokens


def _draw_alike(logp_RV: Logs, drawings: Sequence[RowDrawing]) -> list[int | None]:
    """Tokens of rows that cut alike: the likeliest where the temperature is 0, else draws, some rows at a time."""
    best_R = _likeliest(logp_RV, drawings[0].forbidden)
    temperature_R = np.array([drawing.warping.temperature for drawing in drawings])
    tokens: list[int | None] = [None if best < 0 else best for best in best_R.tolist()]
    lines_R = np.flatnonzero((temperature_R > 0) & (best_R >= 0))
    for begin in range(0, len(lines_R), _ROWS):
        lines = lines_R[begin : begin + _ROWS]
        chosen = [drawings[line] for line in lines.tolist()]
        most_R1 = logp_RV[lines, best_R[lines]][:, None].astype(np.float64)
        weights_RW, ids_RK = _weigh(logp_RV[lines], most_R1, temperature_R[lines, None], chosen[0])
        places = _places(weights_RW, np.array([drawing.rng.random() for drawing in chosen]))
        for row, (line, place) in enumerate(zip(lines.tolist(), places, strict=True)):
            tokens[line] = place if ids_RK is None else int(ids_RK[row, place])
    return tokens


def _likeliest(logp_RV: Logs, forbidden: Sequence[int]) -> NDArray[np.intp]:
    """The likeliest token of each row, ties to the lower id; -1 where nothing is possible."""
    best_R = logp_RV.argmax(axis=1)
    for row in np.flatnonzero(np.isin(best_R, forbidden)).tolist() if forbidden else ():
        logs_V = logp_RV[row].copy()
        logs_V[list(forbidden)] = -np.inf
        best_R[row] = logs_V.argmax()
    impossible_R = np.isneginf(logp_RV[np.arange(len(best_R)), best_R]) | np.isin(best_R, forbidden)
    return np.where(impossible_R, -1, best_R)


def _weigh(
    logp_RV: Logs, most_R1: Floats, temperature_R1: Floats, drawing: RowDrawing
) -> tuple[Floats, NDArray[np.intp] | None]:
    """As `Warping.weights`, in full blocks; with top-k of the k likeliest alone, and which these are."""
    warping, words, forbidden = drawing.warping, logp_RV.shape[1], list(drawing.forbidden)
    ids_RK: NDArray[np.intp] | None = None
    if warping.top_k is not None and warping.top_k < words:
        logp_RV[:, forbidden] = -np.inf
        ids_RK = np.sort(largest(logp_RV, warping.top_k), axis=1)
        logp_RV = np.take_along_axis(logp_RV, ids_RK, axis=1)
        words, forbidden = warping.top_k, []
    weights_RW: Floats = np.empty((len(logp_RV), -(-words // _BLOCK) * _BLOCK))
    weights_RV = weights_RW[:, :words]
    weights_RV[:] = logp_RV
    weights_RV -= most_R1
    with np.errstate(over="ignore"):  # as in `Warping.weights`, and where a forbidden token is the likeliest
        if (temperature_R1 != 1).any():
            weights_RV /= temperature_R1
        np.exp(weights_RV, out=weights_RV)
    weights_RW[:, words:] = 0.0
    weights_RW[:, forbidden] = 0.0
    if warping.top_p < 1:
        weights_RW = keep_nucleus(weights_RW, warping.top_p)
    if warping.min_p > 0:
        weights_RW[weights_RW < warping.min_p] = 0.0
    return weights_RW, ids_RK


def _places(weights_RW: Floats, u_R: Floats) -> list[int]:
    """Where the share u of each row's weight is reached: first the block, then the place in it.

    Sums over blocks are several times faster than the running sum of `draw`; both are exact to the last digits of
    float64, in which two neighbouring words never lie.
    """
    rows = len(weights_RW)
    blocks_RKS = weights_RW.reshape(rows, -1, _BLOCK)
    ends_RK = np.cumsum(blocks_RKS @ _ONES_S, axis=1)
    goal_R1 = u_R[:, None] * ends_RK[:, -1:]
    block_R = np.minimum((ends_RK <= goal_R1).sum(axis=1), ends_RK.shape[1] - 1)
    each_R = np.arange(rows)
    inside_RS = blocks_RKS[each_R, block_R]
    before_R1 = np.where(block_R > 0, ends_RK[each_R, block_R - 1], 0.0)[:, None]
    place_R = (np.cumsum(inside_RS, axis=1) <= goal_R1 - before_R1).sum(axis=1)
    places: list[int] = (block_R * _BLOCK + place_R).tolist()
    for row in np.flatnonzero((place_R == _BLOCK) | (inside_RS.max(axis=1) == 0)).tolist():  # rounding at a block's end
        places[row] = int(np.searchsorted(np.cumsum(weights_RW[row]), goal_R1[row, 0], side="right"))
        places[row] = min(places[row], int(np.flatnonzero(weights_RW[row])[-1]))
    return places
