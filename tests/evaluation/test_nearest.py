"""The nearest neighbour over series, against scikit-learn and against distances written out."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.series.classifying.task import NearestNeighbour, euclidean, warped
from thereafter.tasks.labelling import most_frequent

sklearn = pytest.importorskip("sklearn")


def draw(count: int, *, seed: int, shortest: int = 5, longest: int = 5, channels: int = 2) -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(int(rng.integers(shortest, longest + 1)), channels)) for _ in range(count)]


def written_out(a: NDArray[np.float64], b: NDArray[np.float64], band: float) -> float:
    """Dynamic time warping by its definition, one pair and one cell at a time."""
    width = max(math.ceil(band * max(len(a), len(b))), abs(len(a) - len(b)))

    @cache
    def best(i: int, j: int) -> float:
        if i < 0 or j < 0:
            return 0.0 if i == j == -1 else math.inf
        if abs(i - j) > width:
            return math.inf
        both = [(x, y) for x, y in zip(a[i], b[j], strict=True) if not (math.isnan(x) or math.isnan(y))]
        cost = sum((x - y) ** 2 for x, y in both) * (len(a[i]) / len(both) if both else 0.0)
        return float(cost + min(best(i - 1, j - 1), best(i - 1, j), best(i, j - 1)))

    return math.sqrt(best(len(a) - 1, len(b) - 1))


@pytest.mark.parametrize("band", [0.0, 0.1, 0.5, 1.0])
def test_warping_is_the_least_over_all_paths(band: float):
    questions = draw(5, seed=1, shortest=1, longest=9)
    series = draw(6, seed=2, shortest=1, longest=9)
    series[2][0, 1] = questions[3][-1, 0] = np.nan
    series[4][0] = np.nan
    expected = [[written_out(a, b, band) for b in series] for a in questions]
    np.testing.assert_allclose(warped(questions, series, band), expected, atol=1e-12)


def test_many_pairs_in_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch):
    questions, series = draw(7, seed=3, shortest=2, longest=8), draw(5, seed=4, shortest=2, longest=8)
    together = warped(questions, series)
    monkeypatch.setattr("thereafter.series.classifying.task._NUMBERS", 50)
    np.testing.assert_array_equal(warped(questions, series), together)


def test_no_warping_is_the_euclidean_distance():
    questions, series = draw(4, seed=5), draw(3, seed=6)
    np.testing.assert_allclose(warped(questions, series, 0.0), euclidean(questions, series), atol=1e-12)


def test_euclidean_distances_are_those_of_scikit_learn_with_gaps_too():
    from sklearn.metrics.pairwise import nan_euclidean_distances

    questions, series = draw(6, seed=7), draw(5, seed=8)
    series[1][2, 0] = questions[4][1, 1] = np.nan
    flat = [np.stack([one.reshape(-1) for one in many]) for many in (questions, series)]
    np.testing.assert_allclose(euclidean(questions, series), nan_euclidean_distances(*flat), atol=1e-7)


def test_labels_are_those_of_scikit_learn():
    from sklearn.neighbors import KNeighborsClassifier

    series, questions = draw(80, seed=9, longest=5, channels=1), draw(60, seed=10, channels=1)
    labels = ["up" if one[-1, 0] > one[0, 0] else "down" for one in series]
    neighbour = NearestNeighbour.fit(series, labels)
    assert neighbour.measure_of(questions) == "Euclidean"
    other = KNeighborsClassifier(1).fit([one[:, 0] for one in series], labels)
    assert neighbour.predict(questions) == other.predict([one[:, 0] for one in questions]).tolist()


def test_series_of_several_lengths_are_warped():
    series = [np.arange(n, dtype=float)[:, None] / n for n in (4, 6)] + [-np.arange(5.0)[:, None] / 5]
    neighbour = NearestNeighbour.fit(series, ["up", "up", "down"])
    questions = [np.arange(9.0)[:, None] / 9, -np.arange(3.0)[:, None] / 3]
    assert neighbour.measure_of(questions) == "DTW, band 10 %"
    assert neighbour.predict(questions) == ["up", "down"]
    assert neighbour.predict([]) == []


def test_mistakes_are_refused_and_the_most_frequent_label_is_chosen():
    assert most_frequent(["b", "a", "b"]) == "b"
    assert most_frequent(["b", "a"]) == "a"
    with assert_refused(OptionError, 2, 1):
        NearestNeighbour.fit(draw(2, seed=1), ["a"])
    with assert_refused(EmptyCorpusError):
        NearestNeighbour.fit([], [])
