"""Distributions over numbers, element by element: what a head over numbers expects.

A point forecast that makes squared errors small is the mean of a normal distribution, one that makes absolute errors
small the median of a Laplace distribution; with a spread from its errors it has bands and draws like any other. Values
at fixed levels are a distribution that is piecewise linear, with exponential tails (`number_heads.py`). At the end are
Student's t and the negative binomial.

Shapes: `...` are the elements, each with a distribution of its own; Q levels; B, H, D as in forecasting.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.errors import OptionError

_EDGE = 1e-7  # of a uniform draw: its 0 would be a quantile of minus infinity


class Distribution(ABC):
    """A distribution for every element of a tensor; arithmetic is in float32 at least."""

    @abstractmethod
    def log_prob(self, y: Tensor) -> Tensor:
        """log p of each element, with gradients."""

    @abstractmethod
    def mean(self) -> Tensor:
        """The mean of each element."""

    @abstractmethod
    def cdf(self, y: Tensor) -> Tensor:
        """The share of each distribution that is not above its y."""

    @abstractmethod
    def inverse(self, share: Tensor) -> Tensor:
        """The value below which a share lies, one share for each element; shapes broadcast."""

    @abstractmethod
    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        """The distribution of offset + scale y; `scale` is positive."""

    @abstractmethod
    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with each of its tensors changed alike."""

    def quantiles(self, levels_Q: Tensor) -> Tensor:
        """The values below which the shares `levels_Q` lie, [..., Q]."""
        return self.each(lambda parameter: parameter.unsqueeze(-1)).inverse(levels_Q.to(self.mean()))

    def viewed(self, shape: tuple[int, ...], keep: int) -> Self:
        """Elements [B, a b] seen as [B, a, b], of which the first `keep` of axis 1 stay: `viewed((H, D), h)`."""
        return self.each(lambda parameter: parameter.reshape(len(parameter), *shape, *parameter.shape[2:])[:, :keep])

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent draws, [count, ...], without gradients: quantiles of uniform shares."""
        mean = self.mean()
        share = torch.rand((count, *mean.shape), generator=generator, dtype=mean.dtype, device=mean.device)
        return self.inverse(share.clamp(_EDGE, 1 - _EDGE))


class LocatedDistribution(Distribution):
    """A distribution of a location, which is its mean, a spread, and perhaps parameters of its shape."""

    def __init__(self, location: Tensor, spread: Tensor, *shape: Tensor) -> None:
        self.parameters = in_float32(location, spread, *shape)
        self.location, self.spread = self.parameters[:2]

    def mean(self) -> Tensor:
        return self.location

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        return type(self)(offset + scale * self.location, scale * self.spread, *self.parameters[2:])

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(*map(change, self.parameters))


def in_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors of one shape in one type, float32 at least: half precision would not resolve a tail."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return in_one_shape(*(tensor.to(dtype) for tensor in tensors))


def in_one_shape(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors expanded to the shape that all of them fit."""
    shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)


_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Normal(LocatedDistribution):
    """The normal distribution.

        log p(y) = -(y - mu)^2 / (2 sigma^2) - log sigma - (1/2) log 2 pi

    >>> Normal(torch.zeros(1), torch.ones(1)).log_prob(torch.zeros(1)).item()
    -0.9189385175704956
    """

    def log_prob(self, y: Tensor) -> Tensor:
        return -0.5 * ((y - self.location) / self.spread).square() - self.spread.log() - _HALF_LOG_TAU

    def cdf(self, y: Tensor) -> Tensor:
        below: Tensor = torch.special.ndtr((y - self.location) / self.spread)
        return below

    def inverse(self, share: Tensor) -> Tensor:
        standard: Tensor = torch.special.ndtri(share.to(self.location))
        return self.location + self.spread * standard

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        shape, dtype, device = (count, *self.location.shape), self.location.dtype, self.location.device
        noise = torch.randn(shape, generator=generator, dtype=dtype, device=device)
        return self.location + self.spread * noise


class Laplace(LocatedDistribution):
    """The Laplace distribution, whose spread b is its mean absolute deviation.

        log p(y) = -|y - m| / b - log 2 b

    >>> Laplace(torch.zeros(1), torch.ones(1)).inverse(torch.tensor([0.5])).item()
    0.0
    """

    def log_prob(self, y: Tensor) -> Tensor:
        return -(y - self.location).abs() / self.spread - (2 * self.spread).log()

    def cdf(self, y: Tensor) -> Tensor:
        z = (y - self.location) / self.spread
        tail = 0.5 * torch.exp(-z.abs())
        return torch.where(z > 0, 1 - tail, tail)

    def inverse(self, share: Tensor) -> Tensor:
        share = share.to(self.location)
        tail = torch.minimum(share, 1 - share)
        return self.location + self.spread * torch.sign(0.5 - share) * torch.log(2 * tail)


