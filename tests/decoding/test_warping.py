"""What is left to draw from: sets worked out by hand, the formulas, a plain twin, and Hugging Face's own figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.decoding.sampling import Warping, choose, largest, penalise
from thereafter.errors import OptionError

P = np.array([0.40, 0.05, 0.25, 0.20, 0.10])
LOGP = np.log(P)
DRAWS = 6_000


def shares(seen: list[int] | None = None, logp: np.ndarray = LOGP, **options: Any) -> np.ndarray:
    weights = Warping(**options).weights(logp, seen=None if seen is None else np.array(seen, dtype=int))
    assert weights is not None
    return weights / weights.sum()


def kept(**options: Any) -> set[int]:
    return set(np.flatnonzero(shares(**options)).tolist())


def test_top_p_keeps_the_fewest_that_reach_it():
    for top_p, expected in [
        (0.01, {0}),
        (0.39, {0}),
        (0.41, {0, 2}),
        (0.64, {0, 2}),
        (0.66, {0, 2, 3}),
        (0.96, {*range(5)}),
    ]:
        assert kept(top_p=top_p) == expected, top_p
    assert kept(top_p=1.0) == {*range(5)}
    np.testing.assert_allclose(shares(top_p=0.7), np.where(P >= 0.2, P, 0) / 0.85)


def test_min_p_is_a_share_of_the_likeliest():
    for min_p, expected in [(0.0, {*range(5)}), (0.2, {0, 2, 3, 4}), (0.3, {0, 2, 3}), (0.6, {0, 2}), (1.0, {0})]:
        assert kept(min_p=min_p) == expected, min_p


def test_the_cuts_come_after_the_temperature_and_one_after_the_other():
    # squared and renormalised, P is .58 .01 .23 .15 .04: two reach 0.8
    assert kept(temperature=0.5, top_p=0.8) == {0, 2}
    assert kept(top_p=0.8) == {0, 2, 3}
    # of the three likeliest, renormalised to .47 .29 .24, two reach 0.75; of all, three are needed
    assert kept(top_k=3, top_p=0.75) == {0, 2}
    assert kept(top_p=0.75) == {0, 2, 3}
    # p^(1/2) brings the tail nearer to the best: 0.1 / 0.4 is a quarter, its root a half
    assert kept(min_p=0.4) == {0, 2, 3}
    assert kept(temperature=2.0, min_p=0.4) == {0, 2, 3, 4}


def test_ties_go_to_the_lower_id():
    even = np.log(np.full(6, 1 / 6))
    for options in ({"top_k": 2}, {"top_p": 0.3}):
        assert set(np.flatnonzero(shares(logp=even, **options)).tolist()) == {0, 1}


def test_the_repetition_penalty_multiplies_logarithms():
    bent = penalise(LOGP, 1.5, np.array([0, 3]))
    np.testing.assert_allclose(
        bent, [1.5 * math.log(0.4), math.log(0.05), math.log(0.25), 1.5 * math.log(0.2), math.log(0.1)]
    )
    np.testing.assert_allclose(
        shares([0, 3], repetition_penalty=1.5), np.where([1, 0, 0, 1, 0], P**1.5, P) / bent_sum(bent)
    )
    np.testing.assert_array_equal(penalise(LOGP, 1.0, np.array([0])), LOGP)
    np.testing.assert_array_equal(penalise(np.array([0.5, -np.inf]), 2.0, np.array([0, 1])), [0.25, -np.inf])


def bent_sum(bent: np.ndarray) -> float:
    return math.fsum(math.exp(x) for x in bent)


@pytest.mark.parametrize(
    ("penalty", "seen", "temperature", "top_k", "top_p", "min_p", "expected"),
    [
        (1.5, [0, 3], 1.0, None, 1.0, 0.0, [0.340751, 0.067347, 0.336734, 0.120474, 0.134694]),
        (1.0, [], 0.5, None, 0.9, 0.0, [0.609524, 0.0, 0.238095, 0.152381, 0.0]),
        (1.2, [0], 2.0, 4, 0.8, 0.0, [0.378588, 0.0, 0.328021, 0.293391, 0.0]),
        (1.0, [], 1.5, None, 1.0, 0.4, [0.423556, 0.0, 0.309621, 0.266823, 0.0]),
        (0.8, [1], 0.7, 4, 0.95, 0.2, [0.531216, 0.0, 0.271438, 0.197346, 0.0]),
    ],
)
def test_the_same_settings_give_what_hugging_face_gives(
    penalty: float,
    seen: list[int],
    temperature: float,
    top_k: int | None,
    top_p: float,
    min_p: float,
    expected: list[float],
):
    """Printed by the logits processors of transformers 5.22.2 over the same log probabilities."""
    got = shares(seen, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=penalty)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def plainly(
    p: list[float], seen: set[int], *, t: float, k: int, top_p: float, min_p: float, penalty: float
) -> list[float]:
    """The same in probabilities, one token at a time."""
    bent = [(x**penalty if i in seen else x) ** (1 / t) for i, x in enumerate(p)]
    order = sorted(range(len(p)), key=lambda i: (-bent[i], i))[:k]
    total, before, chosen = sum(bent[i] for i in order), 0.0, []
    for i in order:
        if before < top_p * total:
            chosen.append(i)
        before += bent[i]
    chosen = [i for i in chosen if bent[i] >= min_p * bent[order[0]]]
    return [bent[i] / sum(bent[j] for j in chosen) if i in chosen else 0.0 for i in range(len(p))]


def test_against_a_plain_twin():
    rng = np.random.default_rng(3)
    for _ in range(300):
        p = rng.dirichlet(np.full(int(rng.integers(2, 30)), 0.5)) + 1e-9
        seen = np.unique(rng.integers(0, len(p), 4))
        t, k = float(rng.choice([0.5, 1.0, 1.7])), int(rng.integers(1, len(p) + 3))
        top_p, min_p, penalty = float(rng.uniform(0.1, 1)), float(rng.uniform(0, 0.3)), float(rng.uniform(0.7, 1.5))
        got = shares(
            seen.tolist(), np.log(p), temperature=t, top_k=k, top_p=top_p, min_p=min_p, repetition_penalty=penalty
        )
        expected = plainly(p.tolist(), set(seen.tolist()), t=t, k=k, top_p=top_p, min_p=min_p, penalty=penalty)
        np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{"top_p": 0.7}, {"min_p": 0.3, "temperature": 1.5}, {"repetition_penalty": 1.6, "top_k": 4, "top_p": 0.9}],
    ids=str,
)
def test_draws_have_the_warped_frequencies(options: dict[str, Any]):
    seen, rng = [0, 2], np.random.default_rng(5)
    drawn = [choose(LOGP, rng, Warping(**options), seen=np.array(seen)) for _ in range(DRAWS)]
    counts, wanted = np.bincount(drawn, minlength=5), shares(seen, **options) * DRAWS  # type: ignore[arg-type]
    possible = wanted > 0
    assert not counts[~possible].any()
    # the 99.9 % point of four degrees of freedom
    assert ((counts[possible] - wanted[possible]) ** 2 / wanted[possible]).sum() < 18.5


def test_the_largest_are_the_head_of_a_stable_sort():
    rng = np.random.default_rng(0)
    for _ in range(200):
        scores = rng.integers(0, 6, int(rng.integers(1, 40))).astype(np.float32)
        scores[rng.random(len(scores)) < 0.2] = -np.inf
        for k in (1, 2, 5, len(scores), len(scores) + 3):
            np.testing.assert_array_equal(largest(scores, k), np.argsort(-scores, kind="stable")[:k])


@pytest.mark.parametrize(
    "options",
    [
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_p": math.nan},
        {"min_p": -0.1},
        {"min_p": 1.1},
        {"repetition_penalty": 0.0},
        {"repetition_penalty": math.inf},
    ],
)
def test_settings_that_mean_nothing(options: dict[str, float]):
    with assert_refused(OptionError, *options, *options.values()):
        Warping(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("penalty", [1e308, 1e-308, 5e-324, 1e300])
@pytest.mark.parametrize("temperature", [0.0, 1e-320, 1e-9, 1.0, 1e308])
def test_no_penalty_is_too_large(penalty: float, temperature: float):
    """Nothing warns, and what was possible stays possible, also where all of it was seen."""
    logp_V = np.log(np.array([0.5, 0.3, 0.001, 1.0], dtype=np.float64)) - np.array([0.0, 0.0, 0.0, np.inf])
    for seen in (np.array([0]), np.array([0, 1, 2, 3])):
        weights_V = Warping(temperature=temperature, repetition_penalty=penalty).weights(logp_V, seen=seen)
        assert weights_V is not None
        assert np.isfinite(weights_V).all()
        assert weights_V.max() == 1
        assert weights_V[3] == 0
    few = Warping(temperature=1.0, repetition_penalty=1e308).weights(logp_V, seen=np.array([0]))
    assert few is not None
    assert few[0] == 0


@pytest.mark.parametrize("penalty", [1e308, 5e-324])
def test_a_beam_search_takes_any_penalty(penalty: float):
    from small_models import counted

    text = counted().generate("the cat", 6, num_beams=3, repetition_penalty=penalty)
    assert text.startswith("the cat")
