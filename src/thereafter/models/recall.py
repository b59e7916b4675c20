"""How likely each word is under a memory of the words before it.

    p_cache(w at t) ~ sum over i in [t - S, t) with w_i = w of  exp(theta h_t . h_i) decay^(t - i - 1)

Shapes: N words remembered at first, T words to come, S the most that are remembered, H features, G ways of weighing,
Q queries and C columns of a block, B rows, V words that can be predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thereafter.models.base import Floats, Ids

QUERIES_AT_ONCE = 256


class Way(NamedTuple):
    """How remembered words are weighed: exp(theta h_t . h_i) decay^(t - i - 1)."""

    theta: float
    decay: float


def recalled(
    words_N: Ids,
    keys_NH: Floats | None,
    words_T: Ids,
    queries_TH: Floats | None,
    size: int,
    ways: Sequence[Way],
) -> Floats:
    """log p_cache of each of the words to come, [G, T]; -inf where it is not remembered, nan where nothing is.

    The words to come are remembered as they come, each with the features it was predicted from. Without features theta
    counts for nothing.
    """
    before, steps = len(words_N), len(words_T)
    words = np.concatenate([words_N, words_T])
    keys = None if keys_NH is None or queries_TH is None else np.concatenate([keys_NH, queries_TH])
    logp_GT = np.full((len(ways), steps), np.nan, dtype=np.float32)
    for begin in range(0, steps, QUERIES_AT_ONCE):
        end = min(begin + QUERIES_AT_ONCE, steps)
        first, last = max(0, before + begin - size), before + end - 1
        columns = slice(first, last)
        if last == first:
            continue
        # how many words ago: 0 is the word just before the query
        age_QC = (before + np.arange(begin, end))[:, None] - np.arange(first, last) - 1
        seen_QC = (age_QC >= 0) & (age_QC < size)
        same_QC = words[columns] == words_T[begin:end, None]
        like_QC = None
        if keys is not None and queries_TH is not None and any(way.theta for way in ways):
            like_QC = queries_TH[begin:end] @ keys[columns].T
        for g, way in enumerate(ways):
            logp_GT[g, begin:end] = _share(_weigh(like_QC, age_QC, way), seen_QC, same_QC)
    return logp_GT


def recalled_words(
    words_BN: Ids, keys_BNH: Floats | None, query_BH: Floats | None, way: Way, vocabulary_size: int
) -> Floats:
    """log p_cache of every word, [B, V]; -inf where nothing is remembered. Words below 0 count for nothing."""
    rows, count = words_BN.shape
    age_BN = np.broadcast_to(np.arange(count - 1, -1, -1), (rows, count))
    like_BN = None
    if keys_BNH is not None and query_BH is not None and way.theta:
        like_BN = np.matmul(keys_BNH, query_BH[:, :, None])[:, :, 0]
    weight_BN = _weigh(like_BN, age_BN, way)
    weight_BN = np.where(words_BN < 0, -np.inf, weight_BN)
    most_B1 = weight_BN.max(axis=1, keepdims=True)
    weight_BN = np.exp(weight_BN - np.where(np.isneginf(most_B1), 0, most_B1)).astype(np.float64)
    whole_B1 = weight_BN.sum(axis=1, keepdims=True)
    p_BV = np.zeros((rows, vocabulary_size))
    np.add.at(p_BV, (np.arange(rows)[:, None], words_BN), weight_BN / np.where(whole_B1 > 0, whole_B1, 1))
    return _log(p_BV)


def _weigh(like: Floats | None, age: Ids, way: Way) -> Floats:
    """The logs of the weights, up to a constant."""
    if like is None or not way.theta:
        by_age: Floats = np.multiply(age, math.log(way.decay), dtype=np.float32)
        return by_age
    weighed: Floats = np.multiply(like, way.theta, dtype=np.float32)
    if way.decay != 1:
        weighed += np.multiply(age, math.log(way.decay), dtype=np.float32)
    return weighed


def _share(weighed_QC: Floats, seen_QC: NDArray[np.bool_], same_QC: NDArray[np.bool_]) -> Floats:
    """The log of the share that the same word has in all that is seen, [Q]; nan where nothing is."""
    weighed_QC[~seen_QC] = -np.inf
    most_Q1 = weighed_QC.max(axis=1, keepdims=True)
    nothing_Q1 = np.isneginf(most_Q1)
    weight_QC = np.exp(np.subtract(weighed_QC, np.where(nothing_Q1, 0, most_Q1), out=weighed_QC), out=weighed_QC)
    whole_Q = weight_QC.sum(axis=1, dtype=np.float64)
    same_Q = np.multiply(weight_QC, same_QC, out=weight_QC).sum(axis=1, dtype=np.float64)
    share_Q = np.divide(same_Q, whole_Q, out=np.full(len(whole_Q), np.nan), where=~nothing_Q1[:, 0])
    return _log(share_Q)


def _log(p: NDArray[np.float64]) -> Floats:
    return np.log(p, out=np.full(p.shape, -np.inf), where=~(p <= 0)).astype(np.float32)
