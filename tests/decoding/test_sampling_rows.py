"""Drawing for many rows at once: every row gets the token it would get alone."""

from __future__ import annotations

import numpy as np
import pytest

from thereafter.decoding.sampling import RowDrawing, Warping, choose, draw, draw_rows, generators, keep_nucleus

WARPINGS = [
    Warping(),
    Warping(temperature=0.7),
    Warping(temperature=0),
    Warping(temperature=1e-320),
    Warping(top_k=5),
    Warping(temperature=1.5, top_k=7, top_p=0.6),
    Warping(top_p=0.8),
    Warping(top_p=0.97, min_p=0.02),
    Warping(min_p=0.1),
    Warping(repetition_penalty=1.4, top_k=20),
]


def logs(rows: int, words: int, seed: int, *, ties: bool = False) -> np.ndarray:
    scores = 3 * np.random.default_rng(seed).normal(size=(rows, words))
    if ties:
        scores = scores.round()
    return (scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))).astype(np.float32)


def chosen_alone(logp_V: np.ndarray, warping: Warping, rng: np.random.Generator, seen: np.ndarray) -> int | None:
    return choose(logp_V, rng, warping, seen=seen, forbidden=(2, 4))


@pytest.mark.parametrize("words", [7, 128, 300, 4000])
@pytest.mark.parametrize("ties", [False, True])
def test_rows_draw_what_each_would_draw_alone(words: int, ties: bool) -> None:
    for count in (1, 2, 30):
        logp_BV = logs(count, words, words + count, ties=ties)
        warpings = [WARPINGS[row % len(WARPINGS)] for row in range(count)]
        seen = np.array([0, 3, 5])
        apart, together = generators(5, count), generators(5, count)
        drawings = [
            RowDrawing(warping, rng, (2, 4), seen if warping.repetition_penalty != 1 else None)
            for warping, rng in zip(warpings, together, strict=True)
        ]
        for _ in range(20):
            alone = [chosen_alone(logp_BV[row], warpings[row], apart[row], seen) for row in range(count)]
            assert draw_rows(logp_BV, drawings) == alone


def test_rows_in_which_nothing_is_possible_draw_nothing_and_stop_nobody() -> None:
    logp_BV = logs(4, 50, 1)
    logp_BV[1] = -np.inf
    logp_BV[2] = np.where(np.arange(50) == 31, 0.0, -np.inf)
    tokens = draw_rows(logp_BV, [RowDrawing(Warping(), rng) for rng in generators(0, 4)])
    assert tokens[1] is None
    assert tokens[2] == 31
    assert tokens[0] is not None
    assert tokens[3] is not None
    only = [RowDrawing(Warping(), rng, (31,)) for rng in generators(0, 4)]
    assert draw_rows(logp_BV, only)[1:3] == [None, None]


class LastNumber(np.random.Generator):
    """A generator that always gives the largest number below 1, or one that is given."""

    def __init__(self, number: float = 1 - 2**-53) -> None:
        super().__init__(np.random.PCG64(0))
        self.number = number

    def random(self, *_: object, **__: object) -> float:  # type: ignore[override]
        return self.number


def test_the_ends_of_the_line_belong_to_words_that_are_possible() -> None:
    logp_BV = np.full((3, 400), -np.inf, dtype=np.float32)
    logp_BV[:, [130, 131, 250]] = np.log([0.3, 0.3, 0.4])
    assert draw_rows(logp_BV, [RowDrawing(Warping(), LastNumber()) for _ in range(3)]) == [250] * 3
    assert draw_rows(logp_BV, [RowDrawing(Warping(), LastNumber(0.0)) for _ in range(3)]) == [130] * 3
    for number in (0.0, 0.1, 0.29999, 0.30001, 0.5999, 0.60001, 1 - 2**-53):
        weights_V = Warping().weights(logp_BV[0])
        assert weights_V is not None
        alone = draw(weights_V, LastNumber(number))
        assert draw_rows(logp_BV, [RowDrawing(Warping(), LastNumber(number)) for _ in range(3)]) == [alone] * 3


def test_a_nucleus_is_the_beginning_of_a_stable_sort() -> None:
    rng = np.random.default_rng(3)
    for ties in (1, 3, 1000):
        weights_RV = np.ceil(rng.random((6, 40)) * ties) / ties
        weights_RV[:, rng.integers(0, 40, 5)] = 0
        for top_p in (0.05, 0.5, 0.9, 0.999999):
            kept_RV = keep_nucleus(weights_RV, top_p)
            for weights_V, kept_V in zip(weights_RV, kept_RV, strict=True):
                order = np.argsort(-weights_V, kind="stable")
                sums = np.cumsum(weights_V[order])
                before = np.concatenate([[0.0], sums[:-1]])
                inside = order[(before < top_p * sums[-1]) & (weights_V[order] > 0)]
                np.testing.assert_array_equal(np.flatnonzero(kept_V), np.sort(inside))
                np.testing.assert_array_equal(keep_nucleus(weights_V, top_p), kept_V)
