"""Switches on scoring: a cache, dynamic evaluation, the weights of a mixture; fixed, or tuned on another text.

Each model of a mixture gets the switches that it supports, and a sentence lists them, so that no score made with a
switch can be taken for one without. Open settings are tuned on a text that is neither trained nor tested on.

Shapes: K models, N tokens, G settings tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.errors import OptionError, TrainingError
from thereafter.evaluation.dynamic_settings import DynamicSettings
from thereafter.models.any_model import AnyModel
from thereafter.models.base import NOT_NORMALISED, Ids, is_normalised
from thereafter.models.cache import CacheModel, CacheSettings, Way
from thereafter.models.mixture import MixtureModel

if TYPE_CHECKING:
    from torch import Tensor

    from thereafter.models.neural import NeuralModel


S = TypeVar("S")

REMEDY = "try training it without normalise=false"
"""Stupid back-off is the only model whose scores are not probabilities, and only with normalise=false."""

TrainingText = Callable[[AnyModel], "Ids | None"]
"""Some tokens a model was trained on; None if that text is no longer available."""


@dataclass(frozen=True)
class Switches:
    """What is to be switched on; None is off."""

    cache: CacheSettings | None = None
    dynamic: DynamicSettings | None = None

    @classmethod
    def of(
        cls,
        cache: bool | Mapping[str, object] | CacheSettings = False,
        dynamic: bool | Mapping[str, object] | DynamicSettings = False,
    ) -> Switches:
        """From a user's options: True, some settings by name, or all of them."""
        return cls(_settings(CacheSettings, cache, "cache"), _settings(DynamicSettings, dynamic, "dynamic"))

    @property
    def any(self) -> bool:
        return self.cache is not None or self.dynamic is not None


@dataclass(frozen=True)
class Switched:
    """A model as it is scored, its switches in words ("" without any), and the weights of a mixture.

    `caches` and `dynamics` are the settings that were used, in the order of the models.
    """

    model: AnyModel
    description: str = ""
    weights: tuple[float, ...] = ()
    caches: tuple[CacheSettings, ...] = ()
    dynamics: tuple[DynamicSettings, ...] = ()


@contextmanager
def switched_on(
    model: AnyModel, wanted: Switches, tune: Ids | None = None, training_text: TrainingText | None = None
) -> Iterator[Switched]:
    """The model with the requested switches inside the block; its own weights are restored afterwards.

    What the settings leave open is tuned on the tokens `tune`, if there are any. `training_text` is needed by
    dynamic evaluation.
    """
    if tune is not None and not (wanted.any or isinstance(model, MixtureModel)):
        raise OptionError(
            "there is nothing to tune: no cache, no dynamic evaluation and no mixture was requested; "
            "try cache=True (--cache) with it, or leave tune out"
        )
    if tune is not None and not is_normalised(model):
        raise OptionError(f"nothing can be tuned on a model that gives no probabilities: {NOT_NORMALISED}; {REMEDY}")
    with ExitStack() as stack:
        yield _Switching(wanted, tune, training_text, stack).switch(model)


