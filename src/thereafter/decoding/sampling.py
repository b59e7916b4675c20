"""Drawing tokens: a single one, or several rows as one batch, each with its own generator.

A row of `draw_rows` draws what `draw` would draw for it alone: its weights are the same numbers, and of its generator
it uses one uniform number. Rows whose settings cut alike (top-k, top-p, min-p, forbidden tokens) are drawn in a few
operations over all of them; temperatures may differ. Rows with a repetition penalty are drawn one by one.

Shapes: B rows, R rows that cut alike, V words that can be predicted, W places for them in full blocks, S words
of a block, K blocks, or the likeliest words.

A distribution is reshaped before a draw: repetition penalty, temperature, top-k, top-p, min-p, in that order. The names
and the order are those of Hugging Face's `generate`, so that settings carry over. Shapes there: P piles of words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.models.base import Ids, Logs, S, SequenceModel

Floats = NDArray[np.float64]

FARTHEST = 1e300
_MANY = 8  # times as many as are asked for


@dataclass(frozen=True)
class Warping:
    """How a distribution is reshaped before a token is drawn from it; the defaults leave it as it is.

    - `repetition_penalty` r: log p of every token that was read or written already becomes r log p, so that r > 1
      makes repeating less likely (Keskar et al., "CTRL", 2019; an n-gram has no logits, so the penalty is
      applied to log probabilities, as in Hugging Face's beam search).
    - `temperature` t: p^(1/t). 0 keeps only the likeliest token, ties to the lower id.
    - `top_k`: the k likeliest, exactly k of them: ties go to the lower id.
    - `top_p`: the fewest of the likeliest whose probabilities reach it (Holtzman et al., "The Curious Case of Neural
      Text Degeneration", 2020).
    - `min_p`: those at least this share of the likeliest (Nguyen et al., "Turning Up the Heat", 2024).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.temperature) and self.temperature >= 0):
            raise OptionError(f"temperature is {self.temperature}; expected 0 (always the likeliest) or more; try 0.8")
        if self.top_k is not None and self.top_k < 1:
            raise OptionError(f"top_k is {self.top_k}; expected at least 1, or none for all words; try 40")
        if not 0 < self.top_p <= 1:
            raise OptionError(f"top_p is {self.top_p}; expected more than 0 and at most 1 (all words); try 0.9")
        if not 0 <= self.min_p <= 1:
            raise OptionError(f"min_p is {self.min_p}; expected 0 (all words) to 1 (the likeliest); try 0.05")
        check_penalty(self.repetition_penalty)

    def weights(self, logp_V: Logs, *, seen: Ids | None = None, forbidden: Sequence[int] = ()) -> Floats | None:
        """The weight of each token in the draw [V]: 1 for the likeliest, 0 for those cut off; None if none is possible.

        `seen` are the ids that pay the repetition penalty. `forbidden` ones are never drawn and do not count for top-k.
        """
        logs = penalise(logp_V, self.repetition_penalty, seen)
        logs[list(forbidden)] = -np.inf
        best = int(np.argmax(logs))
        if np.isneginf(logs[best]):
            return None
        if self.temperature == 0:
            return np.equal(np.arange(len(logs)), best).astype(np.float64)
        weights_1W, ids_1K = _weigh(logs[None], logs[best, None, None], np.array([[self.temperature]]), self, ())
        if ids_1K is None:
            return weights_1W[0, : len(logs)]
        weights: Floats = np.zeros(len(logs))
        weights[ids_1K[0]] = weights_1W[0, : ids_1K.shape[1]]
        return weights


def check_penalty(penalty: float) -> None:
    """Refuse a repetition penalty that is not a positive number."""
    if not (np.isfinite(penalty) and penalty > 0):
        raise OptionError(f"repetition_penalty is {penalty}; expected more than 0, 1 for none; try 1.2")


def penalise(logp: Logs, penalty: float, seen: Ids | None) -> Floats:
    """A copy of log probabilities [..., V] in which those of seen tokens are multiplied by the penalty.

    A score above 0, which rounding can cause, is divided instead, as in the formula. What was possible stays possible
    under any penalty: the result is clipped so that sums of it stay finite.
    """
    logs = np.array(logp, dtype=np.float64)
    if penalty != 1 and seen is not None and len(seen):
        scores = logs[..., seen]
        with np.errstate(over="ignore"):
            scaled = np.clip(np.where(scores < 0, scores * penalty, scores / penalty), -FARTHEST, FARTHEST)
        logs[..., seen] = np.where(np.isneginf(scores), scores, scaled)
    return logs


