"""Claims of the books on gradients through time."""

from __future__ import annotations

import math

import pytest

from claimed.gradients import explosion, kept_through, missed_by_truncation, rnn_rate, weights_of
from thereafter import nn


@pytest.mark.parametrize("radius", [0.5, 0.9, 1.1])
def test_the_gradient_of_a_linear_rnn_decays_at_the_spectral_radius(radius: float) -> None:
    """Exactly for a scaled rotation, and in the long run for any other matrix, whatever its norm."""
    rotation = rnn_rate("identity", radius, steps=40)
    assert rotation["rate"] == pytest.approx(radius, rel=1e-9)
    assert rotation["whole"] == pytest.approx(radius**40, rel=1e-9)
    for seed in range(3):
        other = rnn_rate("identity", radius, steps=120, seed=seed, orthogonal=False)
        assert other["bound"] > 1.3 * radius  # the norm alone would say something else
        assert other["rate"] == pytest.approx(radius, rel=0.05)


@pytest.mark.parametrize("radius", [0.5, 0.9, 1.1])
def test_the_gradient_of_a_tanh_rnn_stays_below_the_linear_one(radius: float) -> None:
    """Slopes of tanh are at most 1: a rotation of radius r lets through at most r a step, with real inputs less."""
    for seed in range(3):
        tanh = rnn_rate("tanh", radius, steps=40, seed=seed)
        assert tanh["whole"] <= radius**40
        assert tanh["rate"] < radius
        assert tanh["rate"] > 0


def test_clipping_stops_the_explosion() -> None:
    """The same network, data and rate: without clipping it ends in nothing, with clipping it learns."""
    for seed in range(3):
        free, clipped = explosion(0.0, updates=60, seed=seed), explosion(1.0, updates=60, seed=seed)
        assert free["first"] == clipped["first"]
        assert not math.isfinite(free["last"])
        assert clipped["last"] < clipped["first"] / 4
        assert clipped["jump"] <= 0.01 * 1.001  # rate times the largest norm


def test_the_forget_bias_decides_what_a_fresh_lstm_keeps() -> None:
    for seed in range(3):
        none, one, three = (kept_through(bias, steps=30, seed=seed)["measured"] for bias in (0.0, 1.0, 3.0))
        assert none < 1e-4
        assert one > 100 * none
        assert three > 10 * one
        assert three > 0.1
    # the gates alone: with nothing but its bias a gate is sigmoid(bias), and a step multiplies by that
    assert kept_through(3.0, steps=30)["rule"] == pytest.approx(0.9525741**30, rel=1e-5)


@pytest.mark.parametrize(("inputs", "hidden", "layers"), [(20, 30, 1), (7, 64, 2), (128, 128, 3)])
def test_a_gru_has_three_quarters_of_the_weights_of_an_lstm(inputs: int, hidden: int, layers: int) -> None:
    lstm, gru = weights_of(nn.LSTM, inputs, hidden, layers), weights_of(nn.GRU, inputs, hidden, layers)
    assert 4 * gru == 3 * lstm
    assert lstm == sum(4 * hidden * ((inputs if layer == 0 else hidden) + hidden + 2) for layer in range(layers))
    assert 4 * weights_of(nn.RNN, inputs, hidden, layers) == lstm


@pytest.mark.parametrize("decay", [0.7, 0.9])
def test_a_cut_misses_the_share_that_decay_leaves_there(decay: float) -> None:
    """One unit, h_t = a h_{t-1} + 1: a cut after k steps misses a^k of the gradient, no more and no less."""
    for cut in (5, 10, 20, 40):
        assert missed_by_truncation(decay, cut, steps=200) == pytest.approx(decay**cut, abs=1e-6)
