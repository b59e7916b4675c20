"""Reshaping a distribution before a draw: repetition penalty, temperature, top-k, top-p, min-p, in that order.

The names and the order are those of Hugging Face's `generate`, so that settings carry over.

Shapes: R rows, V words that can be predicted, P piles of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.models.base import Ids, Logs

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
        if self.top_k is not None and self.top_k < len(logs):
            # a stable choice among equals, so that the same seed gives the same text everywhere
            kept = largest(logs, self.top_k)
            rest = logs[kept]
            logs.fill(-np.inf)
            logs[kept] = rest
        with np.errstate(over="ignore"):  # a temperature next to 0 sends all but the best to minus infinity
            weights: Floats = np.exp((logs - logs[best]) / self.temperature)
        if self.top_p < 1:
            weights = keep_nucleus(weights, self.top_p)
        if self.min_p > 0:
            weights[weights < self.min_p] = 0.0  # the likeliest weighs 1
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
