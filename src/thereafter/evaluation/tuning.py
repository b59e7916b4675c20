"""Weights and rates chosen by how likely they make a text that is neither trained nor tested on.

Shapes: K models, N tokens, G settings tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import TrainingError
from thereafter.evaluation.dynamic_settings import DynamicSettings
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids
from thereafter.models.cache import CacheModel, CacheSettings, Way

if TYPE_CHECKING:
    from torch import Tensor

    from thereafter.models.neural import NeuralModel

MOST_TOKENS = 1_000_000
"""More of a text tells weights nothing new."""

RATE_TOKENS = 20_000
"""A learning rate is chosen on the first so many tokens: each try reads them anew."""

LIKENESSES = (0.0, 1.5, 3.0, 6.0, 9.0, 15.0, 30.0)
"""theta times the mean of |h|^2: how large features are differs from model to model."""

DECAYS = (0.98, 0.99, 0.995, 0.998, 1.0)

PIECE = 4096
_SAMPLE = 1000
_GAP = 1e-7
_ROUNDS = 5000
_FACTOR = 2.0
_TRIES = 8


def best_weights(logp_KN: NDArray[np.floating]) -> NDArray[np.float64]:
    """The weights of a mixture under which a text is likeliest, [K], by expectation and maximisation:

        share_kn = w_k p_kn / sum_j w_j p_jn,    w_k <- mean_n share_kn

    (Dempster, Laird and Rubin 1977.) The problem is convex, and `max_k mean_n p_kn / p_n - 1` bounds what is still to
    be won in nats a token: rounds end when that is nothing. Tokens that no model thinks possible say nothing.

    >>> best_weights(np.log([[0.5, 0.5, 0.5], [0.9, 0.9, 0.1]])).round(3).tolist()
    [0.583, 0.417]
    """
    models = len(logp_KN)
    most_N = np.max(logp_KN, axis=0)
    known_N = np.isfinite(most_N)
    weights_K = np.full(models, 1.0 / models)
    if not known_N.any():
        return weights_K
    p_KN = np.exp(np.asarray(logp_KN, dtype=np.float64)[:, known_N] - most_N[known_N])
    for _ in range(_ROUNDS):
        gain_K = p_KN @ (1.0 / (weights_K @ p_KN)) / p_KN.shape[1]
        if gain_K.max() - 1 < _GAP:
            break
        weights_K = weights_K * gain_K
        weights_K /= weights_K.sum()
    return weights_K


def log_probs_of(model: AnyModel, ids_N: Ids) -> NDArray[np.float32]:
    """log p of every token of a text, [N]."""
    logp_N = np.empty(len(ids_N), dtype=np.float32)
    state = model.start(1)
    for piece in _pieces("tuning", len(ids_N)):
        logp_1N, state = model.log_probs(ids_N[None, piece], state)
        logp_N[piece] = np.asarray(logp_1N)[0]
    return logp_N


def tune_cache(model: AnyModel, ids_N: Ids, settings: CacheSettings) -> CacheSettings:
    """The cache that makes a text likeliest: what the settings leave open is tried, the model reads the text once."""
    ways = _ways(model, ids_N, settings)
    widest = max(ways)  # one that needs the features, where any does
    cached = CacheModel(model, replace(settings, theta=widest.theta, decay=widest.decay))
    plain_N = np.empty(len(ids_N), dtype=np.float32)
    cached_GN = np.empty((len(ways), len(ids_N)), dtype=np.float32)
    state = cached.start(1)
    for piece in _pieces("tuning the cache", len(ids_N)):
        plain, by_way, state = cached.apart(ids_N[None, piece], state, ways)
        plain_N[piece], cached_GN[:, piece] = plain[0], by_way[:, 0]
    best, most = settings, -np.inf
    for way, cached_N in zip(ways, cached_GN, strict=True):
        both_KN = np.stack([plain_N, cached_N])
        weight = float(best_weights(both_KN)[1]) if settings.weight is None else settings.weight
        total = _likelihood(both_KN, np.array([1 - weight, weight]))
        if total > most:
            best, most = replace(settings, weight=min(weight, 0.999), theta=way.theta, decay=way.decay), total
    return best


def tune_rate(
    model: NeuralModel, ids_N: Ids, settings: DynamicSettings, statistics: list[Tensor] | None
) -> DynamicSettings:
    """Dynamic evaluation with the best rate: from the usual one up or down while the text gets likelier."""
    from thereafter.evaluation.dynamic import DynamicModel

    if settings.rate is not None:
        return settings
    usual = settings.complete(statistics is not None)
    tried: dict[int, float] = {}

    def nats(power: int) -> float:
        if power not in tried:
            now = replace(usual, rate=(usual.rate or 0.0) * _FACTOR**power)
            try:
                with DynamicModel(model, now, statistics) as adapted:
                    tried[power] = -float(log_probs_of(adapted, ids_N[:RATE_TOKENS]).sum(dtype=float))
            except TrainingError:  # too fast to stay a number: no rate for anybody
                tried[power] = np.inf
        return tried[power]

    at = 0
    way = 1 if nats(1) < nats(0) else -1
    while len(tried) < _TRIES and nats(at + way) < nats(at):
        at += way
    return replace(usual, rate=(usual.rate or 0.0) * _FACTOR**at)


def _ways(model: AnyModel, ids_N: Ids, settings: CacheSettings) -> list[Way]:
    thetas: tuple[float, ...]
    decays: tuple[float, ...]
    if model.facts.features:
        thetas = _thetas(model, ids_N) if settings.theta is None else (settings.theta,)
        decays = (1.0,) if settings.decay is None else (settings.decay,)
    else:
        thetas = (settings.complete(model).theta or 0.0,)
        decays = DECAYS if settings.decay is None else (settings.decay,)
    return [Way(theta, decay) for theta in thetas for decay in decays]


def _thetas(model: AnyModel, ids_N: Ids) -> tuple[float, ...]:
    _, before_1TH, _ = model.observe(ids_N[None, :_SAMPLE], model.start(1))
    square = 1.0 if before_1TH is None else float(np.square(before_1TH).sum(axis=-1).mean())
    return tuple(float(f"{likeness / max(square, 1e-9):.3g}") for likeness in LIKENESSES)


def _likelihood(logp_KN: NDArray[np.floating], weights_K: NDArray[np.float64]) -> float:
    """The mean log p of the tokens that some model thinks possible."""
    most_N = logp_KN.max(axis=0)
    known_N = np.isfinite(most_N)
    p_N = weights_K @ np.exp(logp_KN[:, known_N].astype(np.float64) - most_N[known_N])
    return float((np.log(np.maximum(p_N, 1e-300)) + most_N[known_N]).mean()) if known_N.any() else -np.inf


def _pieces(label: str, tokens: int) -> Iterator[slice]:
    with progress.task(label, total=tokens, unit="tokens") as advance:
        for begin in range(0, tokens, PIECE):
            yield slice(begin, begin + PIECE)
            advance(min(PIECE, tokens - begin))
