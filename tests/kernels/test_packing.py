"""How a matrix is laid out for the tiles, against the same said in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from thereafter.base import compiled

pytestmark = pytest.mark.skipif(not compiled.available(), reason="numba is not here")

SIZES = [(3, 5, 7), (4, 16, 16), (4, 48, 33), (4, 37, 64), (3, 130, 20)]  # gates, units, columns


def gate_panels(weight: NDArray[Any], units: int, lanes: int) -> NDArray[Any]:
    """[panel, K, gates, L], zeros beyond the last unit."""
    gates, columns = len(weight) // units, weight.shape[1]
    panels = -(-units // lanes)
    padded = np.zeros((gates, panels * lanes, columns), weight.dtype)
    padded[:, :units] = weight.reshape(gates, units, columns)
    return padded.reshape(gates, panels, lanes, columns).transpose(1, 3, 0, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gates_by_panels_of_units(size: tuple[int, int, int], dtype: Any) -> None:
    from thereafter.kernels.loops import recurrence

    gates, units, columns = size
    weight = np.random.default_rng(0).standard_normal((gates * units, columns)).astype(dtype)
    packed = np.full(recurrence.packed_size(gates * units, columns, units, weight.itemsize), np.nan, dtype)
    recurrence.pack_gates(weight, units, packed, 0, units)
    expected = gate_panels(weight, units, recurrence.lanes_of(weight))
    assert np.array_equal(packed[: expected.size].reshape(expected.shape), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_columns_by_panels_of_up_to_four_vectors(size: tuple[int, int, int], dtype: Any) -> None:
    from thereafter.kernels.loops import recurrence

    gates, units, columns = size
    width = gates * units
    weight = np.random.default_rng(0).standard_normal((width, columns)).astype(dtype)
    lanes = int(recurrence.lanes_of(weight))
    packed = np.full(recurrence.packed_size(width, columns, units, weight.itemsize), np.nan, dtype)
    for packer in range(3):
        recurrence.pack_columns(weight, packed, 0, columns, packer, 3)
    for index in range(recurrence.panels_of(0, columns, lanes)):
        column, vectors = recurrence.panel_of(0, columns, lanes, index)
        own, there = vectors * lanes, min(vectors * lanes, columns - column)
        panel = packed[column * width : column * width + width * own].reshape(width, own)
        assert np.array_equal(panel[:, :there], weight[:, column : column + there])
        assert not panel[:, there:].any()
