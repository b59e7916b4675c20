"""Repeated multiplication: powers that are known, and states that are bounded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from breadth import core
from refusals import assert_refused
from thereafter.errors import OptionError, UnknownNameError
from thereafter.inspection.stability import activation_stability, repeated_multiplication


def test_an_orthogonal_matrix_gives_the_powers_of_its_scale() -> None:
    found = repeated_multiplication((0.9, 1.0, 1.1), steps=30, hidden=16)
    for row, radius in enumerate((0.9, 1.0, 1.1)):
        powers = radius ** np.arange(30)
        np.testing.assert_allclose(found["power"][row], powers, rtol=1e-9)
        np.testing.assert_allclose(found["linear"][row], powers, rtol=1e-9)
        assert (found["tanh"][row, 1:] < powers[1:]).all()  # slopes are below 1


@pytest.mark.parametrize("forget", core([0.0, 0.6, 0.97, 1.0], [0.0, 0.97]))
def test_an_lstm_with_the_same_matrix_by_autograd(forget: float) -> None:
    """The Jacobian of the last c in every earlier one, from its equation."""
    found = repeated_multiplication((0.9,), steps=9, hidden=5, forget=forget, seed=2)
    drawn = torch.Generator().manual_seed(2)
    Q, _ = torch.linalg.qr(torch.randn(5, 5, generator=drawn, dtype=torch.float64))
    torch.randn(5, generator=drawn, dtype=torch.float64)
    x = 0.3 * torch.randn(9, 5, generator=drawn, dtype=torch.float64)

    def step(c: torch.Tensor, t: int) -> torch.Tensor:
        return forget * c + (1 - forget) * torch.tanh(0.9 * Q @ torch.tanh(c) + x[t])

    states = [torch.zeros(5, dtype=torch.float64)]
    for t in range(9):
        states.append(step(states[-1], t))
    for back in range(9):

        def later(c: torch.Tensor, back: int = back) -> torch.Tensor:
            for t in range(9 - back, 9):
                c = step(c, t)
            return c

        jacobian = torch.autograd.functional.jacobian(later, states[9 - back])
        assert found["lstm"][0, back] == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)), rel=1e-9)
    np.testing.assert_allclose(found["gates"][0], forget ** np.arange(9.0))
    if forget == 1:
        np.testing.assert_allclose(found["lstm"], 1.0)


def test_the_forget_gate_is_a_share() -> None:
    with assert_refused(OptionError, 1.5, 0, 1):
        repeated_multiplication(forget=1.5)


def test_bounded_activations_stay_in_their_bounds_and_identity_explodes() -> None:
    found = activation_stability(radii=(0.5, 3.0), steps=40, hidden=24)
    largest = dict(zip(found["activation"].tolist(), found["state"].max(axis=2), strict=True))
    assert (largest["tanh"] <= 1).all()
    assert (largest["sigmoid"] <= 1).all()
    assert largest["relu6"][1] == 6.0  # saturated
    assert largest["identity"][1] > 1e6
    assert largest["relu"][1] > 1e3
    gain = dict(zip(found["activation"].tolist(), found["gradient"][:, :, -1], strict=True))
    assert all(values[0] < 1e-6 for values in gain.values())  # a radius of 0.5 vanishes whatever the activation
    assert gain["sigmoid"][0] == min(values[0] for values in gain.values())
    assert (found["gradient"][:, :, 0] == 1).all()


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, two, other = (activation_stability(["tanh"], steps=5, hidden=4, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one["gradient"], two["gradient"])
    assert not np.array_equal(one["gradient"], other["gradient"])


def test_an_unknown_activation() -> None:
    with assert_refused(UnknownNameError, "relu"):
        activation_stability(["relo"])