_MOST_TERMS = 5000  # terms; about the root of the larger parameter is needed
_CHECK = 8  # terms between two looks at what still changes
_TINY = 1e-300  # in the place of a 0 that would be divided by


def precision(dtype: torch.dtype) -> float:
    """How exact a share has to be that is rounded to `dtype` in the end."""
    return 1e-14 if dtype == torch.double else 1e-9


@torch.no_grad()
def incomplete_beta(a: Tensor, b: Tensor, x: Tensor, rest: Tensor, exact: float = 1e-14) -> Tensor:
    """I_x(a, b) in double precision, without gradients; `rest` is 1 - x, given so that neither is rounded away.

    `exact`: the relative error at which the fraction is broken off.

    >>> one, half = torch.ones(1), torch.full((1,), 0.5)
    >>> incomplete_beta(one, one, half, half).item()  # a uniform distribution
    0.5
    """
    a, b, x, rest = in_one_shape(a.double(), b.double(), x.double(), rest.double())
    above = x > (a + 1) / (a + b + 2)
    a, b = torch.where(above, b, a), torch.where(above, a, b)
    x, rest = torch.where(above, rest, x), torch.where(above, x, rest)
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    front = torch.exp(torch.xlogy(a, x) + torch.xlogy(b, rest) - torch.log(a) - log_beta)
    value = (front / _fraction(a.flatten(), b.flatten(), x.flatten(), exact).view_as(a)).clamp(0.0, 1.0)
    return torch.where(above, 1 - value, value)


def _fraction(a_N: Tensor, b_N: Tensor, x_N: Tensor, exact: float) -> Tensor:
    """1 + d_1 / (1 + d_2 / (1 + ...)), as the product of the quotients of its convergents.

    Most elements are done after a few terms and leave the loop.
    """
    value_N, left_M = torch.ones_like(x_N), torch.arange(len(x_N), device=x_N.device)
    a, b, x = a_N, b_N, x_N
    value, numerator, denominator = torch.ones_like(x), torch.ones_like(x), torch.zeros_like(x)
    for term in range(1, _MOST_TERMS + 1):
        m, odd = divmod(term, 2)
        top = -(a + m) * (a + b + m) if odd else m * (b - m)
        d = top * x / ((a + term - 1) * (a + term))
        denominator = 1 / _not_zero(1 + d * denominator)
        numerator = _not_zero(1 + d / numerator)
        change = numerator * denominator
        value = value * change
        if term % _CHECK == 0:
            value_N[left_M] = value
            moving = (change - 1).abs() > exact
            if not bool(moving.any()):
                break
            a, b, x, value, numerator, denominator, left_M = (
                one[moving] for one in (a, b, x, value, numerator, denominator, left_M)
            )
    return value_N


def _not_zero(value: Tensor) -> Tensor:
    return torch.where(value == 0, _TINY, value)


_STEPS = 30  # of Newton's method; 2 to 5 are usual
_LEAST_TAIL = 1e-300  # of a tail, so that it has a logarithm


