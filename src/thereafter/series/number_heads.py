"""Heads over numbers by name: from features to a distribution over D numbers at each place.

    squared, absolute, huber       a point; its spread is set after training, from errors on other data
    gaussian, student-t            a location and a spread
    negative-binomial              counts
    quantile                       values at fixed levels

All parameters are linear in the features. Those that must be positive go through softplus, which grows linearly, so
that no feature makes them overflow; with weights and biases of 0 every spread is 1 and every location 0.
Shapes: N places, F features, D numbers at a place (`size`), Q levels.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.base.kinds import Registry
from thereafter.errors import OptionError
from thereafter.layers.heads import check_places
from thereafter.series.beta_distributions import NegativeBinomial, StudentT
from thereafter.series.distributions import Distribution, Laplace, Normal, Quantiles

NUMBER_HEADS = Registry(
    "head",
    {
        "squared": "thereafter.series.number_heads:SquaredHead",
        "absolute": "thereafter.series.number_heads:AbsoluteHead",
        "huber": "thereafter.series.number_heads:HuberHead",
        "gaussian": "thereafter.series.number_heads:NormalHead",
        "student-t": "thereafter.series.number_heads:StudentTHead",
        "negative-binomial": "thereafter.series.number_heads:NegativeBinomialHead",
        "quantile": "thereafter.series.number_heads:QuantilesHead",
    },
)
LEVELS = (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975)
"""The levels of a quantile head: the deciles, and the ends of the bands of 90 % and 95 %."""

UNIT = math.log(math.e - 1)  # softplus of it is 1
LEAST_SPREAD = 1e-4  # of a spread, in units of the scale: a place that was never wrong does not make log p infinite
FREEDOM = 4.0  # degrees of freedom above 2 at first
MOST_FREEDOM = 1000.0  # there Student's t is the normal distribution to three digits


class NumberHead(nn.Module):
    """A distribution over `size` numbers at each place, from features [N, F]."""

    has_density: ClassVar[bool] = True
    """Whether its spread is learned; that of a point is set by `set_spread`."""
    outputs: ClassVar[int] = 1
    """Parameters for each number."""

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        if features < 1 or size < 1:
            raise OptionError(f"features is {features} and size is {size}; expected 1 or more")
        self.features, self.size = features, size
        bound = 1 / math.sqrt(features)
        self.weight = nn.Parameter(torch.empty(self.outputs * size, features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(self.outputs * size))

    @abstractmethod
    def expect(self, f_NF: Tensor) -> Distribution:
        """The distribution over [N, D]."""

    def costs(self, f_NF: Tensor, y_ND: Tensor, offset_ND: Tensor, scale_ND: Tensor) -> Tensor:
        """What training makes small, [N, D]: -log p of offset + scale times what is expected."""
        return -self.expect(f_NF).moved(offset_ND, scale_ND).log_prob(y_ND)

    def set_spread(self, residuals_ND: Tensor) -> None:
        """Take the spread of a point from errors on data that were not learned from, in units of the scale; NaN is
        missing. Heads with a density have learned theirs, and change nothing."""

    def _parameters_of(self, f_NF: Tensor) -> tuple[Tensor, ...]:
        """As many tensors [N, D] as there are parameters, in float32 at least."""
        check_places(f_NF, self.features)
        all_NP = F.linear(f_NF, self.weight, self.bias)
        return all_NP.to(torch.promote_types(all_NP.dtype, torch.float32)).chunk(self.outputs, 1)

    def extra_repr(self) -> str:
        return f"{self.features}, size={self.size}"


class PointHead(NumberHead):
    """One number without a spread: `spread` [D] is 1 until it is set."""

    has_density: ClassVar[bool] = False
    is_median: ClassVar[bool] = False
    """Whether it is the median of a Laplace distribution; else the mean of a normal one."""
    spread: Tensor

    def __init__(self, features: int, size: int) -> None:
        super().__init__(features, size)
        self.register_buffer("spread", torch.ones(size))

    @torch.no_grad()
    def set_spread(self, residuals_ND: Tensor) -> None:
        seen_ND = ~residuals_ND.isnan()
        sizes_ND = residuals_ND.double().abs() if self.is_median else residuals_ND.double().square()
        count_D = seen_ND.sum(0)
        mean_D = sizes_ND.masked_fill(~seen_ND, 0.0).sum(0) / count_D.clamp_min(1)
        spread_D = (mean_D if self.is_median else mean_D.sqrt()).clamp_min(LEAST_SPREAD)
        self.spread.copy_(torch.where(count_D > 0, spread_D, self.spread))

    def expect(self, f_NF: Tensor) -> Distribution:
        (point_ND,) = self._parameters_of(f_NF)
        return (Laplace if self.is_median else Normal)(point_ND, self.spread)

    def costs(self, f_NF: Tensor, y_ND: Tensor, offset_ND: Tensor, scale_ND: Tensor) -> Tensor:
        (point_ND,) = self._parameters_of(f_NF)
        return self._cost(offset_ND + scale_ND * point_ND, y_ND)

    @abstractmethod
    def _cost(self, point_ND: Tensor, y_ND: Tensor) -> Tensor:
        """The loss of each number, [N, D]."""


class SquaredHead(PointHead):
    """The mean: (y - m)^2, with the bands of a normal distribution.

    >>> zero, one = torch.zeros(1, 2), torch.ones(1, 2)
    >>> SquaredHead(4, 2).costs(torch.zeros(1, 4), 3 * one, zero, one).tolist()
    [[9.0, 9.0]]
    """

    def _cost(self, point_ND: Tensor, y_ND: Tensor) -> Tensor:
        return (y_ND - point_ND).square()


class AbsoluteHead(PointHead):
    """The median: |y - m|, with the bands of a Laplace distribution."""

    is_median: ClassVar[bool] = True

    def _cost(self, point_ND: Tensor, y_ND: Tensor) -> Tensor:
        return (y_ND - point_ND).abs()


class HuberHead(PointHead):
    """Squared up to an error of 1 and linear beyond it: e^2 / 2 or |e| - 1/2 (Huber 1964), so that outliers pull less;
    with the bands of a normal distribution."""

    def _cost(self, point_ND: Tensor, y_ND: Tensor) -> Tensor:
        return F.huber_loss(point_ND, y_ND.to(point_ND.dtype), reduction="none")


class NormalHead(NumberHead):
    """Mean and deviation of a normal distribution (Nix and Weigend 1994): mu = W f + b, sigma = softplus(V f + c)."""

    outputs: ClassVar[int] = 2

    def expect(self, f_NF: Tensor) -> Distribution:
        mean_ND, raw_ND = self._parameters_of(f_NF)
        return Normal(mean_ND, _positive(raw_ND) + LEAST_SPREAD)


class StudentTHead(NumberHead):
    """Location, spread and degrees of freedom of Student's t; above 2 of them, so that it has a variance."""

    outputs: ClassVar[int] = 3

    def expect(self, f_NF: Tensor) -> Distribution:
        location_ND, raw_ND, freedom_ND = self._parameters_of(f_NF)
        freedom_ND = 2 + LEAST_SPREAD + F.softplus(freedom_ND + FREEDOM)
        return StudentT(location_ND, _positive(raw_ND) + LEAST_SPREAD, freedom_ND.clamp_max(MOST_FREEDOM))


