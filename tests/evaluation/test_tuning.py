"""Weights and settings chosen on a text: against grids walked in full, and never on the text that is tested."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.evaluation import switches
from thereafter.evaluation.dynamic import DynamicModel
from thereafter.evaluation.dynamic_settings import DynamicSettings
from thereafter.evaluation.switches import Switches, best_weights, log_probs_of, switched_on, tune_cache, tune_rate
from thereafter.models.cache import CacheModel, CacheSettings

TEXT = "the cat sat on the mat\nthe dog sat on the log\na cat ate the fish on the mat\nwhere is the dog\n" * 8
HELD = "the dog ate the fish\nwhere is the log\na log sat on the dog\n" * 6
OTHER = "where is the fish\nthe fish sat on a dog\na dog ate the fish\n" * 4


@cache
def trained(model: str) -> thereafter.LanguageModel:
    options: dict[str, Any] = {"order": 3} if model == "ngram" else {"hidden": 12, "layers": 1, "epochs": 4}
    return thereafter.train(text=TEXT, model=model, tokens="word", split="90/10", **options)


def held_ids(lm: thereafter.LanguageModel) -> np.ndarray:
    return lm.tokenizer.encode(HELD).astype(np.int64)


def likelihood(logp_KN: np.ndarray, weights: Any) -> float:
    return float(np.log(np.asarray(weights) @ np.exp(logp_KN)).mean())


def test_two_weights_are_those_of_a_fine_grid() -> None:
    rng = np.random.default_rng(0)
    for scale in (0.3, 1.0, 3.0):
        logp_KN = np.log(rng.dirichlet(np.full(5, 1 / scale), 400)[:, :2].T + 1e-9)
        weights_K = best_weights(logp_KN)
        grid = np.linspace(0, 1, 2001)[1:-1]
        best = max(grid, key=lambda w: likelihood(logp_KN, [w, 1 - w]))
        assert weights_K[0] == pytest.approx(best, abs=1e-3)
        assert likelihood(logp_KN, weights_K) >= likelihood(logp_KN, [best, 1 - best]) - 1e-6


def test_three_weights_are_those_of_a_grid() -> None:
    logp_KN = np.log(np.random.default_rng(3).dirichlet(np.ones(6), 300)[:, :3].T)
    weights_K = best_weights(logp_KN)
    steps = np.linspace(0.005, 0.99, 60)
    grid = [(a, b, 1 - a - b) for a in steps for b in steps if a + b < 0.999]
    assert likelihood(logp_KN, weights_K) >= max(likelihood(logp_KN, weights) for weights in grid) - 1e-7
    assert weights_K.sum() == pytest.approx(1)
    assert (weights_K >= 0).all()


def test_a_model_that_is_never_better_gets_nothing() -> None:
    good = np.log(np.random.default_rng(0).uniform(0.2, 0.9, 500))
    weights = best_weights(np.stack([good, good - 1.0]))
    assert weights[1] < 1e-4
    np.testing.assert_allclose(best_weights(np.stack([good, good])), 0.5)


def test_impossible_tokens_say_nothing() -> None:
    logp_KN = np.log(np.random.default_rng(0).uniform(0.1, 0.9, (2, 200)))
    with_holes = np.concatenate([logp_KN, np.full((2, 3), -np.inf)], axis=1)
    np.testing.assert_allclose(best_weights(with_holes), best_weights(logp_KN))
    one_sided = logp_KN.copy()
    one_sided[0, :50] = -np.inf
    assert np.isfinite(best_weights(one_sided)).all()
    np.testing.assert_array_equal(best_weights(np.full((2, 4), -np.inf)), 0.5)


def test_a_mixture_is_tuned_on_the_text_it_is_told() -> None:
    both = thereafter.mixture([trained("ngram"), trained("gru")], tune=thereafter_source(HELD))
    weights = both.config["mixture"]["weights"]
    ids = held_ids(both)
    logp_KN = np.stack([log_probs_of(trained(name).model, ids) for name in ("ngram", "gru")]).astype(float)
    grid = np.linspace(0.0005, 0.9995, 1000)
    best = max(grid, key=lambda w: likelihood(logp_KN, [w, 1 - w]))
    assert weights[0] == pytest.approx(best, abs=2e-3)
    mixed = both.score(text=HELD).nats
    assert mixed <= min(trained(name).score(text=HELD).nats for name in ("ngram", "gru")) + 1e-6


def thereafter_source(text: str) -> Any:
    from thereafter.text.sources import Source

    return Source.of_text(text, name="held")


@pytest.mark.parametrize("name", ["ngram", "gru"])
def test_the_cache_is_the_best_of_those_it_tries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "PIECE", 50)
    model, ids = trained(name).model, held_ids(trained(name))
    tuned_settings = tune_cache(model, ids, CacheSettings(size=30))
    ways: list[dict[str, float]] = [{"decay": decay} for decay in switches.DECAYS]
    if name == "gru":
        square = float(np.square(model.observe(ids[None], model.start(1))[1]).sum(axis=-1).mean())
        ways = [{"theta": float(f"{likeness / square:.3g}")} for likeness in switches.LIKENESSES]
    nats = {}
    for way in ways:
        for weight in np.linspace(0, 0.9, 46):
            settings = CacheSettings(size=30, weight=float(weight), **way)
            nats[settings] = -log_probs_of(CacheModel(model, settings), ids).sum(dtype=float)
    best = min(nats, key=lambda settings: nats[settings])
    tuned = -log_probs_of(CacheModel(model, tuned_settings), ids).sum(dtype=float)
    assert tuned <= nats[best] + 1e-3
    assert tuned_settings.weight == pytest.approx(best.weight, abs=0.03)
    assert tuned_settings.size == 30
    fixed = tune_cache(model, ids, replace(tuned_settings, weight=0.05))
    assert fixed == replace(tuned_settings, weight=0.05)


def test_the_rate_is_better_than_its_neighbours() -> None:
    model, ids = trained("gru").model, held_ids(trained("gru"))
    settings = DynamicSettings(segment=6, rule="sgd")
    tuned_settings: Any = tune_rate(model, ids, settings, None)  # type: ignore[arg-type]

    def nats(rate: float) -> float:
        with DynamicModel(model, replace(tuned_settings, rate=rate)) as adapted:  # type: ignore[arg-type]
            return -float(log_probs_of(adapted, ids).sum(dtype=float))

    usual = settings.complete(False).rate or 0.0
    assert nats(tuned_settings.rate) <= min(nats(tuned_settings.rate * 2), nats(tuned_settings.rate / 2)) + 1e-6
    assert nats(tuned_settings.rate) <= nats(usual)
    assert tune_rate(model, ids, replace(settings, rate=0.7), None).rate == 0.7  # type: ignore[arg-type]


def test_everything_at_once_is_said() -> None:
    both = thereafter.mixture([trained("ngram"), trained("gru")])
    score = both.score(text=OTHER, cache=True, dynamic=True, tune=thereafter_source(HELD))
    assert score.switches.startswith("mixture of ")
    assert score.switches.endswith("; tuned on held")
    assert score.switches.count("a cache of 500 tokens") == 2
    assert score.switches.count("dynamic evaluation (rms") == 1
    assert sum(score.weights) == pytest.approx(1)
    plain = both.score(text=OTHER)
    assert plain.weights == (0.5, 0.5)
    assert both.score(text=OTHER) == plain
    again = both.score(text=HELD, cache=True, dynamic=True, tune=thereafter_source(HELD))
    assert "this very text: a validation score" in again.switches
    assert again.nats < both.score(text=HELD).nats


def test_each_model_of_a_mixture_gets_what_it_can_have() -> None:
    both = thereafter.mixture([trained("ngram"), trained("gru")])
    switches = both.score(text=OTHER, cache={"theta": 0.7, "weight": 0.2}).switches
    assert "0.5 ngram with a cache of 500 tokens (decay 0.995, weight 0.2)" in switches
    assert "0.5 gru with a cache of 500 tokens (theta 0.7, weight 0.2)" in switches
    counted = thereafter.mixture([trained("ngram"), trained("ngram")])
    with assert_refused(OptionError, "features"):
        counted.score(text=OTHER, cache={"theta": 0.7})
    with assert_refused(OptionError, "neural"):
        counted.score(text=OTHER, dynamic=True)


def test_the_settings_that_were_used_can_be_used_again() -> None:
    both = thereafter.mixture([trained("ngram"), trained("gru")])
    ids = held_ids(both)
    with switched_on(both.model, Switches.of(cache=True, dynamic=True), ids) as switched:
        one = log_probs_of(switched.model, ids)
    assert [settings.theta is not None for settings in switched.caches] == [True, True]
    assert len(switched.dynamics) == 1
    with switched_on(trained("gru").model, Switches(switched.caches[1], switched.dynamics[0])) as alone:
        two = log_probs_of(alone.model, ids)
    with switched_on(trained("ngram").model, Switches(switched.caches[0])) as other:
        three = log_probs_of(other.model, ids)
    truth = np.log(np.asarray(switched.weights) @ np.exp(np.stack([three, two]).astype(float)))
    np.testing.assert_allclose(one, truth, rtol=1e-4)


def test_tuning_that_makes_no_sense_says_why() -> None:
    lm = trained("ngram")
    with assert_refused(OptionError):
        lm.score(text=OTHER, tune=thereafter_source(HELD))
    with assert_refused(EmptyCorpusError):
        lm.score(text=OTHER, cache=True, tune=thereafter_source(""))
    twice = thereafter.mixture([trained("gru"), trained("gru")])
    with assert_refused(OptionError):
        twice.score(text=OTHER, dynamic=True)
    assert trained("gru").score(text=OTHER).switches == ""  # the failed attempt left nothing behind
