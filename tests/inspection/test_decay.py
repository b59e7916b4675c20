"""Decay, verdict and horizon of signals whose decay is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from thereafter.errors import OptionError
from thereafter.inspection.decay import fit_decay

STEPS = np.arange(41)


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [(0.5, "vanishing"), (0.97, "vanishing"), (0.99, "stable"), (1.0, "stable"), (1.01, "stable"), (1.1, "exploding")],
)
def test_a_pure_power_gives_its_rate(rate: float, verdict: str) -> None:
    decay = fit_decay(7.0 * rate**STEPS)
    assert decay.rate == pytest.approx(rate, abs=1e-9)
    assert decay.verdict == verdict


def test_the_horizon_is_the_first_distance_under_one_percent_of_distance_1() -> None:
    decay = fit_decay(0.5**STEPS)  # 0.5^7 < 0.01 < 0.5^6: seven steps behind distance 1
    assert (decay.horizon, decay.measured) == (8.0, True)
    slow = fit_decay(0.95**STEPS)  # not within 40 steps
    assert not slow.measured
    assert slow.horizon == pytest.approx(1 + math.log(0.01) / math.log(0.95))
    assert "about 91 steps" in str(slow)
    assert math.isinf(fit_decay(np.ones(10)).horizon)
    assert fit_decay(1.1**STEPS).when() == "never"


def test_distance_0_counts_for_nothing() -> None:
    norm = 0.8**STEPS
    norm[0] = 1e6
    assert fit_decay(norm) == fit_decay(0.8**STEPS)


def test_a_signal_that_is_exactly_0_beyond_a_window_is_cut_off() -> None:
    decay = fit_decay(np.where(STEPS < 5, 1.0, 0.0))
    assert (decay.verdict, decay.horizon) == ("cut off", 5.0)
    assert fit_decay(np.where(STEPS < 1, 1.0, 0.0)).horizon == 1.0  # as behind a Transformer's last block


def test_distances_may_have_gaps() -> None:
    distance = np.array([1, 2, 5, 10, 20])
    assert fit_decay(0.9**distance, distance).rate == pytest.approx(0.9, abs=1e-9)


@pytest.mark.parametrize("norm", [[1.0, 1.0], [1.0, np.nan, 1.0], [1.0, 1.0, np.inf]])
def test_too_little_to_fit(norm: list[float]) -> None:
    with pytest.raises(OptionError, match="expected at least 2, all finite"):
        fit_decay(np.array(norm))
