"""The cache against sums written out word by word, and the contract of a SequenceModel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wrapped import END, TOLERANCE, V, assert_every_way, counted, lstm, made, rows

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.models import cache
from thereafter.models import cache as module
from thereafter.models.cache import CacheModel, CacheSettings
from thereafter.models.neural import NeuralModel

MODELS: dict[str, Any] = {
    "ngram": (counted, CacheSettings(size=6, weight=0.3, decay=0.7)),
    "lstm": (lstm, CacheSettings(size=6, weight=0.3, theta=0.4)),
    "lstm lines": (lambda: lstm("line"), CacheSettings(size=9, weight=0.2, theta=1.5, decay=0.9)),
    "no features": (lstm, CacheSettings(size=4, weight=0.5, theta=0.0)),
    "transformer": (
        lambda: made("transformer", {"hidden": 8, "layers": 1, "heads": 2, "context": 7}, "line"),
        CacheSettings(size=100, weight=0.1, theta=0.2),
    ),
    "window": (lambda: made("window", {"embed": 6, "hidden": 10, "window": 3}), CacheSettings(size=5)),
    "nothing": (lstm, CacheSettings(weight=0.0)),
}
every = pytest.mark.parametrize("name", MODELS)


def cached(name: str) -> CacheModel:
    build, settings = MODELS[name]
    return CacheModel(build(), settings)


def written_out(model: Any, settings: CacheSettings, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One row: log p of what came and of every next word, from the definition, in float64."""
    settings = settings.complete(model)
    state, past, found = model.start(1), [], []
    p_V = np.exp(model.predict(state)[0].astype(float))
    for token in [*ids.tolist(), None]:
        h = model.features_of(state)[0].double().numpy() if isinstance(model, NeuralModel) else np.zeros(1)
        mixed_V = p_V
        if past:
            cache_V = np.zeros(V)
            for age, (word, key) in enumerate(reversed(past)):
                cache_V[word] += np.exp(settings.theta * key @ h) * settings.decay**age
            mixed_V = (1 - settings.weight) * p_V + settings.weight * cache_V / cache_V.sum()
        if token is None:
            break
        found.append(np.log(mixed_V[token]))
        past = [*past, (token, h)][-settings.size :]
        logp, state = model.step(np.array([token]), state)
        p_V = np.exp(logp[0].astype(float))
    return np.array(found), np.log(mixed_V)


@every
def test_it_keeps_the_contract(name: str) -> None:
    assert_every_way(cached(name), rows())


@every
def test_it_is_what_the_definition_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, settings = MODELS[name]
    ids = rows()[1:]
    assert END in ids
    truth = [written_out(build(), settings, row) for row in ids]
    for at_once, queries in ((4096, 256), (10, 3), (2, 1)):
        monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
        monkeypatch.setattr(cache, "QUERIES_AT_ONCE", queries)
        model = cached(name)
        logp, state = model.log_probs(ids, model.start(len(ids)))
        np.testing.assert_allclose(logp, [logs for logs, _ in truth], **TOLERANCE)
        np.testing.assert_allclose(model.predict(state), [last for _, last in truth], **TOLERANCE)


def test_a_cache_that_remembers_nothing_yet_is_the_model() -> None:
    for name in MODELS:
        model = cached(name)
        np.testing.assert_array_equal(model.predict(model.start(2)), model.model.predict(model.model.start(2)))


def test_what_was_said_is_likelier() -> None:
    model = cached("lstm")
    plain, _ = model.model.log_probs(np.full((1, 8), 5), model.model.start(1))
    found, _ = model.log_probs(np.full((1, 8), 5), model.start(1))
    assert (found[0, 1:] >= np.log(0.3) - 1e-5).all()
    share = model.record(np.full(8, 5), model.start(1))["cache"][1]
    assert share[0] == 0 or share[0] == pytest.approx(0.3)  # nothing remembered: the memory says what the model says
    np.testing.assert_allclose(share[1:], 1 - 0.7 * np.exp(plain - found)[0, 1:], rtol=1e-4)