def largest(scores: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """The positions of the k largest of a row [V], or of each of several rows [R, V]: largest first, ties by position.

    The same as the beginning of a stable sort, without sorting everything.

    >>> largest(np.array([0.1, 0.4, 0.1, 0.4]), 3).tolist()
    [1, 3, 0]
    """
    if k >= scores.shape[-1]:
        return np.argsort(-scores, axis=-1, kind="stable")
    return _largest_of_row(scores, k) if scores.ndim == 1 else _largest_of_rows(scores, k)


def _largest_of_row(scores_V: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    least = np.partition(scores_V, len(scores_V) - k)[len(scores_V) - k]
    above = np.flatnonzero(scores_V > least)
    places = np.concatenate([above, np.flatnonzero(scores_V == least)[: k - len(above)]])
    return places[np.argsort(-scores_V[places], kind="stable")]


def _largest_of_rows(scores_RV: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """The words of a row are divided into piles: a word below the k-th largest maximum of a pile is not among the k.

    Computing maxima is much faster than sorting, and few more than k words are left to sort.
    """
    rows, words = scores_RV.shape
    height = math.isqrt(words // k)
    piles = words // height
    highest_RP = scores_RV[:, : piles * height].reshape(rows, height, piles).max(axis=1)
    bound_R1 = np.partition(highest_RP, piles - k, axis=1)[:, piles - k, None]
    place = np.flatnonzero(scores_RV >= bound_R1)
    if len(place) > _MANY * rows * k:  # rows of many equal numbers
        return np.stack([_largest_of_row(scores_V, k) for scores_V in scores_RV])
    row = place // words
    order = np.lexsort((-scores_RV.ravel()[place], row))  # stable
    first_R1 = np.searchsorted(row, np.arange(rows))[:, None]
    chosen_RK: NDArray[np.intp] = place[order[first_R1 + np.arange(k)]] % words
    return chosen_RK


def keep_nucleus(weights: Floats, top_p: float) -> Floats:
    """Keep a token of a row [V], or of each row [R, V], if all likelier ones together do not reach `top_p`.

    The likeliest is always kept; ties go to the lower id. Only the weights are sorted, not their places: of one weight
    the least that is kept follows.
    """
    ordered = np.sort(weights, axis=-1)[..., ::-1]
    sums = np.cumsum(ordered, axis=-1)
    reached = sums[..., :-1] < top_p * sums[..., -1:]
    count = 1 + np.count_nonzero(reached, axis=-1, keepdims=True)
    least = np.take_along_axis(ordered, count - 1, axis=-1)
    kept: Floats = np.where(weights >= least, weights, 0.0)
    for row in np.argwhere(np.count_nonzero(kept, axis=-1, keepdims=True) > count)[:, :-1]:
        place = tuple(row)
        ties = np.flatnonzero(weights[place] == least[place])
        above = np.count_nonzero(weights[place] > least[place])
        kept[(*place, ties[int(count[place][0]) - above :])] = 0.0
    return kept


def draw(weights_V: Floats, rng: np.random.Generator) -> int:
    """Draw one token, with a probability in proportion to its weight."""
    ends = np.cumsum(weights_V)
    drawn = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
    return min(drawn, int(np.flatnonzero(weights_V)[-1]))  # rounding at the very end of the line


def choose(
    logp_V: Logs, rng: np.random.Generator, warping: Warping, *, seen: Ids | None = None, forbidden: Sequence[int] = ()
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
        self._forbidden = tuple(map(int, forbidden))
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
        if self._warping.temperature == 0 and self._warping.repetition_penalty == 1:
            likeliest = zip(self._batch, _likeliest(self._logp_BV, self._forbidden).tolist(), strict=True)
            tokens = [None if token < 0 or row in self._idle else token for row, token in likeliest]
        else:
            tokens = list(map(self._token, self._batch, self._logp_BV))
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
        warping, forbidden = chosen[0].warping, chosen[0].forbidden
        weights_RW, ids_RK = _weigh(logp_RV[lines], most_R1, temperature_R[lines, None], warping, forbidden)
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
    logp_RV: Logs, most_R1: Floats, temperature_R1: Floats, warping: Warping, forbidden: Sequence[int]
) -> tuple[Floats, NDArray[np.intp] | None]:
    """The weights of `Warping.weights` in full blocks; with top-k of the k likeliest alone, and which these are.

    The choice among equals is stable, so that the same seed gives the same text everywhere.
    """
    words, forbidden = logp_RV.shape[1], list(forbidden)
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
    # a temperature next to 0 sends all but the best to minus infinity; a forbidden token may be the likeliest
    with np.errstate(over="ignore"):
        if (temperature_R1 != 1).any():
            weights_RV /= temperature_R1
        np.exp(weights_RV, out=weights_RV)
    weights_RW[:, words:] = 0.0
    weights_RW[:, forbidden] = 0.0
    if warping.top_p < 1:
        weights_RW = keep_nucleus(weights_RW, warping.top_p)
    if warping.min_p > 0:
        weights_RW[weights_RW < warping.min_p] = 0.0  # the likeliest weighs 1
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
