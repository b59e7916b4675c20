"""Repeated multiplication: powers that are known, and states that are bounded."""

from __future__ import annotations

import numpy as np
import pytest

from thereafter.errors import UnknownNameError
from thereafter.inspection.stability import activation_stability, repeated_multiplication


def test_an_orthogonal_matrix_gives_the_powers_of_its_scale() -> None:
    found = repeated_multiplication((0.9, 1.0, 1.1), steps=30, hidden=16)
    for row, radius in enumerate((0.9, 1.0, 1.1)):
        powers = radius ** np.arange(30)
        np.testing.assert_allclose(found["power"][row], powers, rtol=1e-9)
        np.testing.assert_allclose(found["linear"][row], powers, rtol=1e-9)
        assert (found["tanh"][row, 1:] < powers[1:]).all()  # slopes are below 1


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
    with pytest.raises(UnknownNameError, match="did you mean 'relu'"):
        activation_stability(["relo"])
