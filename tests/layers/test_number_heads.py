"""Heads over numbers: their costs against torch's losses and densities, their spread, their names."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError, UnknownNameError
from thereafter.series.distributions import Laplace, Normal
from thereafter.series.number_heads import LEVELS, NUMBER_HEADS, NumberHead, Quantiles

N, FEATURES, SIZE = 6, 5, 3
EVERY = pytest.mark.parametrize("name", list(NUMBER_HEADS))
POINTS = ("squared", "absolute", "huber")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def make(name: str) -> NumberHead:
    torch.manual_seed(0)
    head: NumberHead = NUMBER_HEADS.load(name)(FEATURES, SIZE).double()
    with torch.no_grad():
        head.bias.copy_(0.3 * drawn(len(head.bias), seed=3))
    return head


def batch(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, targets, offset and scale."""
    f, y, offset, scale = drawn(N, FEATURES), 3 * drawn(N, SIZE, seed=1), drawn(N, SIZE, seed=2), drawn(N, SIZE, seed=4)
    if name == "negative-binomial":
        return f, y.abs().floor(), torch.zeros_like(offset), scale.exp()
    return f, y, offset, scale.exp()


@EVERY
def test_costs_are_finite_and_have_the_gradients_of_small_differences(name: str) -> None:
    head = make(name)
    f, y, offset, scale = batch(name)
    f.requires_grad_()
    costs = head.costs(f, y, offset, scale)
    assert costs.shape == (N, SIZE)
    assert torch.autograd.gradcheck(lambda features: head.costs(features, y, offset, scale), [f])
    expected = head.expect(f)
    assert expected.mean().shape == (N, SIZE)
    assert head.has_density == (name not in POINTS)


@EVERY
def test_training_makes_the_costs_small(name: str) -> None:
    head = make(name)
    f, y, offset, scale = batch(name)
    optimiser = torch.optim.Adam(head.parameters(), 0.05)
    before = head.costs(f, y, offset, scale).mean().item()
    for _ in range(60):
        optimiser.zero_grad()
        head.costs(f, y, offset, scale).mean().backward()
        optimiser.step()
    assert head.costs(f, y, offset, scale).mean().item() < before


def test_point_heads_have_the_losses_of_torch() -> None:
    losses = {"squared": F.mse_loss, "absolute": F.l1_loss, "huber": F.huber_loss}
    for name, loss in losses.items():
        head = make(name)
        f, y, offset, scale = batch(name)
        point = offset + scale * (f @ head.weight.T + head.bias)
        torch.testing.assert_close(head.costs(f, y, offset, scale), loss(point, y, reduction="none"))
        torch.testing.assert_close(head.expect(f).moved(offset, scale).mean(), point)


@pytest.mark.parametrize("name", ["gaussian", "student-t", "negative-binomial"])
def test_densities_cost_their_log_probability(name: str) -> None:
    head = make(name)
    f, y, offset, scale = batch(name)
    torch.testing.assert_close(
        head.costs(f, y, offset, scale), -head.expect(f).moved(offset, scale).log_prob(y), rtol=0, atol=0
    )


def test_a_quantile_head_costs_the_mean_pinball_loss_of_its_levels() -> None:
    head = make("quantile")
    f, y, offset, scale = batch("quantile")
    expected = head.expect(f)
    assert isinstance(expected, Quantiles)
    values = head._values(f)
    pinball = torch.zeros(N, SIZE, dtype=torch.double)
    for at, level in enumerate(LEVELS):
        error = y - (offset + scale * values[..., at])
        pinball += torch.where(error > 0, level * error, (level - 1) * error) / len(LEVELS)
    torch.testing.assert_close(head.costs(f, y, offset, scale), pinball, rtol=1e-6, atol=1e-6)


@EVERY
def test_without_weights_a_head_expects_a_spread_of_one(name: str) -> None:
    head = make(name)
    with torch.no_grad():
        for weight in head.parameters():
            weight.zero_()
        expected = head.expect(drawn(2, FEATURES))
    assert expected.mean() == pytest.approx(1.0 if name == "negative-binomial" else 0.0, abs=1e-3)
    if name not in ("negative-binomial", "student-t", "absolute"):
        high = expected.inverse(torch.full((2, SIZE), 0.8413447, dtype=torch.double))
        assert high == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("name", POINTS)
def test_the_spread_of_a_point_comes_from_its_errors_and_is_saved(name: str) -> None:
    head, residuals = make(name), 2 * drawn(4000, SIZE, seed=5)
    residuals[::7, 1] = torch.nan
    residuals[:, 2] = torch.nan
    head.set_spread(residuals)
    seen = residuals[:, 1][~residuals[:, 1].isnan()]
    expected = seen.abs().mean() if name == "absolute" else seen.square().mean().sqrt()
    assert head.spread[1].item() == pytest.approx(expected.item())
    assert head.spread[2].item() == 1.0
    distribution = head.expect(drawn(2, FEATURES))
    assert isinstance(distribution, Laplace if name == "absolute" else Normal)
    other = make(name)
    other.load_state_dict(head.state_dict())
    torch.testing.assert_close(other.spread, head.spread)
    head.set_spread(torch.zeros(10, SIZE))
    assert (head.spread > 0).all()


@EVERY
@pytest.mark.parametrize("size", [1e-6, 1e3, 1e6])
def test_large_features_give_no_nan(name: str, size: float) -> None:
    head = make(name).float()
    f, y, offset, scale = (tensor.float() for tensor in batch(name))
    f = (size * f).requires_grad_()
    costs = head.costs(f, y, offset, scale)
    costs.sum().backward()
    assert costs.isfinite().all()
    assert f.grad is not None
    assert f.grad.isfinite().all()
    with torch.no_grad():
        expected = head.expect(f).moved(offset, scale)
        assert expected.mean().isfinite().all()
        assert not expected.log_prob(y).isnan().any()
        if size < 1e6:
            assert expected.quantiles(torch.tensor([0.05, 0.5, 0.95])).isfinite().all()


@EVERY
def test_half_precision_is_widened(name: str) -> None:
    head = make(name).bfloat16()
    assert head.expect(torch.zeros(2, FEATURES, dtype=torch.bfloat16)).mean().dtype == torch.float32


def test_mistakes_are_named() -> None:
    with assert_refused(UnknownNameError, "gaussian"):
        NUMBER_HEADS.load("gausian")
    with assert_refused(OptionError, 1):
        NUMBER_HEADS.load("squared")(0, 1)
    with assert_refused(ShapeError, "[N, 5]"):
        make("gaussian").expect(torch.zeros(2, 3))
