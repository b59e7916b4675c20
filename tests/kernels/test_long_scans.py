"""Linear recurrences over rows so long that they are cut into pieces, against the plain loop."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from thereafter import nn
from thereafter.kernels import plain as parallel
from thereafter.kernels.plain import linear_scan


def by_loop(a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor) -> Tensor:
    states = [h_BH]
    for a_BH, b_BH in zip(a_BTH.unbind(1), b_BTH.unbind(1), strict=True):
        states.append(a_BH * states[-1] + b_BH)
    return torch.stack(states[1:], 1)


@pytest.mark.parametrize("steps", [256, 257, 289, 300, 784])
def test_long_rows_are_those_of_the_loop(steps: int) -> None:
    torch.manual_seed(steps)
    a, b, h = (
        torch.rand(2, steps, 3, dtype=torch.float64),
        torch.randn(2, steps, 3).double(),
        torch.randn(2, 3).double(),
    )
    torch.testing.assert_close(linear_scan(a, b, h), by_loop(a, b, h))
    one = torch.full((3,), 0.9, dtype=torch.float64)
    torch.testing.assert_close(linear_scan(one.expand(2, steps, 3), b, h), by_loop(one.expand(2, steps, 3), b, h))


@pytest.mark.parametrize("steps", [7, 9, 10])
def test_long_rows_have_both_gradients(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_LONG", 2)
    torch.manual_seed(1)
    given = [torch.rand(2, steps, 2).double(), torch.randn(2, steps, 2).double(), torch.randn(2, 2).double()]
    for one in given:
        one.requires_grad_()
    assert torch.autograd.gradcheck(linear_scan, given)
    assert torch.autograd.gradgradcheck(linear_scan, given)


@pytest.mark.parametrize("kind", [nn.MinGRU, nn.MinLSTM, nn.Diagonal])
def test_a_long_layer_gives_what_the_reference_gives(kind: type[nn.MinGRU]) -> None:
    torch.manual_seed(2)
    layer, x = kind(3, 4, bidirectional=True, batch_first=True), torch.randn(3, 400, 3)
    lengths, gradients = torch.tensor([400, 1, 270]), []
    outputs = []
    for kernel in ("reference", "parallel"):
        layer.kernel = kernel
        layer.zero_grad()
        y, _ = layer(x, lengths=lengths)
        y.square().mean().backward()
        outputs.append(y.detach())
        gradients.append([weight.grad.clone() for weight in layer.parameters() if weight.grad is not None])
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_lower_precision_is_added_up_in_that_of_the_state() -> None:
    a, b = torch.full((1, 300, 1), 0.5, dtype=torch.bfloat16), torch.ones(1, 300, 1, dtype=torch.bfloat16)
    scanned = linear_scan(a, b, torch.zeros(1, 1))
    assert scanned.dtype == torch.float32
    assert scanned[0, -1].item() == pytest.approx(2.0)
