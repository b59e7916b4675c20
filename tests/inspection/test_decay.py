"""The word for a curve is the one its measured values have earned."""

from __future__ import annotations

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.gradients import VERDICTS, fit_decay

STEPS = np.arange(41)


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [(0.5, "vanishing"), (0.92, "fading"), (0.97, "kept"), (1.0, "kept"), (1.04, "kept"), (1.1, "exploding")],
)
def test_a_pure_power_gives_its_rate_and_what_is_left_of_it(rate: float, verdict: str) -> None:
    decay = fit_decay(7.0 * rate**STEPS)
    assert decay.rate == pytest.approx(rate, abs=1e-9)
    assert decay.share == pytest.approx(rate**39)
    assert (decay.verdict, decay.distance) == (verdict, 40)
    assert verdict in VERDICTS


def test_a_curve_that_falls_and_then_stays_is_kept() -> None:
    """Its first steps fall by a half each; what a power fitted to it would do beyond 40 steps is nobody's business."""
    level = np.maximum(0.5**STEPS, 0.5**3)
    decay = fit_decay(level)
    assert (decay.verdict, decay.share, decay.under) == ("kept", 0.25, None)
    assert str(decay) == "kept, 25 % at 40 steps"


def test_nothing_is_said_of_distances_that_were_not_measured() -> None:
    """1.2 % at 10 steps is no promise of 1 % at 35."""
    short = fit_decay(0.64 ** np.arange(11))
    assert (short.verdict, short.under) == ("fading", None)
    assert str(short) == "fading, 1.8 % at 10 steps"
    for text in (str(fit_decay(rate ** np.arange(11))) for rate in (0.3, 0.6, 0.9, 1.0, 1.5)):
        assert "about" not in text
        assert "extrapolated" not in text
        assert "10 steps" in text


def test_under_one_percent_counts_from_where_it_stays_there() -> None:
    assert fit_decay(0.5**STEPS).under == 8  # 0.5^7 < 0.01 < 0.5^6: seven steps behind distance 1
    dip = np.ones(12)
    dip[5] = 1e-4
    assert (fit_decay(dip).verdict, fit_decay(dip).under) == ("kept", None)
    dip[9:] = 1e-4
    assert (fit_decay(dip).verdict, fit_decay(dip).under) == ("vanishing", 9)
    assert str(fit_decay(dip)) == "vanishing, 0.01 % at 11 steps, under 1 % from 9 on"


def test_distance_0_counts_for_nothing() -> None:
    norm = 0.8**STEPS
    norm[0] = 1e6
    assert fit_decay(norm) == fit_decay(0.8**STEPS)


def test_a_signal_that_is_exactly_0_beyond_a_window_is_cut_off() -> None:
    decay = fit_decay(np.where(STEPS < 5, 1.0, 0.0))
    assert (decay.verdict, decay.under, decay.share) == ("cut off", 5, 0.0)
    assert fit_decay(np.where(STEPS < 1, 1.0, 0.0)).under == 1  # as behind a Transformer's last block


def test_distances_may_have_gaps() -> None:
    distance = np.array([1, 2, 5, 10, 20])
    decay = fit_decay(0.9**distance, distance)
    assert decay.rate == pytest.approx(0.9, abs=1e-9)
    assert decay.distance == 20


@pytest.mark.parametrize("norm", [[1.0, 1.0], [1.0, np.nan, 1.0], [1.0, 1.0, np.inf]])
def test_too_little_to_judge(norm: list[float]) -> None:
    with assert_refused(OptionError, 2):
        fit_decay(np.array(norm))
