"""Switches on scoring: a cache, dynamic evaluation, the weights of a mixture; given, or tuned on another text.

Each model of a mixture gets what it can have, and a sentence says what it got, so that no score made with a switch can
be taken for one without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from thereafter.base import config as toml
from thereafter.errors import OptionError
from thereafter.evaluation.dynamic_settings import DynamicSettings
from thereafter.evaluation.tuning import best_weights, log_probs_of, tune_cache, tune_rate
from thereafter.models.any_model import AnyModel
from thereafter.models.base import NOT_NORMALISED, Ids, is_normalised
from thereafter.models.cache import CacheModel, CacheSettings
from thereafter.models.mixture import MixtureModel

if TYPE_CHECKING:
    from thereafter.models.neural import NeuralModel

S = TypeVar("S")

REMEDY = "try training it without normalise=false"
"""Stupid back-off is the only model that gives no probabilities, and only with normalise=false."""

TrainingText = Callable[[AnyModel], "Ids | None"]
"""Some tokens a model was trained on; None where that text cannot be found again."""


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
        """From what a user may write: True, some settings by name, or all of them."""
        return cls(_settings(CacheSettings, cache, "cache"), _settings(DynamicSettings, dynamic, "dynamic"))

    @property
    def any(self) -> bool:
        return self.cache is not None or self.dynamic is not None


@dataclass(frozen=True)
class Switched:
    """A model as it is scored, what makes it another than the plain one ("" where nothing does), a mixture's weights.

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
    """The model with what is wanted, for as long as the block lasts; its weights are its own again afterwards.

    What the settings leave open is tuned on the tokens `tune`, where there are any. `training_text` is asked for by
    dynamic evaluation.
    """
    if tune is not None and not (wanted.any or isinstance(model, MixtureModel)):
        raise OptionError(
            "there is nothing to tune: no cache, no dynamic evaluation and no mixture was asked for; "
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
        switched = self._one(model)
        text = switched.description
        return replace(switched, description=f"with {text}") if text else switched

    def _mixture(self, model: MixtureModel) -> Switched:
        parts = [self._mixture(part) if isinstance(part, MixtureModel) else self._one(part) for part in model.models]
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

    def _one(self, model: AnyModel) -> Switched:
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
    """The models a mixture is made of, mixtures in it taken apart too."""
    return [leaf for part in model.models for leaf in leaves(part)] if isinstance(model, MixtureModel) else [model]


def neural(model: AnyModel) -> NeuralModel | None:
    """The model where it learns by gradients; torch, which may not be here, is imported for no other."""
    if not model.facts.differentiable:
        return None
    from thereafter.models.neural import NeuralModel

    return model if isinstance(model, NeuralModel) else None


def _settings(kind: type[S], given: bool | Mapping[str, object] | S, name: str) -> S | None:
    if isinstance(given, kind):
        return given
    if isinstance(given, bool):
        return kind() if given else None
    if isinstance(given, Mapping):
        return toml.build(kind, given, name)
    raise OptionError(f"{name} is {given!r}; expected True, False or settings by name; try {name}=True")
