"""Distributions over numbers against those of scipy and torch, their own draws, and a change of variables."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from thereafter.errors import OptionError, ShapeError
from thereafter.series.distributions import Distribution, Laplace, NegativeBinomial, Normal, StudentT, incomplete_beta
from thereafter.series.number_heads import Quantiles

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")

LEVELS = torch.tensor([0.05, 0.25, 0.5, 0.8, 0.9], dtype=torch.double)
SHARES = (0.001, 0.01, 0.1, 0.25, 0.5, 0.8, 0.95, 0.999)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def positive(*shape: int, seed: int = 0) -> Tensor:
    return drawn(*shape, seed=seed).exp()


def normal(*shape: int) -> Normal:
    return Normal(drawn(*shape), positive(*shape, seed=1))


def laplace(*shape: int) -> Laplace:
    return Laplace(drawn(*shape), positive(*shape, seed=1))


def student(*shape: int) -> StudentT:
    return StudentT(drawn(*shape), positive(*shape, seed=1), 2.1 + 3 * positive(*shape, seed=2))


def counts(*shape: int) -> NegativeBinomial:
    return NegativeBinomial(10 * positive(*shape), positive(*shape, seed=1))


def quantiles(*shape: int) -> Quantiles:
    return Quantiles(LEVELS, 2 * drawn(*shape, len(LEVELS)))


CONTINUOUS = pytest.mark.parametrize("make", [normal, laplace, student, quantiles])
ALL = pytest.mark.parametrize("make", [normal, laplace, student, counts, quantiles])


def outside(distribution: Distribution) -> object:
    """The same distribution of scipy."""
    match distribution:
        case Normal():
            return stats.norm(distribution.location.numpy(), distribution.spread.numpy())
        case Laplace():
            return stats.laplace(distribution.location.numpy(), distribution.spread.numpy())
        case StudentT():
            return stats.t(distribution.freedom.numpy(), distribution.location.numpy(), distribution.spread.numpy())
        case NegativeBinomial():
            alpha, mu = distribution.dispersion.numpy(), distribution.location.numpy()
            return stats.nbinom(1 / alpha, 1 / (1 + alpha * mu))
    raise TypeError(type(distribution))


@pytest.mark.parametrize("make", [normal, laplace, student, counts])
def test_densities_shares_and_quantiles_are_those_of_scipy(make: Callable[..., Distribution]) -> None:
    ours = make(40)
    theirs = outside(ours)
    y = 5 * drawn(40, seed=5)
    if isinstance(ours, NegativeBinomial):
        y = (5 * y).abs().floor()
        expected = theirs.logpmf(y.numpy())
    else:
        expected = theirs.logpdf(y.numpy())
    np.testing.assert_allclose(ours.log_prob(y), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.cdf(y), theirs.cdf(y.numpy()), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(ours.mean(), theirs.mean(), rtol=1e-12)
    for share in SHARES:
        value = ours.inverse(torch.full((40,), share, dtype=torch.double))
        np.testing.assert_allclose(value, theirs.ppf(share), rtol=1e-9, atol=1e-9)
    together = ours.quantiles(torch.tensor(SHARES, dtype=torch.double))
    assert together.shape == (40, len(SHARES))
    np.testing.assert_allclose(together, theirs.ppf(np.array(SHARES)[:, None]).T, rtol=1e-9, atol=1e-9)


def test_densities_are_those_of_torch() -> None:
    theirs = torch.distributions
    y, one, two, three = (drawn(30, seed=k) for k in range(4))
    two, three = two.exp(), 3 + three.exp()
    torch.testing.assert_close(Normal(one, two).log_prob(y), theirs.Normal(one, two).log_prob(y))
    torch.testing.assert_close(Laplace(one, two).log_prob(y), theirs.Laplace(one, two).log_prob(y))
    torch.testing.assert_close(StudentT(one, two, three).log_prob(y), theirs.StudentT(three, one, two).log_prob(y))
    count = (10 * y).abs().floor()
    mixture = theirs.NegativeBinomial(1 / two, logits=(two * three).log())
    torch.testing.assert_close(NegativeBinomial(three, two).log_prob(count), mixture.log_prob(count))


@CONTINUOUS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_inverse_undoes_the_distribution_function(make: Callable[..., Distribution], dtype: torch.dtype) -> None:
    ours = make(50)
    if dtype == torch.float32:
        ours = ours.each(Tensor.float)
    share = torch.linspace(0.01, 0.99, 50, dtype=dtype)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    y = ours.inverse(share)
    assert y.dtype == dtype
    torch.testing.assert_close(ours.cdf(y), share, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(ours.inverse(ours.cdf(y)), y, rtol=100 * tolerance, atol=100 * tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_counts_come_back_from_their_shares(dtype: torch.dtype) -> None:
    ours = NegativeBinomial(torch.tensor(8.0, dtype=dtype), torch.tensor(0.3, dtype=dtype))
    y = torch.arange(40, dtype=dtype)
    assert ours.inverse(ours.cdf(y)).tolist() == y.tolist()
    assert ours.cdf(torch.tensor([-1.0, -0.5, 2.7], dtype=dtype)).tolist() == [0, 0, ours.cdf(y[2]).item()]
    assert ours.log_prob(torch.tensor(-1.0, dtype=dtype)).item() == -math.inf
    torch.testing.assert_close(ours.log_prob(y).exp().cumsum(0), ours.cdf(y), rtol=1e-5, atol=1e-6)


def test_counts_that_are_large_have_quantiles_too() -> None:
    mean = torch.tensor([1.5e3, 1e5, 1e7], dtype=torch.double)
    ours = NegativeBinomial(mean, torch.full((3,), 1e-3, dtype=torch.double))
    for share in (0.01, 0.5, 0.99):
        value = ours.inverse(torch.full((3,), share, dtype=torch.double))
        np.testing.assert_allclose(value, outside(ours).ppf(share), rtol=1e-9)
    endless = NegativeBinomial(torch.tensor([1e30]), torch.tensor([1.0]))
    assert not endless.inverse(torch.tensor([0.5])).isnan().any()
    assert ours.inverse(torch.ones(3)).isinf().all()
    assert ours.inverse(torch.zeros(3)).tolist() == [0, 0, 0]


@ALL
def test_draws_have_the_mean_and_the_quantiles(make: Callable[..., Distribution]) -> None:
    ours, count = make(4), 4000 if make is counts else 40_000
    draws = ours.sample(count, torch.Generator().manual_seed(3))
    assert draws.shape == (count, 4)
    torch.testing.assert_close(draws, ours.sample(count, torch.Generator().manual_seed(3)), rtol=0, atol=0)
    error = 4 * draws.std(0) / math.sqrt(count)
    assert ((draws.mean(0) - ours.mean()).abs() < error).all()
    for share in (0.02, 0.3, 0.5, 0.85, 0.98):
        value = ours.inverse(torch.full((4,), share, dtype=torch.double))
        below, above = (draws < value).double().mean(0), (draws <= value).double().mean(0)
        wide = 4 * math.sqrt(share * (1 - share) / count)
        assert ((below - wide <= share) & (share <= above + wide)).all()


@CONTINUOUS
def test_a_moved_distribution_is_that_of_moved_values(make: Callable[..., Distribution]) -> None:
    ours, y = make(30), drawn(30, seed=7)
    offset, scale = 5 * drawn(30, seed=8), positive(30, seed=9)
    moved = ours.moved(offset, scale)
    torch.testing.assert_close(moved.log_prob(offset + scale * y), ours.log_prob(y) - scale.log(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(moved.cdf(offset + scale * y), ours.cdf(y), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(moved.mean(), offset + scale * ours.mean())
    share = torch.linspace(0.01, 0.99, 30, dtype=torch.double)
    torch.testing.assert_close(moved.inverse(share), offset + scale * ours.inverse(share))


def test_moved_counts_have_a_scaled_mean_and_are_not_shifted() -> None:
    ours, scale = counts(5), positive(5, seed=4)
    moved = ours.moved(torch.zeros(5), scale)
    torch.testing.assert_close(moved.mean(), scale * ours.mean())
    torch.testing.assert_close(moved.dispersion, ours.dispersion / scale.sqrt())
    with pytest.raises(OptionError, match="cannot be shifted"):
        ours.moved(torch.ones(5), scale)


@ALL
def test_elements_are_seen_as_steps_and_targets(make: Callable[..., Distribution]) -> None:
    ours = make(3, 8)
    seen = ours.viewed((4, 2), 3)
    torch.testing.assert_close(seen.mean(), ours.mean().view(3, 4, 2)[:, :3])
    levels = torch.tensor([0.1, 0.5], dtype=torch.double)
    torch.testing.assert_close(seen.quantiles(levels), ours.quantiles(levels).view(3, 4, 2, 2)[:, :3])
    y = drawn(3, 8).abs().ceil()
    torch.testing.assert_close(seen.log_prob(y.view(3, 4, 2)[:, :3]), ours.log_prob(y).view(3, 4, 2)[:, :3])


def test_gradients_are_those_of_small_differences() -> None:
    y = drawn(5, seed=6)
    located = [drawn(5).requires_grad_(), positive(5, seed=1).requires_grad_()]
    assert torch.autograd.gradcheck(lambda a, b: Normal(a, b).log_prob(y), located)
    assert torch.autograd.gradcheck(lambda a, b: Laplace(a, b).log_prob(y), located)
    freedom = (3 + positive(5, seed=2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b, c: StudentT(a, b, c).log_prob(y), [*located, freedom])
    spread = [positive(5).requires_grad_(), positive(5, seed=3).requires_grad_()]
    whole = (4 * y).abs().ceil()
    assert torch.autograd.gradcheck(lambda a, b: NegativeBinomial(a, b).log_prob(whole), spread)
    values = drawn(5, len(LEVELS)).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: Quantiles(LEVELS, v).log_prob(y), [values])
    assert torch.autograd.gradcheck(lambda v: Quantiles(LEVELS, v).mean(), [values])
    assert torch.autograd.gradcheck(lambda v: Quantiles(LEVELS, v).quantiles(torch.tensor([0.01, 0.3, 0.99])), [values])


def test_values_at_levels_make_a_distribution() -> None:
    ours = quantiles(6)
    torch.testing.assert_close(ours.quantiles(LEVELS), ours.values)
    assert (ours.values.diff(dim=-1) >= 0).all()
    grid = torch.linspace(-80, 80, 400_001, dtype=torch.double)
    wide = ours.each(lambda values: values[:, None])
    density = wide.log_prob(grid.expand(6, -1)).exp()
    assert torch.trapezoid(density, grid).numpy() == pytest.approx(np.ones(6), abs=1e-3)
    assert torch.trapezoid(density * grid, grid).numpy() == pytest.approx(ours.mean().numpy(), abs=5e-3)
    shares = (torch.arange(100_000, dtype=torch.double) + 0.5) / 100_000
    assert ours.quantiles(shares).mean(-1).numpy() == pytest.approx(ours.mean().numpy(), abs=1e-3)


def test_values_that_coincide_keep_a_finite_density() -> None:
    ours = Quantiles(torch.tensor([0.1, 0.5, 0.9]), torch.tensor([[2.0, 2.0, 2.0], [0.0, 1.0, 1.0]]))
    for y in (torch.tensor([2.0, 1.0]), torch.tensor([3.0, 3.0]), torch.tensor([-2.0, -2.0])):
        assert ours.log_prob(y).isfinite().all()
        assert ((ours.cdf(y) >= 0) & (ours.cdf(y) <= 1)).all()
    assert ours.mean().isfinite().all()
    with pytest.raises(ShapeError, match="two levels or more"):
        Quantiles(torch.tensor([0.5]), torch.zeros(3, 1))


def test_the_incomplete_beta_function_is_that_of_scipy() -> None:
    a, b = 10 * positive(500, seed=1) ** 2, 10 * positive(500, seed=2) ** 2
    x = torch.rand(500, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    theirs = special.betainc(a.numpy(), b.numpy(), x.numpy())
    np.testing.assert_allclose(incomplete_beta(a, b, x, 1 - x), theirs, rtol=1e-9, atol=1e-14)
    large = torch.tensor([1e5, 1e3, 2.0], dtype=torch.double), torch.tensor([1e5, 1e6, 1e6], dtype=torch.double)
    at = torch.tensor([0.501, 1e-3, 1e-6], dtype=torch.double)
    theirs = special.betainc(*(one.numpy() for one in (*large, at)))
    np.testing.assert_allclose(incomplete_beta(*large, at, 1 - at), theirs, rtol=1e-7)
    ends = torch.tensor([0.0, 1.0], dtype=torch.double)
    assert incomplete_beta(torch.tensor(2.0), torch.tensor(3.0), ends, 1 - ends).tolist() == [0.0, 1.0]


@ALL
def test_half_precision_is_worked_out_in_single(make: Callable[..., Distribution]) -> None:
    ours = make(4).each(Tensor.bfloat16)
    assert ours.mean().dtype == ours.log_prob(torch.ones(4)).dtype == ours.cdf(torch.ones(4)).dtype == torch.float32