class StudentT(LocatedDistribution):
    """Student's t with location mu, spread s and nu > 2 degrees of freedom, so that its variance exists. Its tails
    forgive an outlier.

        z = (y - mu) / s
        log p(y) = log Gamma((nu+1)/2) - log Gamma(nu/2) - (1/2) log(pi nu) - log s - (nu+1)/2 log(1 + z^2 / nu)

    Its variance is s^2 nu / (nu - 2). With z = sqrt(nu) sinh u the density of u is a power of cosh u. The logarithm of
    its tail is therefore concave, and Newton's method finds a quantile from any start. `cdf` and `inverse` have no
    gradients. Draws are those of Bailey (1994, Polar generation of random variates with the t-distribution).

    >>> StudentT(torch.zeros(1), torch.ones(1), torch.full((1,), 3.0)).cdf(torch.zeros(1)).item()
    0.5
    """

    @property
    def freedom(self) -> Tensor:
        """The degrees of freedom of each element."""
        return self.parameters[2]

    def log_prob(self, y: Tensor) -> Tensor:
        nu = self.freedom
        z = (y - self.location) / self.spread
        tail = (nu + 1) / 2 * torch.log1p((z / nu.sqrt()).square())
        return _log_front(nu).to(z.dtype) - 0.5 * nu.log() - self.spread.log() - tail

    @torch.no_grad()
    def cdf(self, y: Tensor) -> Tensor:
        nu = self.freedom.double()
        z = (y - self.location).double() / self.spread
        whole, half, exact = nu + z.square(), nu.new_full((), 0.5), precision(self.location.dtype)
        tail = 0.5 * incomplete_beta(nu / 2, half, nu / whole, z.square() / whole, exact)
        return torch.where(z > 0, 1 - tail, tail).to(self.location.dtype)

    @torch.no_grad()
    def inverse(self, share: Tensor) -> Tensor:
        share, nu = share.to(self.location).double(), self.freedom.double()
        tail = torch.minimum(share, 1 - share).clamp_min(_LEAST_TAIL)
        exact = precision(self.location.dtype)
        log_tail, log_front, half = tail.log(), _log_front(nu), tail.new_full((), 0.5)
        u = torch.asinh(_nearly(tail, nu) / nu.sqrt())
        for _ in range(_STEPS):
            cosh = torch.cosh(u)
            beyond = 0.5 * incomplete_beta(nu / 2, half, cosh.pow(-2), torch.tanh(u).square(), exact)
            beyond = beyond.clamp_min(_LEAST_TAIL)
            step = (beyond.log() - log_tail) * beyond * torch.exp(nu * cosh.log() - log_front)
            u = (u + step).clamp_min(0.0)
            if not bool((step.abs() > exact**0.5 * (1 + u)).any()):  # the next step would be its square
                break
        z = nu.sqrt() * torch.sinh(u) * torch.sign(share - 0.5)
        return (self.location + self.spread * z).to(self.location.dtype)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        shape, dtype, device = (2, count, *self.location.shape), self.location.dtype, self.location.device
        radius, angle = torch.rand(shape, generator=generator, dtype=dtype, device=device)
        nu = self.freedom
        far = torch.expm1(-2 / nu * torch.log1p(-radius))  # 1 - radius is never 0
        z = torch.sqrt(nu * far) * torch.cos(2 * math.pi * angle)
        return self.location + self.spread * z


def _nearly(tail: Tensor, nu: Tensor) -> Tensor:
    """About where a tail begins: the first terms of an expansion round the normal distribution (Fisher and Cornish
    1960)."""
    normal: Tensor = -torch.special.ndtri(tail)
    square = normal.square()
    return normal * (1 + (square + 1) / (4 * nu) + ((5 * square + 16) * square + 3) / (96 * nu.square()))


def _log_front(nu: Tensor) -> Tensor:
    """log Gamma((nu+1)/2) - log Gamma(nu/2) - (1/2) log pi, in double precision: both are large and nearly alike."""
    half = nu.double() / 2
    return torch.lgamma(half + 0.5) - torch.lgamma(half) - 0.5 * math.log(math.pi)


_LEAST = 1e-8  # of mean and dispersion: a mean of 0 has no logarithm, and less dispersion cannot be told from Poisson's
_EXACT = 1e-11  # of a share, at least: that of the distribution function
_MOST = 100  # steps of a search; only counts beyond the whole numbers of double precision need so many
_HALVE = 3  # every so many steps a bracket is halved, however slow Newton's method is


