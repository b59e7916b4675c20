"""Student's t: as the normal distribution, with tails that forgive an outlier."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from thereafter.series.distributions.base import Elementwise, in_float32
from thereafter.series.distributions.incomplete_beta import incomplete_beta, precision

_STEPS = 30  # of Newton's method; 2 to 5 are usual
_LEAST = 1e-300  # of a tail, so that it has a logarithm


class StudentT(Elementwise):
    """Student's t with location mu, spread s and nu > 2 degrees of freedom, so that its variance exists.

        z = (y - mu) / s
        log p(y) = log Gamma((nu+1)/2) - log Gamma(nu/2) - (1/2) log(pi nu) - log s - (nu+1)/2 log(1 + z^2 / nu)

    Its variance is s^2 nu / (nu - 2). With z = sqrt(nu) sinh u the density of u is a power of cosh u. The logarithm of
    its tail is therefore concave, and Newton's method finds a quantile from any start. `cdf` and `inverse` have no
    gradients. Draws are those of Bailey (1994, Polar generation of random variates with the t-distribution).

    >>> StudentT(torch.zeros(1), torch.ones(1), torch.full((1,), 3.0)).cdf(torch.zeros(1)).item()
    0.5
    """

    def __init__(self, location: Tensor, spread: Tensor, freedom: Tensor) -> None:
        self.location, self.spread, self.freedom = in_float32(location, spread, freedom)

    def log_prob(self, y: Tensor) -> Tensor:
        nu = self.freedom
        z = (y - self.location) / self.spread
        tail = (nu + 1) / 2 * torch.log1p((z / nu.sqrt()).square())
        return _log_front(nu).to(z.dtype) - 0.5 * nu.log() - self.spread.log() - tail

    def mean(self) -> Tensor:
        return self.location

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
        tail = torch.minimum(share, 1 - share).clamp_min(_LEAST)
        exact = precision(self.location.dtype)
        log_tail, log_front, half = tail.log(), _log_front(nu), tail.new_full((), 0.5)
        u = torch.asinh(_nearly(tail, nu) / nu.sqrt())
        for _ in range(_STEPS):
            cosh = torch.cosh(u)
            beyond = 0.5 * incomplete_beta(nu / 2, half, cosh.pow(-2), torch.tanh(u).square(), exact)
            beyond = beyond.clamp_min(_LEAST)
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

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        return type(self)(offset + scale * self.location, scale * self.spread, self.freedom)

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(change(self.location), change(self.spread), change(self.freedom))


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