def test_the_memory_is_bounded() -> None:
    model = cached("lstm")
    _, state = model.log_probs(np.tile(rows(2), 20), model.start(2))
    assert state.words_BN.shape == (2, 6)
    assert state.keys_BNH is not None
    assert state.keys_BNH.shape == (2, 6, 8)


def test_a_long_text_is_never_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def watched(tokens_BT: np.ndarray, state: Any) -> Any:
        sizes.append(tokens_BT.size)
        return observe(tokens_BT, state)

    monkeypatch.setattr(module, "TOKENS_AT_ONCE", 64)
    model = cached("lstm")
    observe = model.model.observe
    monkeypatch.setattr(model.model, "observe", watched)
    model.log_probs(np.tile(rows(2), 40), model.start(2))
    assert max(sizes) == 64
    assert sum(sizes) == 2 * 25 * 40


def test_states_of_counted_models_have_keys() -> None:
    model = cached("ngram")
    one = model.log_probs(np.array([[1, 2, 4, 5, 6, 7, 1]]), model.start(1))[1]
    two = model.log_probs(np.array([[9, 2, 4, 5, 6, 7, 1]]), model.start(1))[1]
    assert one.key() == two.key()  # what differs is forgotten
    assert hash(one.key()) != hash(model.step(np.array([1]), one)[1].key())
    with pytest.raises(TypeError):
        cached("lstm").start(1).key()


def test_settings_are_checked_and_completed() -> None:
    for wrong, said in (
        ({"size": 0}, "size is 0"),
        ({"weight": 1.0}, "weight is 1"),
        ({"weight": -0.1}, "weight is -0.1"),
        ({"theta": -1.0}, "theta is -1"),
        ({"theta": float("nan")}, "theta is nan"),
        ({"decay": 0.0}, "decay is 0"),
    ):
        with pytest.raises(OptionError, match=said):
            CacheSettings(**wrong)
    with pytest.raises(OptionError, match="no features to compare"):
        CacheModel(counted(), CacheSettings(theta=0.3))
    assert CacheModel(lstm()).settings.theta
    assert CacheModel(counted()).settings.decay != 1
    assert "500 tokens" in CacheModel(counted()).settings.describe()
    with pytest.raises(OptionError, match="axes"):
        cached("ngram").log_probs(np.arange(3), cached("ngram").start(1))


@pytest.mark.wide
@pytest.mark.corpus("ptb: test perplexity 141.186, with a cache 125.737")
def test_a_cache_helps_the_five_gram_of_penn_treebank(data: Any) -> None:
    lm = thereafter.train("ptb", model="ngram", order=5)
    assert lm.score("ptb").perplexity == pytest.approx(141.186, abs=0.001)
    assert lm.score("ptb", cache=True).perplexity == pytest.approx(125.737, abs=0.01)
    tuned = lm.score("ptb", cache=True, tune="ptb:valid")
    assert tuned.perplexity < 125.737
    assert tuned.switches.endswith("tuned on ptb:valid")


def test_a_score_with_a_cache_says_so() -> None:
    text = "the cat sat on the mat\nthe dog sat on the log\n" * 10
    lm = thereafter.train(text=text, tokens="word", order=3)
    other = "a zebra saw a zebra and the zebra saw a mat\n" * 5
    plain, with_cache = lm.score(text=other), lm.score(text=other, cache={"weight": 0.4})
    assert with_cache.nats < plain.nats
    assert with_cache.switches == "with a cache of 500 tokens (decay 0.995, weight 0.4)"
    assert plain.switches == ""
    assert (with_cache.tokens, with_cache.bytes) == (plain.tokens, plain.bytes)
    with assert_refused(OptionError, "sise", "size"):
        lm.score(text=other, cache={"sise": 3})
    with assert_refused(OptionError, "True", "False"):
        lm.score(text=other, cache=3)  # type: ignore[arg-type]