class NegativeBinomial(LocatedDistribution):
    """Counts with mean mu (`location`) and dispersion alpha (`spread`), of variance mu + alpha mu^2.

        r = 1 / alpha,    p = 1 / (1 + alpha mu)
        log p(y) = log Gamma(y + r) - log Gamma(y + 1) - log Gamma(r) + r log p + y log(1 - p)

    (Salinas et al. 2020, DeepAR: probabilistic forecasting with autoregressive recurrent networks.) Between two counts
    the formula goes on smoothly; below 0 there is no probability. `moved` follows the paper: counts are not shifted
    (`offset` must be 0), and a scale acts on the parameters, mu to scale mu, alpha to alpha / sqrt(scale). `inverse`
    is the smallest count at which the distribution function reaches a share. `cdf` and `inverse` have no gradients.

    >>> counts = NegativeBinomial(torch.tensor([2.0]), torch.tensor([0.5]))  # r = 2, p = 1/2
    >>> counts.log_prob(torch.zeros(1)).exp().item()
    0.25
    """

    @property
    def dispersion(self) -> Tensor:
        """alpha of each element."""
        return self.spread

    def log_prob(self, y: Tensor) -> Tensor:
        return self._log_mass(y.clamp_min(0.0).double()).to(self.location.dtype).masked_fill(y < 0, -torch.inf)

    @torch.no_grad()
    def cdf(self, y: Tensor) -> Tensor:
        return self._below(y.double().floor()).to(self.location.dtype)

    @torch.no_grad()
    def inverse(self, share: Tensor) -> Tensor:
        mean, dispersion, share = in_one_shape(self.location, self.spread, share.to(self.location.dtype))
        each_N = type(self)(mean.flatten(), dispersion.flatten())
        count = each_N._search(share.flatten().double()).view_as(mean)
        return count.masked_fill(share >= 1, torch.inf).to(self.location.dtype)

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        if offset.device.type == "cpu" and not bool((offset == 0).all()):  # elsewhere a look would hold up the device
            raise OptionError("counts cannot be shifted by an offset; expected 0; try another head, such as gaussian")
        return type(self)(scale * self.location, self.spread / scale.sqrt())

    def _doubles(self) -> tuple[Tensor, Tensor]:
        """Both parameters in double precision: log Gamma of a large r is too coarse otherwise."""
        return self.location.double().clamp_min(_LEAST), self.spread.double().clamp_min(_LEAST)

    def _log_mass(self, count: Tensor) -> Tensor:
        """log p of counts that are not negative."""
        mu, alpha = self._doubles()
        r, log_odds = 1 / alpha, (alpha * mu).log()
        choices = torch.lgamma(count + r) - torch.lgamma(count + 1) - torch.lgamma(r)
        return choices - r * F.softplus(log_odds) - count * F.softplus(-log_odds)

    def _below(self, count: Tensor) -> Tensor:
        """The share of counts up to this one, whole or below 0."""
        mu, alpha = self._doubles()
        odds, exact = alpha * mu, precision(self.location.dtype)
        share = incomplete_beta(1 / alpha, count.clamp_min(0.0) + 1, 1 / (1 + odds), odds / (1 + odds), exact)
        return share.masked_fill(count < 0, 0.0)

    def _search(self, share: Tensor) -> Tensor:
        """The quantiles of elements in a row; those that are done leave the loop."""
        slack = max(_EXACT, torch.finfo(self.location.dtype).eps)  # a share was rounded to the type of the parameters
        those, left_M, value_N = self, torch.arange(len(share), device=share.device), share.clone()
        count, low, high = self._begin(share)
        for turn in range(1, _MOST + 1):
            below = those._below(count)
            enough = below >= share - slack
            low, high = torch.where(enough, low, count), torch.where(enough, count, high)
            value_N[left_M] = high
            moving = high - low > 1
            if not bool(moving.any()):
                break
            middle = (low + high) / 2
            guess = middle if turn % _HALVE == 0 else count + those._newton(count, below, share)
            guess = torch.where(guess.isnan(), middle, guess).floor()
            count = torch.maximum(torch.minimum(guess, high - 1), low + 1)
            share, count, low, high, left_M = (one[moving] for one in (share, count, low, high, left_M))
            those = type(self)(those.location[moving], those.spread[moving])
        return value_N

    def _begin(self, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """About where a quantile lies (Wilson and Hilferty 1931, of the gamma distribution with the same moments), a
        count below it and one not below it, whatever the distribution (Cantelli's inequality)."""
        mu, alpha = self._doubles()
        deviation = (mu + alpha * mu.square()).sqrt()
        odds = (share / (1 - share)).clamp(1e-12, 1e12)
        low = (mu - deviation / odds.sqrt()).floor().clamp_min(0.0) - 1
        high = (mu + deviation * odds.sqrt()).ceil()
        normal: Tensor = torch.special.ndtri(odds / (1 + odds))
        relative = deviation / mu / 3
        guess = (mu * (1 - relative.square() + normal * relative).clamp_min(0.0).pow(3)).floor()
        return torch.maximum(torch.minimum(guess, high), low + 1), low, high

    def _newton(self, count: Tensor, below: Tensor, share: Tensor) -> Tensor:
        """A step towards the count at which the logarithm of the smaller tail is that of the share."""
        upper = share > 0.5
        tail, goal = torch.where(upper, 1 - below, below), torch.where(upper, 1 - share, share)
        step = (tail.log() - goal.log()) * tail * torch.exp(-self._log_mass(count))
        return torch.where(upper, step, -step)
