"""Claims of the books on counted models and windows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from claimed.counting import Mass, change_beyond, moved_mass, sparsity, window_by_distance


def test_sparsity_grows_with_n() -> None:
    """Of the n-grams of new sentences, ever more were never seen; of those that could be, ever fewer were."""
    counted = sparsity(1500, 150, most=4)
    unseen, possible = np.array(counted.unseen), np.array(counted.of_possible)
    assert (np.diff(unseen) > 0.05).all()
    assert unseen[0] < 0.01
    assert unseen[-1] > 0.6
    assert (possible[1:] < possible[:-1] / 10).all()
    # more text fills the table, but the order stays
    larger = sparsity(3000, 150, most=4)
    assert (np.array(larger.unseen) <= unseen).all()
    assert (np.diff(larger.unseen) > 0.05).all()


@cache
def mass_of(smoothing: str) -> Mass:
    return moved_mass(smoothing, 400, contexts=60)


@pytest.mark.parametrize("smoothing", ["add-alpha", "katz", "witten-bell", "absolute", "modified-kneser-ney"])
def test_smoothing_moves_mass_to_what_was_never_seen(smoothing: str) -> None:
    plain, smooth = mass_of("mle"), mass_of(smoothing)
    assert plain.unseen < 1e-6  # no smoothing: what was not seen cannot come
    assert smooth.unseen > 0.02
    assert smooth.seen < plain.seen - 0.02
    # what is given to the one is taken from the other
    assert smooth.unseen + smooth.seen == pytest.approx(1, abs=1e-5)
    assert max(plain.worst_sum, smooth.worst_sum) < 1e-5


def test_a_window_cannot_see_past_itself() -> None:
    """Nothing moves, not by a bit, when all words beyond the window change; a word within moves the prediction."""
    beyond, within = change_beyond(4)
    assert beyond == 0
    assert within > 1e-3


def test_a_window_guesses_beyond_itself() -> None:
    """With five words in sight the first symbol is known up to four steps, and at 25 % beyond."""
    right = window_by_distance(5, longest=8, lines=2000, epochs=8, seed=0)
    assert min(right[n] for n in (2, 3, 4)) > 0.6
    # 4 standard deviations of a share of 300 lines
    assert abs(np.mean([right[n] for n in (6, 7, 8)]) - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 300)
