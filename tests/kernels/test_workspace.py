"""Arrays that are given up come back, and no more of them are kept than the limit says."""

from __future__ import annotations

import pytest
import torch

from thereafter.kernels.cpu import products


@pytest.fixture(autouse=True)
def empty_free_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "free_arrays", products.FreeArrays())


def test_what_was_given_up_is_taken_again() -> None:
    like = torch.zeros(1)
    first = products.take(like, 400, 300)
    products.give(first)
    again = products.take(like, 300, 400)
    assert again.data_ptr() == first.data_ptr()
    assert again.shape == (300, 400)
    assert products.free_arrays.bytes == 0


def test_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "MOST_BYTES", 3 << 20)
    arrays = [torch.empty((1 << 18) + count) for count in range(4)]  # a little over 1 MB each
    products.give_all(*arrays)
    kept = [key[1] - (1 << 18) for key in products.free_arrays.free]
    assert kept == [2, 3]
    assert products.free_arrays.bytes == sum(array.nbytes for array in arrays[2:])
