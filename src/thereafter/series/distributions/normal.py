"""The normal and the Laplace distribution: a location and a spread.

A point forecast that makes squared errors small is the mean of a normal distribution, one that makes absolute errors
small the median of a Laplace distribution; with a spread from its errors it has bands and draws like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from thereafter.series.distributions.base import Elementwise, in_float32

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Normal(Elementwise):
    """The normal distribution.

        log p(y) = -(y - mu)^2 / (2 sigma^2) - log sigma - (1/2) log 2 pi

    >>> Normal(torch.zeros(1), torch.ones(1)).log_prob(torch.zeros(1)).item()
    -0.9189385175704956
    """

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        self.location, self.deviation = in_float32(mean, deviation)

    def log_prob(self, y: Tensor) -> Tensor:
        return -0.5 * ((y - self.location) / self.deviation).square() - self.deviation.log() - _HALF_LOG_TAU

    def mean(self) -> Tensor:
        return self.location

    def cdf(self, y: Tensor) -> Tensor:
        below: Tensor = torch.special.ndtr((y - self.location) / self.deviation)
        return below

    def inverse(self, share: Tensor) -> Tensor:
        standard: Tensor = torch.special.ndtri(share.to(self.location))
        return self.location + self.deviation * standard

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        shape, dtype, device = (count, *self.location.shape), self.location.dtype, self.location.device
        noise = torch.randn(shape, generator=generator, dtype=dtype, device=device)
        return self.location + self.deviation * noise

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        return type(self)(offset + scale * self.location, scale * self.deviation)

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(change(self.location), change(self.deviation))


class Laplace(Elementwise):
    """The Laplace distribution, whose spread b is its mean absolute deviation.

        log p(y) = -|y - m| / b - log 2 b

    >>> Laplace(torch.zeros(1), torch.ones(1)).inverse(torch.tensor([0.5])).item()
    0.0
    """

    def __init__(self, median: Tensor, spread: Tensor) -> None:
        self.location, self.spread = in_float32(median, spread)

    def log_prob(self, y: Tensor) -> Tensor:
        return -(y - self.location).abs() / self.spread - (2 * self.spread).log()

    def mean(self) -> Tensor:
        return self.location

    def cdf(self, y: Tensor) -> Tensor:
        z = (y - self.location) / self.spread
        tail = 0.5 * torch.exp(-z.abs())
        return torch.where(z > 0, 1 - tail, tail)

    def inverse(self, share: Tensor) -> Tensor:
        share = share.to(self.location)
        tail = torch.minimum(share, 1 - share)
        return self.location + self.spread * torch.sign(0.5 - share) * torch.log(2 * tail)

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        return type(self)(offset + scale * self.location, scale * self.spread)

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(change(self.location), change(self.spread))
