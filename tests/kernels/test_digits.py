"""Rows cut into digits, and products with int8 matrices by the instruction that multiplies bytes by fours."""

from __future__ import annotations

import pytest
import torch

from thereafter import nn
from thereafter.base.compiled import available
from thereafter.kernels.step.stepper import StoredProduct
from thereafter.kernels.step.storing import BLOCK, DIGITS, GROUP, cut_into_digits, rounded


def by_fours() -> bool:
    if not available():
        return False
    from thereafter.kernels.loops import fours

    return fours.usable()


compiled_only = pytest.mark.skipif(not available(), reason="loops are not compiled here")
here = pytest.mark.skipif(not by_fours(), reason="this processor has no dot product of bytes, or it is not in use")


def rows(count: int, columns: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(columns)
    return torch.randn(count, columns, generator=generator) * torch.logspace(-6, 6, count).unsqueeze(1)


@pytest.mark.parametrize("columns", [1, 5, GROUP, 37, BLOCK, BLOCK + 22, 3 * BLOCK + 1])
def test_digits_stand_for_the_numbers_as_exactly_as_float32(columns: int) -> None:
    x = rows(3, columns)
    digits, scales = cut_into_digits(x)
    powers = torch.tensor([65536, 256, 1]).unsqueeze(1)
    again = (digits * powers).sum(2) * scales.double().unsqueeze(2)
    for block, start in enumerate(range(0, columns, BLOCK)):
        part = x[:, start : start + BLOCK].double()
        error = (again[:, block, : part.shape[1]] - part).abs().amax(1)
        assert (error <= part.abs().amax(1) * 2.0**-22.5).all()
        assert (again[:, block, part.shape[1] :] == 0).all()


def test_numbers_at_the_ends_of_the_range() -> None:
    for x in (torch.zeros(1, 4), torch.full((1, 4), 1e-42), torch.tensor([[3e38, -3e38, 1e37, 0.0]])):
        digits, scales = cut_into_digits(x)
        whole = (digits[0, 0, :, :4] * torch.tensor([65536, 256, 1]).unsqueeze(1)).sum(0)
        torch.testing.assert_close(whole * scales[0, 0], x[0], rtol=1e-5, atol=1e-36)
    for odd in (float("nan"), float("inf")):
        assert not cut_into_digits(torch.tensor([[1.0, odd]]))[1].isfinite().any()


@here
@pytest.mark.parametrize("columns", [1, 5, GROUP, 37, BLOCK, BLOCK + 22, 3 * BLOCK + 1])
def test_the_compiled_twin_has_the_same_digits(columns: int) -> None:
    from thereafter.kernels.loops import fours

    x = rows(3, columns)
    x[1, 0] = float("inf")
    digits, scales = cut_into_digits(x)
    blocks = scales.shape[1]
    records = torch.empty(3, blocks, fours.RECORD, dtype=torch.int8)
    for row in range(3):
        fours.cut().ctypes(columns, x[row].data_ptr(), records[row].data_ptr())
    head = fours.RECORD - BLOCK * DIGITS
    assert torch.equal(records[:, :, :4].contiguous().view(torch.float32)[..., 0], scales)
    laid_out = records[:, :, head:].view(3, blocks, BLOCK // GROUP, DIGITS, GROUP).transpose(2, 3)
    laid_out = laid_out.reshape(3, blocks, DIGITS, BLOCK)
    for block, start in enumerate(range(0, columns, BLOCK)):
        wide = -(-min(BLOCK, columns - start) // GROUP) * GROUP  # beyond the last group nothing is written
        assert torch.equal(laid_out[:, block, :, :wide], digits[:, block, :, :wide])


@here
def test_widened_and_by_fours_the_products_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from thereafter.kernels.loops import fours

    x_TBI = torch.randn(5, 3, 150)
    for kind in ("LSTM", "GRU", "MinGRU"):
        torch.manual_seed(1)
        layer = getattr(nn, kind)(150, 67).eval()
        both = []
        for usable in (True, False):
            monkeypatch.setattr(fours, "usable", lambda usable=usable: usable)
            stream = layer.stream(3, weights="int8")
            both.append(torch.stack([stream.step(x_BI).clone() for x_BI in x_TBI]))
        torch.testing.assert_close(both[0], both[1], rtol=3e-6, atol=3e-6)
        assert not torch.equal(both[0], both[1]), "both are the same product"


@compiled_only
def test_a_row_of_large_numbers_beside_small_ones() -> None:
    """A scale is that of its own row and block."""
    weight, bias = torch.randn(40, 2 * BLOCK), torch.zeros(40)
    x = torch.randn(2, 2 * BLOCK)
    x[0] *= 1e8
    x[1, :BLOCK] *= 1e-8
    product = StoredProduct(weight, bias, "int8")
    exact = rounded(weight, "int8").double()
    torch.testing.assert_close(product(x).double(), x.double() @ exact.t(), rtol=1e-5, atol=1e-4 * 1e8)
    torch.testing.assert_close(product(x)[1].double(), x[1].double() @ exact.t(), rtol=1e-4, atol=1e-5)
    x[1, BLOCK:] = 0.0
    torch.testing.assert_close(product(x)[1].double(), x[1].double() @ exact.t(), rtol=1e-4, atol=1e-13)


@compiled_only
def test_a_number_that_is_none_stays_in_its_row() -> None:
    product = StoredProduct(torch.randn(20, 30), torch.zeros(20), "int8")
    x = torch.randn(3, 30)
    x[1, 7] = float("nan")
    nans = product(x).isnan()
    assert nans[1].all()
    assert not nans[[0, 2]].any()
