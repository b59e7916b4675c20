"""What torch users expect of a layer: second derivatives, autocast, changes in place, quiet evaluation."""

from __future__ import annotations

import math

import pytest
import torch

from thereafter import nn
from thereafter.errors import OptionError
from thereafter.layers.dropout import keep_mask, weight_drop


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "MinGRU"])
def test_second_derivatives_of_a_linear_read_out(kind: str):
    """They once came out wrong in silence."""
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    layer = getattr(nn, kind)(3, 5, batch_first=True, dtype=torch.float64)
    seconds = []
    for layer.kernel in ("auto", "reference"):
        (first,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
        seconds += torch.autograd.grad(first.pow(2).sum(), x)
    assert float(seconds[0].abs().sum()) > 0
    torch.testing.assert_close(*seconds)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_autocast_on_a_cpu(kind: str):
    layer = getattr(nn, kind)(3, 5, batch_first=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(layer(torch.randn(2, 4, 3))[0].float()).all()


@pytest.mark.parametrize("batch", [1, 3])
def test_outputs_may_be_changed_in_place(batch: int):
    layer, x = nn.GRU(3, 5, batch_first=True), torch.randn(batch, 4, 3)
    plain = layer(x)[0]
    plain.sum().backward()
    expected = layer.weight_hh_l0.grad.clone()
    layer.zero_grad()
    changed = layer(x)[0]
    changed.mul_(2.0)
    changed.sum().backward()
    torch.testing.assert_close(layer.weight_hh_l0.grad, 2 * expected)


def test_evaluation_draws_no_random_numbers():
    layer = nn.LSTM(3, 5, zoneout=0.1, weight_drop=0.5, input_dropout=0.2).eval()
    before = torch.get_rng_state()
    layer(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("p", [1e-7, 1e-4, 0.3, 0.9999, 1 - 1e-7])
def test_weight_drop_keeps_the_mean(p: float):
    torch.manual_seed(0)
    dropped = weight_drop(torch.ones(1000, 1000), p, training=True)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=max(6 * math.sqrt(p / (1 - p)) / 1000, 1e-3))
    kept = keep_mask(torch.ones(1000, 1000), 0.3)
    assert float((kept == 0).float().mean()) == pytest.approx(0.3, abs=2e-3)


def test_sizes_of_the_wrong_type_are_named():
    for sizes in ((3, 4.0), ("3", 4), (3, "4")):
        with pytest.raises(OptionError, match="expected"):
            nn.LSTM(*sizes)
