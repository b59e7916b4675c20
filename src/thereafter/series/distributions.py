"""Distributions over numbers, element by element: what a head over numbers expects.

A point forecast that makes squared errors small is the mean of a normal distribution, one that makes absolute errors
small the median of a Laplace distribution; with a spread from its errors it has bands and draws like any other. Values
at fixed levels are a distribution that is piecewise linear, with exponential tails. `beta_distributions.py` has
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
from torch import Tensor

from thereafter.errors import ShapeError

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


_NARROW = 1e-4  # of the mean gap between two levels: values that coincide do not make a density infinite
_LEAST_GAP = 1e-8


class Quantiles(Distribution):
    """Values q_1 <= ... <= q_Q below which the shares l_1 < ... < l_Q lie. Its quantile function is linear between two
    levels and exponential beyond the outer ones, with a density that does not jump there:

        q(s) = q_k + (s - l_k) (q_{k+1} - q_k) / (l_{k+1} - l_k)        l_k <= s <= l_{k+1}
        q(s) = q_1 + t log(s / l_1),    t = l_1 (q_2 - q_1) / (l_2 - l_1)        s < l_1, and above l_Q alike
        p(y) = 1 / q'(s) where q(s) = y

    Values [..., Q] that cross are sorted (Chernozhukov, Fernandez-Val and Galichon 2010). Each level is learned by the
    pinball loss, max(l (y - q), (l - 1) (y - q)) (Koenker and Bassett 1978). The mean is the integral of q.

    >>> levels, values = torch.tensor([0.25, 0.5, 0.75]), torch.tensor([[-1.0, 0.0, 1.0]])
    >>> Quantiles(levels, values).inverse(torch.tensor([0.625])).item()
    0.5
    """

    def __init__(self, levels_Q: Tensor, values: Tensor) -> None:
        if levels_Q.dim() != 1 or len(levels_Q) < 2 or values.shape[-1:] != levels_Q.shape:
            raise ShapeError(
                f"levels are {tuple(levels_Q.shape)} and values {tuple(values.shape)}; expected [Q] and [..., Q], with "
                "two levels or more"
            )
        (values,) = in_float32(values)
        self.levels_Q, self.values = levels_Q.to(values), values.sort(-1).values
        self._steps_G = self.levels_Q.diff()

    def log_prob(self, y: Tensor) -> Tensor:
        gaps, first, last = self._widths()
        place = self._place(y)
        inside = (self._steps_G[place] / _pick(gaps, place)).log()
        left, right = self.values[..., 0] - y, y - self.values[..., -1]
        below = (self.levels_Q[0] / first).log() - left / first
        above = ((1 - self.levels_Q[-1]) / last).log() - right / last
        return torch.where(left > 0, below, torch.where(right > 0, above, inside))

    def mean(self) -> Tensor:
        _, first, last = self._widths()
        inside = ((self.values[..., 1:] + self.values[..., :-1]) / 2 * self._steps_G).sum(-1)
        below = self.levels_Q[0] * (self.values[..., 0] - first)
        return inside + below + (1 - self.levels_Q[-1]) * (self.values[..., -1] + last)

    def cdf(self, y: Tensor) -> Tensor:
        gaps, first, last = self._widths()
        place = self._place(y)
        part = (y - _pick(self.values, place)) / _pick(gaps, place)
        inside = self.levels_Q[place] + self._steps_G[place] * part.clamp(0.0, 1.0)
        left, right = self.values[..., 0] - y, y - self.values[..., -1]
        below = self.levels_Q[0] * torch.exp(-left.clamp_min(0.0) / first)
        above = 1 - (1 - self.levels_Q[-1]) * torch.exp(-right.clamp_min(0.0) / last)
        return torch.where(left > 0, below, torch.where(right > 0, above, inside))

    def inverse(self, share: Tensor) -> Tensor:
        share, _ = in_one_shape(share.to(self.values), self.values[..., 0])
        values = self.values.expand(*share.shape, -1)
        _, first, last = self._widths()
        place = (torch.searchsorted(self.levels_Q, share.contiguous(), right=True) - 1).clamp(0, len(self._steps_G) - 1)
        low, high = _pick(values, place), _pick(values, place + 1)
        inside = low + (share - self.levels_Q[place]) / self._steps_G[place] * (high - low)
        lowest, highest = self.levels_Q[0], self.levels_Q[-1]
        below = values[..., 0] + first * torch.log(torch.minimum(share, lowest) / lowest)
        above = values[..., -1] - last * torch.log(torch.minimum(1 - share, 1 - highest) / (1 - highest))
        return torch.where(share < lowest, below, torch.where(share > highest, above, inside))

    def quantiles(self, levels_Q: Tensor) -> Tensor:
        wider = type(self)(self.levels_Q, self.values.unsqueeze(-2))
        return wider.inverse(levels_Q.to(self.values))

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        return type(self)(self.levels_Q, offset.unsqueeze(-1) + scale.unsqueeze(-1) * self.values)

    def _place(self, y: Tensor) -> Tensor:
        """The gap between two levels in which y lies, the nearest for one outside."""
        inner = self.values[..., 1:-1]
        return (y.unsqueeze(-1) >= inner).sum(-1)

    def _widths(self) -> tuple[Tensor, Tensor, Tensor]:
        """The gaps between values [..., Q - 1], none of them 0, and the scales of both tails [...]."""
        gaps = self.values.diff(dim=-1)
        whole = (self.values[..., -1:] - self.values[..., :1]).detach()
        rounding = torch.finfo(gaps.dtype).eps * self.values[..., :1].detach().abs()
        gaps = torch.maximum(gaps, _NARROW * whole / gaps.shape[-1] + rounding + _LEAST_GAP)
        first = self.levels_Q[0] * gaps[..., 0] / self._steps_G[0]
        return gaps, first, (1 - self.levels_Q[-1]) * gaps[..., -1] / self._steps_G[-1]

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(self.levels_Q, change(self.values))


def _pick(values: Tensor, place: Tensor) -> Tensor:
    """Of each element its value at a place, [...]."""
    return values.expand(*place.shape, -1).gather(-1, place.unsqueeze(-1)).squeeze(-1)
