"""A cache of the last words: recent words are likely to come again.

    p_cache(w at t) ~ sum over i in [t - S, t) with w_i = w of  exp(theta h_t . h_i) decay^(t - i - 1)

Shapes: B rows, T steps (words to come), N words remembered, S the most that are remembered, H features, V words that
can be predicted, G ways of weighing, Q queries and C columns of a block.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import OptionError
from thereafter.models.base import Fields, Floats, Ids, Logs, ModelFacts, S, SequenceModel
from thereafter.models.mixture import mix

TOKENS_AT_ONCE = 4096
"""How many tokens are read at once, so that the features of a whole text never exist."""

WEIGHT, THETA, DECAY = 0.1, 0.3, 0.995

Kind = TypeVar("Kind", np.int64, np.float32)

NOTHING = -1
"""Marks places where a row remembers no word."""


@dataclass(frozen=True)
class CacheSettings:
    """The options of a cache.

    `size`: how many words are remembered. `weight`: the share of the cache in every prediction. `theta`: how much more
    words count that came in a similar context (neural models; 0 not at all). `decay`: the weight of each word
    relative to the one after it. None: chosen by the kind of model, or tuned if there is a text to tune on.
    """

    size: int = 500
    weight: float | None = None
    theta: float | None = None
    decay: float | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise OptionError(f"the cache's size is {self.size}; expected 1 word or more; try 500")
        if self.weight is not None and not 0 <= self.weight < 1:
            raise OptionError(f"the cache's weight is {self.weight:g}; expected a share from 0 to below 1; try 0.1")
        if self.theta is not None and not (self.theta >= 0 and math.isfinite(self.theta)):
            raise OptionError(f"the cache's theta is {self.theta:g}; expected 0 or more; try {THETA}")
        if self.decay is not None and not 0 < self.decay <= 1:
            raise OptionError(f"the cache's decay is {self.decay:g}; expected above 0, at most 1; try {DECAY}")

    def complete(self, model: SequenceModel[S]) -> CacheSettings:
        """The same with every choice made for a model."""
        weight = WEIGHT if self.weight is None else self.weight
        if model.facts.features:
            theta = THETA if self.theta is None else self.theta
            return replace(self, weight=weight, theta=theta, decay=1.0 if self.decay is None else self.decay)
        if self.theta:
            raise OptionError(
                f"the cache's theta is {self.theta:g}, and this model has no features to compare: neural models have; "
                "try leaving theta out"
            )
        return replace(self, weight=weight, theta=0.0, decay=DECAY if self.decay is None else self.decay)

    def describe(self) -> str:
        """The settings in a few words, for a score."""
        how = [f"theta {self.theta:.3g}"] if self.theta else []
        how += [f"decay {self.decay:.4g}"] if self.decay is not None and self.decay < 1 else []
        return f"a cache of {self.size:,} tokens ({', '.join([*how, f'weight {self.weight:.3g}'])})"


@dataclass(frozen=True)
class CacheState(Generic[S]):
    """The model's own state, the last words, and the features that each of them was predicted from.

    A row that remembers fewer words than others has `NOTHING` before them.
    """

    inner: S
    words_BN: NDArray[np.int64]
    keys_BNH: Floats | None = None

    def select(self, index: Ids) -> CacheState[S]:
        words_BN = self.words_BN[index]
        empty = _padding(words_BN)
        keys = None if self.keys_BNH is None else self.keys_BNH[index][:, empty:]
        return CacheState(self.inner.select(index), words_BN[:, empty:], keys)

    def key(self) -> Hashable:
        keys = None if self.keys_BNH is None else self.keys_BNH.tobytes()
        return self.inner.key(), self.words_BN.shape, self.words_BN.tobytes(), keys


class CacheModel(SequenceModel[CacheState[S]]):
    """A model interpolated with a memory of its last words:

        p(w) = (1 - weight) p_model(w) + weight p_cache(w)
        p_cache(w at t) ~ sum over the last words i with w_i = w of  exp(theta h_t . h_i) decay^(t - i - 1)

    h_i are the features that w_i was predicted from. With them it is the continuous cache of Grave, Joulin and Usunier
    2017; without them the cache of Kuhn and De Mori 1990, with the decay of Clarkson and Robinson 1997. While nothing
    is remembered p is p_model. The memory does not end with a line, whatever the model's context.
    """

    def __init__(self, model: SequenceModel[S], settings: CacheSettings | None = None) -> None:
        self.model = model
        self.settings = (settings or CacheSettings()).complete(model)
        self.vocabulary_size = model.vocabulary_size
        self._way = Way(self.settings.theta or 0.0, self.settings.decay or 1.0)
        weight = self.settings.weight or 0.0
        self._log_weights = np.array([math.log1p(-weight), math.log(weight) if weight else -math.inf])

    @property
    def facts(self) -> ModelFacts:
        """The model's, but for what the memory changes: it continues over line ends, and has no features."""
        return replace(self.model.facts, restart=None, features=0, differentiable=False)

    def start(self, batch: int) -> CacheState[S]:
        inner = self.model.start(batch)
        query_BH = self._query(inner)
        keys = None if query_BH is None else query_BH[:, None][:, :0]
        return CacheState(inner, np.empty((batch, 0), dtype=np.int64), keys)

    def predict(self, state: CacheState[S]) -> Floats:
        return self._with_cache(np.asarray(self.model.predict(state.inner)), state)

    def step(self, token_B: Ids, state: CacheState[S]) -> tuple[Floats, CacheState[S]]:
        query_BH = self._query(state.inner)  # before the step: a model that learns has changed after it
        queries = None if query_BH is None else query_BH[:, None]
        logp_BV, inner = self.model.step(token_B, state.inner)
        after = self._remember(state, inner, np.asarray(token_B).reshape(-1, 1), queries)
        return self._with_cache(np.asarray(logp_BV), after), after

    def read(self, tokens_BT: Ids, state: CacheState[S]) -> CacheState[S]:
        if state.keys_BNH is not None:
            return self.apart(tokens_BT, state, ())[2]
        return self._remember(state, self.model.read(tokens_BT, state.inner), np.asarray(tokens_BT), None)

    def stack(self, states: Sequence[CacheState[S]]) -> CacheState[S]:
        width = max(state.words_BN.shape[1] for state in states)
        words = [_widened(state.words_BN, width, NOTHING) for state in states]
        keys = [_widened(state.keys_BNH, width, 0) for state in states if state.keys_BNH is not None]
        inner = self.model.stack([state.inner for state in states])
        return CacheState(inner, np.concatenate(words), np.concatenate(keys) if keys else None)

    def log_probs(self, tokens_BT: Ids, state: CacheState[S]) -> tuple[Floats, CacheState[S]]:
        plain_BT, cached_GBT, state = self.apart(tokens_BT, state, [self._way])
        return mix([plain_BT, cached_GBT[0]], self._log_weights), state

    def apart(self, tokens_BT: Ids, state: CacheState[S], ways: Sequence[Way]) -> tuple[Floats, Floats, CacheState[S]]:
        """log p of each token under the model [B, T] and under the memory, weighed in each of the ways [G, B, T].

        While nothing is remembered the memory predicts what the model predicts.
        """
        tokens = np.asarray(tokens_BT)
        if tokens.ndim != 2:
            raise OptionError(f"tokens have {tokens.ndim} axes; expected [rows, steps]")
        plain_BT = np.empty(tokens.shape, dtype=np.float32)
        cached_GBT = np.empty((len(ways), *tokens.shape), dtype=np.float32)
        size = max(1, TOKENS_AT_ONCE // max(1, len(tokens)))
        with progress.task("reading with a memory", total=tokens.shape[1], unit="tokens") as advance:
            for begin in range(0, tokens.shape[1], size):
                piece = slice(begin, begin + size)
                plain_BT[:, piece], queries_BTH, inner = self.model.observe(tokens[:, piece], state.inner)
                if state.keys_BNH is None:
                    queries_BTH = None
                for b, words_T in enumerate(tokens[:, piece]):
                    empty = _padding(state.words_BN[b : b + 1])
                    keys_NH = None if state.keys_BNH is None else state.keys_BNH[b, empty:]
                    queries_TH = None if queries_BTH is None else queries_BTH[b]
                    past = (state.words_BN[b, empty:], keys_NH)
                    cached_GBT[:, b, piece] = recalled(*past, words_T, queries_TH, self.settings.size, ways)
                state = self._remember(state, inner, tokens[:, piece], queries_BTH)
                advance(min(size, tokens.shape[1] - begin))
        return plain_BT, np.where(np.isnan(cached_GBT), plain_BT, cached_GBT), state

    def context_sizes(self, tokens_T: Ids) -> NDArray[np.int64]:
        """The model's own or the words remembered, whichever are more."""
        remembered = np.minimum(np.arange(len(tokens_T)), self.settings.size)
        return np.maximum(self.model.context_sizes(tokens_T), remembered)

    def input_embedding(self) -> Floats | None:
        return self.model.input_embedding()

    def record(self, tokens_T: Ids, state: CacheState[S]) -> Fields:
        """The model's record, log p of the observed tokens, and the share of that probability due to the memory."""
        tokens = np.asarray(tokens_T)
        plain_1T, cached_G1T, _ = self.apart(tokens.reshape(1, -1), state, [self._way])
        logp_T = mix([plain_1T, cached_G1T[0]], self._log_weights)[0]
        from_model_T = np.add(plain_1T[0], self._log_weights[0], dtype=np.float64)
        share_T = -np.expm1(np.minimum(0.0, from_model_T - np.where(np.isneginf(logp_T), 0, logp_T)))
        own: Fields = {"log_prob": (("step",), logp_T), "cache": (("step",), share_T.astype(np.float32))}
        return self.model.record(tokens, state.inner) | own

    def _with_cache(self, logp_BV: Logs, state: CacheState[S]) -> Floats:
        if not state.words_BN.shape[1]:
            return logp_BV
        query = self._query(state.inner)
        cached = recalled_words(state.words_BN, state.keys_BNH, query, self._way, self.vocabulary_size)
        mixed_BV = mix([logp_BV, cached], self._log_weights)
        nothing_B = state.words_BN[:, -1] == NOTHING
        if nothing_B.any():
            mixed_BV[nothing_B] = logp_BV[nothing_B]
        return mixed_BV

    def _query(self, inner: S) -> Floats | None:
        return self.model.last_features(inner) if self._way.theta else None

    def _remember(self, state: CacheState[S], inner: S, words_BT: Ids, queries_BTH: Floats | None) -> CacheState[S]:
        size = self.settings.size
        words = np.concatenate([state.words_BN, words_BT[:, -size:]], axis=1)[:, -size:]
        keys = None
        if state.keys_BNH is not None and queries_BTH is not None:
            keys = np.concatenate([state.keys_BNH, queries_BTH[:, -size:]], axis=1)[:, -size:]
        return CacheState(inner, words, keys)


def _padding(words_BN: NDArray[np.int64]) -> int:
    """Columns at the beginning in which no row remembers anything."""
    return int((words_BN == NOTHING).all(axis=0).sum())


def _widened(array_BN: NDArray[Kind], width: int, filler: int) -> NDArray[Kind]:
    """The array with columns of the filler before it."""
    missing = width - array_BN.shape[1]
    if not missing:
        return array_BN
    return np.pad(array_BN, [(0, 0), (missing, 0)] + [(0, 0)] * (array_BN.ndim - 2), constant_values=filler)


QUERIES_AT_ONCE = 256


class Way(NamedTuple):
    """How remembered words are weighed: exp(theta h_t . h_i) decay^(t - i - 1)."""

    theta: float
    decay: float


def recalled(
    words_N: Ids, keys_NH: Floats | None, words_T: Ids, queries_TH: Floats | None, size: int, ways: Sequence[Way]
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