class _Switching:
    """One walk through a model and its parts."""

    def __init__(
        self, wanted: Switches, tune: Ids | None, training_text: TrainingText | None, stack: ExitStack
    ) -> None:
        self.wanted, self.tune, self.training_text, self.stack = wanted, tune, training_text, stack
        self._adapted: set[int] = set()
        self._theta_is_for_others = False

    def switch(self, model: AnyModel) -> Switched:
        if self.wanted.dynamic is not None and all(neural(leaf) is None for leaf in leaves(model)):
            raise OptionError(
                "dynamic evaluation is learning by gradients, which only neural models do; this one has none; "
                "try cache=True (--cache), which works for every model"
            )
        if isinstance(model, MixtureModel):
            self._theta_is_for_others = any(leaf.facts.features for leaf in leaves(model))
            return self._mixture(model)
        switched = self._leaf(model)
        text = switched.description
        return replace(switched, description=f"with {text}") if text else switched

    def _mixture(self, model: MixtureModel) -> Switched:
        parts = [self._mixture(part) if isinstance(part, MixtureModel) else self._leaf(part) for part in model.models]
        weights = model.weights
        if self.tune is not None:
            logp_KN = np.stack([log_probs_of(part.model, self.tune) for part in parts])
            weights = tuple(best_weights(logp_KN).tolist())
        mixed = MixtureModel([part.model for part in parts], weights, model.names)
        named = [
            f"{weight:.3g} {name}{f' with {part.description}' if part.description else ''}"
            for weight, name, part in zip(weights, model.names, parts, strict=True)
        ]
        return Switched(
            mixed,
            f"mixture of {', '.join(named)}",
            weights,
            tuple(cache for part in parts for cache in part.caches),
            tuple(dynamic for part in parts for dynamic in part.dynamics),
        )

    def _leaf(self, model: AnyModel) -> Switched:
        switched = Switched(model)
        learner = None if self.wanted.dynamic is None else neural(model)
        if self.wanted.dynamic is not None and learner is not None:
            switched = self._dynamic(learner, self.wanted.dynamic)
        if self.wanted.cache is not None:
            switched = self._cache(switched, self.wanted.cache)
        return switched

    def _dynamic(self, model: NeuralModel, settings: DynamicSettings) -> Switched:
        from thereafter.evaluation.dynamic import DynamicModel, gradient_statistics

        if id(model) in self._adapted:
            raise OptionError(
                "one and the same model is in the mixture twice and cannot learn twice; try loading it twice"
            )
        self._adapted.add(id(model))
        statistics = None
        if settings.rule in (None, "rms") and self.training_text is not None:
            ids = self.training_text(model)
            if ids is not None and len(ids) > settings.segment:
                statistics = gradient_statistics(model, ids, settings.segment)
        if self.tune is not None:
            settings = tune_rate(model, self.tune, settings, statistics)
        adapted = self.stack.enter_context(DynamicModel(model, settings, statistics))
        return Switched(adapted, adapted.settings.describe(), dynamics=(adapted.settings,))

    def _cache(self, switched: Switched, settings: CacheSettings) -> Switched:
        if self._theta_is_for_others and not switched.model.facts.features:
            settings = replace(settings, theta=None)
        if self.tune is not None:
            settings = tune_cache(switched.model, self.tune, settings)
        cached = CacheModel(switched.model, settings)
        text = " and ".join(filter(None, [switched.description, cached.settings.describe()]))
        return Switched(cached, text, caches=(cached.settings,), dynamics=switched.dynamics)


def leaves(model: AnyModel) -> list[AnyModel]:
    """The models of a mixture, including those of nested mixtures."""
    return [leaf for part in model.models for leaf in leaves(part)] if isinstance(model, MixtureModel) else [model]


def neural(model: AnyModel) -> NeuralModel | None:
    """The model if it is trained by gradients, else None; torch, which is optional, is imported for no other."""
    if not model.facts.differentiable:
        return None
    from thereafter.models.neural import NeuralModel

    return model if isinstance(model, NeuralModel) else None


def _settings(kind: type[S], requested: bool | Mapping[str, object] | S, name: str) -> S | None:
    if isinstance(requested, kind):
        return requested
    if isinstance(requested, bool):
        return kind() if requested else None
    if isinstance(requested, Mapping):
        return toml.build(kind, requested, name)
    raise OptionError(f"{name} is {requested!r}; expected True, False or settings by name; try {name}=True")


MOST_TOKENS = 1_000_000
"""Tokens that suffice to tune the weights."""

RATE_TOKENS = 20_000
"""A learning rate is chosen on this many first tokens: each trial reads them again."""

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

    (Dempster, Laird and Rubin 1977.) The problem is convex, and `max_k mean_n p_kn / p_n - 1` bounds what can still
    be gained in nats per token: iterations stop when that is nothing. Tokens impossible for all models are ignored.

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
    widest = max(ways)  # one that needs the features, if any does
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
            except TrainingError:  # the score is nan: a useless rate
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
