"""Drawing tokens: the right frequencies, the same ones for the same seed, and never what is forbidden."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

import thereafter
from thereafter.decoding import sampling
from thereafter.decoding.sampling import Sampler, Warping
from thereafter.errors import OptionError
from thereafter.ngram.model import NgramModel, estimate

P = np.array([0.4, 0.05, 0.25, 0.0, 0.2, 0.1])
with np.errstate(divide="ignore"):
    LOGP = np.log(P)
DRAWS = 6_000


def choose(logp: np.ndarray, rng: np.random.Generator, *, forbidden: Sequence[int] = (), **options: Any) -> int | None:
    return sampling.choose(logp, rng, Warping(**options), forbidden=forbidden)


def continue_from(model: Any, state: Any, rng: np.random.Generator, forbidden: Sequence[int] = ()) -> Iterator[int]:
    sampler = Sampler(model, state, [rng], Warping(), forbidden=forbidden)
    while draws := sampler.draw():
        yield draws[0].token


def drawn(seed: int = 7, **options: float | list[int] | None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.bincount([choose(LOGP, rng, **options) for _ in range(DRAWS)], minlength=len(P))  # type: ignore[arg-type]


def assert_frequencies(counts: np.ndarray, expected: np.ndarray) -> None:
    """Pearson's chi-square below the 99.9 % point of five degrees of freedom, and nothing where nothing can be."""
    assert not counts[expected == 0].any()
    possible = expected > 0
    wanted = expected[possible] / expected.sum() * DRAWS
    assert ((counts[possible] - wanted) ** 2 / wanted).sum() < 20.5


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_frequencies_follow_the_temperature(temperature: float) -> None:
    assert_frequencies(drawn(temperature=temperature), P ** (1 / temperature))


def test_frequencies_within_the_top() -> None:
    assert_frequencies(drawn(top_k=3), np.where(P >= 0.2, P, 0))
    assert_frequencies(drawn(top_k=3, temperature=0.5), np.where(P >= 0.2, P**2, 0))
    assert_frequencies(drawn(top_k=100), P)


def test_forbidden_tokens_are_never_drawn_and_take_no_place_in_the_top() -> None:
    assert_frequencies(drawn(forbidden=[0, 4]), np.where(np.isin(np.arange(6), [0, 4]), 0, P))
    assert_frequencies(drawn(forbidden=[0], top_k=2), np.where(np.isin(np.arange(6), [2, 4]), P, 0))


def test_the_same_seed_gives_the_same_tokens() -> None:
    first, again = np.random.default_rng(3), np.random.default_rng(3)
    sequence = [choose(LOGP, first) for _ in range(200)]
    assert sequence == [choose(LOGP, again) for _ in range(200)]
    other = np.random.default_rng(4)
    assert sequence != [choose(LOGP, other) for _ in range(200)]


def test_temperature_zero_and_a_top_of_one_are_greedy() -> None:
    rng = np.random.default_rng(1)
    assert {choose(LOGP, rng, temperature=0) for _ in range(50)} == {0}
    assert {choose(LOGP, rng, top_k=1) for _ in range(50)} == {0}
    assert choose(LOGP, rng, temperature=0, forbidden=[0]) == 2
    ties = np.log([0.2, 0.4, 0.4])
    assert choose(ties, rng, temperature=0) == choose(ties, rng, top_k=1) == 1  # to the lower id


@pytest.mark.parametrize("temperature", [1e-320, 1e-5, 1e5, 1e300])
def test_extreme_temperatures(temperature: float) -> None:
    rng = np.random.default_rng(2)
    found = {choose(LOGP, rng, temperature=temperature) for _ in range(500)}
    assert found == ({0} if temperature < 1 else {0, 1, 2, 4, 5})


def test_nothing_possible_is_none() -> None:
    rng = np.random.default_rng(2)
    assert choose(np.full(3, -math.inf), rng) is None
    assert choose(LOGP, rng, forbidden=range(6)) is None
    assert choose(LOGP, rng, forbidden=[0, 1, 2, 4, 5], temperature=0) is None


def test_the_last_token_of_a_row_can_be_drawn() -> None:
    class Edge:
        def random(self) -> float:
            return float(np.nextafter(1.0, 0.0))

    assert choose(LOGP, Edge()) == 5  # type: ignore[arg-type]
    assert choose(np.log([0.5, 0.5, 1e-300]), Edge()) == 1  # type: ignore[arg-type]


def test_the_row_is_left_as_it_was() -> None:
    before = LOGP.copy()
    choose(LOGP, np.random.default_rng(0), top_k=2, forbidden=[0])
    np.testing.assert_array_equal(LOGP, before)


def small_model(smoothing: str = "modified-kneser-ney") -> NgramModel:
    return estimate(np.random.default_rng(5).integers(0, 5, 400), 6, order=3, smoothing=smoothing)


def test_continuing_feeds_back_what_was_drawn() -> None:
    model = small_model()
    tokens = list(islice(continue_from(model, model.start(1), np.random.default_rng(9)), 50))
    rng, state, expected = np.random.default_rng(9), model.start(1), []
    logp = model.predict(state)[0]
    for _ in range(50):
        token = choose(logp, rng)
        expected.append(token)
        rows, state = model.step(np.array([token]), state)
        logp = rows[0]
    assert tokens == expected


def test_continuing_ends_where_nothing_can_follow() -> None:
    model = estimate(np.array([0, 1, 2, 0, 1, 3]), 4, order=2, smoothing="mle")
    tokens = list(islice(continue_from(model, model.start(1), np.random.default_rng(1), forbidden=[2, 3]), 50))
    assert tokens == [0, 1]


def test_sampled_bigrams_have_the_models_frequencies() -> None:
    model = small_model()
    tokens = list(islice(continue_from(model, model.start(1), np.random.default_rng(11)), 6_000))
    seen = np.zeros((6, 6, 6))
    for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False):
        seen[a, b, c] += 1
    a, b = np.unravel_index(seen.sum(axis=2).argmax(), (6, 6))
    _, state = model.log_probs(np.array([[a, b]]), model.start(1))
    wanted = np.exp(model.predict(state)[0].astype(float)) * seen[a, b].sum()
    assert ((seen[a, b] - wanted) ** 2 / wanted).sum() < 20.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -0.1}, "temperature is -0.1; expected 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_k": 0}, "top_k is 0; expected at least 1"),
        ({"max_new_tokens": -1}, "max_new_tokens is -1; expected 0 or more"),
    ],
)
def test_settings_that_mean_nothing(options: dict[str, float], said: str) -> None:
    lm = thereafter.train(text="the cat sat on the mat\n" * 3, tokens="word", order=2)
    with pytest.raises(OptionError, match=said):
        lm.generate("the", **options)  # type: ignore[arg-type]


def test_generating_text() -> None:
    lm = thereafter.train(text="the cat sat on the mat\nthe dog ate a fish\n" * 2, tokens="word", order=2)
    assert lm.generate("the", 12, seed=1) == lm.generate("the", 12, seed=1)
    assert len({lm.generate("the", 12, seed=seed) for seed in range(5)}) > 1
    assert lm.generate("the", 12, top_k=1, seed=5) == lm.generate("the", 12, temperature=0)
    assert lm.generate("the cat", 0) == "the cat"
    assert "<unk>" not in lm.generate("zebra", 400, temperature=5.0, seed=2)
