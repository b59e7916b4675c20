"""The negative binomial: a distribution over counts, wider than Poisson's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.series.distributions.base import Elementwise, in_float32, in_one_shape
from thereafter.series.distributions.incomplete_beta import incomplete_beta, precision

_LEAST = 1e-8  # of mean and dispersion: a mean of 0 has no logarithm, and less dispersion cannot be told from Poisson's
_EXACT = 1e-11  # of a share, at least: that of the distribution function
_MOST = 100  # steps of a search; only counts beyond the whole numbers of double precision need so many
_HALVE = 3  # every so many steps a bracket is halved, however slow Newton's method is


class NegativeBinomial(Elementwise):
    """Counts with mean mu and dispersion alpha, of variance mu + alpha mu^2.

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

    def __init__(self, mean: Tensor, dispersion: Tensor) -> None:
        self.location, self.dispersion = in_float32(mean, dispersion)

    def log_prob(self, y: Tensor) -> Tensor:
        return self._log_mass(y.clamp_min(0.0).double()).to(self.location.dtype).masked_fill(y < 0, -torch.inf)

    def mean(self) -> Tensor:
        return self.location

    @torch.no_grad()
    def cdf(self, y: Tensor) -> Tensor:
        return self._below(y.double().floor()).to(self.location.dtype)

    @torch.no_grad()
    def inverse(self, share: Tensor) -> Tensor:
        mean, dispersion, share = in_one_shape(self.location, self.dispersion, share.to(self.location.dtype))
        each_N = type(self)(mean.flatten(), dispersion.flatten())
        count = each_N._search(share.flatten().double()).view_as(mean)
        return count.masked_fill(share >= 1, torch.inf).to(self.location.dtype)

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        if offset.device.type == "cpu" and bool((offset != 0).any()):  # elsewhere a look would hold up the device
            raise OptionError("counts cannot be shifted by an offset; expected 0; try another head, such as gaussian")
        return type(self)(scale * self.location, self.dispersion / scale.sqrt())

    def _doubles(self) -> tuple[Tensor, Tensor]:
        """Both parameters in double precision: log Gamma of a large r is too coarse otherwise."""
        return self.location.double().clamp_min(_LEAST), self.dispersion.double().clamp_min(_LEAST)

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
            those = type(self)(those.location[moving], those.dispersion[moving])
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

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(change(self.location), change(self.dispersion))