class NegativeBinomialHead(NumberHead):
    """Mean and dispersion of a negative binomial, in units of the scale (Salinas et al. 2020): both softplus."""

    outputs: ClassVar[int] = 2

    def expect(self, f_NF: Tensor) -> Distribution:
        mean_ND, dispersion_ND = self._parameters_of(f_NF)
        return NegativeBinomial(_positive(mean_ND) + LEAST_SPREAD, _positive(dispersion_ND) + LEAST_SPREAD)


class QuantilesHead(NumberHead):
    """Values at the levels `LEVELS`, each learned by the pinball loss (Koenker and Bassett 1978); their mean is the
    cost. At first they are those of a standard normal distribution."""

    outputs: ClassVar[int] = len(LEVELS)
    levels_Q: Tensor
    normal_Q: Tensor

    def __init__(self, features: int, size: int) -> None:
        super().__init__(features, size)
        levels_Q = torch.tensor(LEVELS)
        self.register_buffer("levels_Q", levels_Q, persistent=False)
        self.register_buffer("normal_Q", torch.special.ndtri(levels_Q), persistent=False)

    def expect(self, f_NF: Tensor) -> Distribution:
        return Quantiles(self.levels_Q, self._values(f_NF))

    def costs(self, f_NF: Tensor, y_ND: Tensor, offset_ND: Tensor, scale_ND: Tensor) -> Tensor:
        values_NDQ = offset_ND.unsqueeze(-1) + scale_ND.unsqueeze(-1) * self._values(f_NF)
        error_NDQ = y_ND.unsqueeze(-1) - values_NDQ
        return torch.maximum(self.levels_Q * error_NDQ, (self.levels_Q - 1) * error_NDQ).mean(-1)

    def _values(self, f_NF: Tensor) -> Tensor:
        return torch.stack(self._parameters_of(f_NF), -1) + self.normal_Q


def _positive(raw: Tensor) -> Tensor:
    """softplus, moved so that it is 1 at 0."""
    return F.softplus(raw + UNIT)
