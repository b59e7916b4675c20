"""The contract of models made of other models, of a stranger's model, and of models that leave something out."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from members import assert_every_member_answers, assert_rows_stack
from torch import Tensor
from wrapped import END, V, assert_every_way, counted, lstm, made, rows

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.evaluation.dynamic import DynamicModel
from thereafter.evaluation.dynamic_settings import DynamicSettings
from thereafter.evaluation.switches import Switches, switched_on
from thereafter.models.base import Fields, Ids, Logs, ModelFacts, SequenceModel
from thereafter.models.cache import CacheModel, CacheSettings
from thereafter.models.mixture import MixtureModel
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import NeuralState
from thereafter.models.settings import NeuralSettings

IDS = rows(1, 20)[0]
MADE: dict[str, Callable[[], SequenceModel[Any]]] = {
    "mixture": lambda: MixtureModel([counted(), lstm()], [0.3, 0.7]),
    "mixture of lines": lambda: MixtureModel([counted(), lstm("line")], [0.3, 0.7]),
    "cache of counts": lambda: CacheModel(counted()),
    "cache of features": lambda: CacheModel(lstm("line"), CacheSettings(size=6, weight=0.3, theta=0.4)),
    "cache of a mixture": lambda: CacheModel(MADE["mixture"]()),
    "mixture of caches": lambda: MixtureModel([CacheModel(counted()), MADE["cache of features"]()], [0.5, 0.5]),
    "stranger": lambda: Uniform(),
    "cache of a stranger": lambda: CacheModel(Uniform()),
}


@dataclass(frozen=True)
class Rows:
    """Nothing is remembered but how many rows there are."""

    count: int

    def select(self, index: Ids) -> Rows:
        return Rows(len(index))

    def key(self) -> Hashable:
        return self.count


class Uniform(SequenceModel[Rows]):
    """The least that a model must say of itself: every word is as likely as any other."""

    vocabulary_size = V

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(vocabulary_size=V, parameters=1)

    def start(self, batch: int) -> Rows:
        return Rows(batch)

    def predict(self, state: Rows) -> Logs:
        return np.full((state.count, V), -np.log(V), dtype=np.float32)

    def step(self, token_B: Ids, state: Rows) -> tuple[Logs, Rows]:
        return self.predict(state), state

    def log_probs(self, tokens_BT: Ids, state: Rows) -> tuple[Logs, Rows]:
        return np.full(tokens_BT.shape, -np.log(V), dtype=np.float32), state

    def record(self, tokens_T: Ids, state: Rows) -> Fields:
        return {"log_prob": (("step",), self.log_probs(tokens_T[None], state)[0][0])}


@pytest.mark.parametrize("name", MADE)
def test_every_member_answers(name: str) -> None:
    assert_every_member_answers(MADE[name](), IDS)


@pytest.mark.parametrize("name", [name for name in MADE if "stranger" not in name])
def test_rows_of_a_model_made_of_others_are_stacked(name: str) -> None:
    assert_rows_stack(MADE[name](), rows(1, 40)[0])


def test_a_model_that_cannot_stack_says_so() -> None:
    model = Uniform()
    assert model.stack([model.start(2)]) == Rows(2)
    with assert_refused(OptionError, "Uniform", 2, "stack"):
        CacheModel(model).stack([CacheModel(model).start(1)] * 2)


@pytest.mark.parametrize("context", ["stream", "line"])
def test_every_member_of_a_model_that_learns_answers(context: str) -> None:
    with DynamicModel(lstm(context), DynamicSettings(segment=4, rate=0.1)) as adapted:
        assert_every_member_answers(adapted, IDS)
        assert adapted.facts.features == 8
        assert adapted.facts.restart is None  # what it has learned outlives a line
        cached = CacheModel(adapted, CacheSettings(size=6, weight=0.3, theta=0.4))
        assert_every_member_answers(cached, IDS)


def test_what_a_model_made_of_others_says_of_itself() -> None:
    count, net = counted().facts, lstm("line").facts
    assert (count.restart, count.features, count.differentiable) == (END, 0, False)
    assert (net.restart, net.features, net.differentiable) == (END, 8, True)
    assert MADE["mixture of lines"]().facts == ModelFacts(V, count.parameters + net.parameters, restart=END)
    assert MADE["mixture"]().facts.restart is None  # one of the two reads on
    assert MADE["cache of features"]().facts == ModelFacts(V, net.parameters)
    bare = counted(smoothing="stupid-backoff")
    assert MixtureModel([bare, lstm()], [0.5, 0.5]).facts.normalised == bare.facts.normalised == bare.proper


def test_a_strangers_model_stands_wherever_a_model_stands() -> None:
    assert_every_way(Uniform(), rows())
    assert_every_way(MixtureModel([Uniform(), lstm()], [0.4, 0.6]), rows())
    with switched_on(Uniform(), Switches.of(cache=True)) as on:
        logp, _ = on.model.log_probs(np.full((1, 4), 5), on.model.start(1))
    assert logp[0, 0] == pytest.approx(-np.log(V))
    assert (logp[0, 1:] > logp[0, 0]).all()


def test_features_are_what_the_head_sees() -> None:
    model = made("lstm", {"hidden": 8}, "line")
    logp, features, _ = model.observe(IDS[None], model.start(1))
    found = model.head.log_prob_of(torch.from_numpy(features[0]), torch.from_numpy(IDS))
    np.testing.assert_allclose(logp[0], found.numpy(), rtol=1e-5)
    assert model.reader is model.embedding


class NoBody(NeuralModel):
    """A neural model that says how it begins and not how it reads."""

    def fresh(self, batch: int) -> NeuralState:
        return NeuralState({"nothing": torch.zeros(batch)})


class NoStart(NoBody):
    """One that reads but cannot begin: `fresh` is left to those who inherit from it again."""

    fresh = NeuralModel.fresh  # type: ignore[assignment]

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Any = None
    ) -> tuple[Tensor, Tensor | None, NeuralState]:
        return torch.zeros(*tokens_BT.shape, 1), None, state


class Unfinished(SequenceModel[Rows]):
    """A model that says nothing."""


def test_a_model_that_leaves_something_out_cannot_be_made() -> None:
    about: dict[str, Any] = {"vocabulary_size": V, "context": "stream", "line_end": END}
    with assert_refused(TypeError, "encode"):
        NoBody(NeuralSettings(), **about)
    with assert_refused(TypeError, "fresh"):
        NoStart(NeuralSettings(), **about)
    with assert_refused(TypeError, "facts, log_probs, predict, record, start"):
        Unfinished()
