"""Heads over numbers by name: from features to a distribution over D numbers at each place.

    squared, absolute, huber       a point; its spread is set after training, from errors on other data
    gaussian, student-t            a location and a spread
    negative-binomial              counts
    quantile                       values at fixed levels

All parameters are linear in the features. Those that must be positive go through softplus, which grows linearly, so
that no feature makes them overflow; with weights and biases of 0 every spread is 1 and every location 0.

After its training a forecaster learns from the validation set how wide bands are in truth, and how steps go together
(`Calibration`).

Shapes: N places, F features, D numbers at a place (`size`), Q levels; B windows, W those of the validation set, H steps
ahead, C bands.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.base.kinds import Registry
from thereafter.errors import OptionError, ShapeError
from thereafter.layers.heads import check_places
from thereafter.series import distributions
from thereafter.series.batches import WindowBatch
from thereafter.series.distributions import Distribution

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
        (values,) = distributions.in_float32(values)
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
        share, _ = distributions.in_one_shape(share.to(self.values), self.values[..., 0])
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


_HEADS = {"squared": "Squared", "absolute": "Absolute", "huber": "Huber", "gaussian": "Normal", "student-t": "StudentT"}
_HEADS |= {"negative-binomial": "NegativeBinomial", "quantile": "Quantiles"}
NUMBER_HEADS = Registry("head", {name: f"thereafter.series.number_heads:{kind}Head" for name, kind in _HEADS.items()})
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
        return (distributions.Laplace if self.is_median else distributions.Normal)(point_ND, self.spread)

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
        return distributions.Normal(mean_ND, _positive(raw_ND) + LEAST_SPREAD)


class StudentTHead(NumberHead):
    """Location, spread and degrees of freedom of Student's t; above 2 of them, so that it has a variance."""

    outputs: ClassVar[int] = 3

    def expect(self, f_NF: Tensor) -> Distribution:
        location_ND, raw_ND, freedom_ND = self._parameters_of(f_NF)
        freedom_ND = 2 + LEAST_SPREAD + F.softplus(freedom_ND + FREEDOM)
        return distributions.StudentT(location_ND, _positive(raw_ND) + LEAST_SPREAD, freedom_ND.clamp_max(MOST_FREEDOM))


class NegativeBinomialHead(NumberHead):
    """Mean and dispersion of a negative binomial, in units of the scale (Salinas et al. 2020): both softplus."""

    outputs: ClassVar[int] = 2

    def expect(self, f_NF: Tensor) -> Distribution:
        mean_ND, dispersion_ND = self._parameters_of(f_NF)
        return distributions.NegativeBinomial(
            _positive(mean_ND) + LEAST_SPREAD, _positive(dispersion_ND) + LEAST_SPREAD
        )


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


BANDS = (0.5, 0.8, 0.9, 0.95)
"""The coverage of the bands that are kept."""
ENDS = (*(round((1 - band) / 2, 6) for band in BANDS), 0.5, *(round((1 + band) / 2, 6) for band in BANDS))
"""The shares below which their lower ends, the median and their upper ends lie."""
_ENOUGH = 100  # windows by which each step is known for itself
_FEW = 20  # values that teach a factor
_MOST_WIDER = 4.0
_NARROWER = 0.25  # a side of a band, as a share of the other, at least
_EDGE = 1e-4  # of a rank: no value is impossible
_SHRINK = 0.1  # towards independence, so that the correlation of few windows has a root
_MOST_STEPS = 512  # whose correlation is kept


class Calibration(nn.Module):
    """The ends of bands [H, D, C] in units of the window's spread, or one factor a band [C] where `by_step` is false;
    and the root of the correlation of steps [H, H].

    A band that is trained by likelihood alone is often too wide or too narrow on rows that come later. Split conformal
    prediction mends it (Lei et al. 2018, distribution-free predictive inference; scaled residuals): for each step,

        s    = (y - median) / spread                      of each window of the validation set
        band = median + spread [the (1 - c) / 2, the (1 + c) / 2 quantile of all s],    c the coverage

    with the spread of each window itself, so that a window that moves much gets a wide band and a quiet one a narrow
    band. Windows overlap and later rows differ, so the promise is not exact; a score prints the coverage with and
    without it. A short series has too few windows to know every step: then one factor for each coverage widens the
    band of the forecast itself, learned from all steps together.

    Steps that are forecast at once are drawn together: their ranks are correlated as they were on the validation set (a
    Gaussian copula), so that a path is a path and sums over it have an honest spread.
    """

    low_HDC: Tensor
    high_HDC: Tensor
    factor_C: Tensor
    by_step: Tensor
    root_HH: Tensor

    def __init__(self, horizon: int, targets: int) -> None:
        super().__init__()
        self.register_buffer("low_HDC", torch.zeros(horizon, targets, len(BANDS)))
        self.register_buffer("high_HDC", torch.zeros(horizon, targets, len(BANDS)))
        self.register_buffer("factor_C", torch.ones(len(BANDS)))
        self.register_buffer("by_step", torch.zeros(()))  # 0 or 1
        self.register_buffer("root_HH", torch.eye(min(horizon, _MOST_STEPS)))

    def bands(self, quantiles_BHDQ: Tensor, spread_BD: Tensor) -> tuple[Tensor, Tensor]:
        """The ends of all bands, [B, H, D, C] each, from the quantiles at `ENDS`; steps beyond the horizon are taken as
        its last."""
        low_BHDC, median_BHD1, high_BHDC = _parts(quantiles_BHDQ)
        if not self.by_step:
            low_BHDC = median_BHD1 - self.factor_C * (median_BHD1 - low_BHDC)
            return low_BHDC, median_BHD1 + self.factor_C * (high_BHDC - median_BHD1)
        steps_H = torch.arange(median_BHD1.shape[1], device=median_BHD1.device).clamp_max(len(self.low_HDC) - 1)
        spread_B1D1 = spread_BD[:, None, :, None]
        return (median_BHD1 + self.low_HDC[steps_H] * spread_B1D1, median_BHD1 + self.high_HDC[steps_H] * spread_B1D1)

    def correlate(self, expected: Distribution, generator: torch.Generator | None = None) -> Tensor:
        """A draw of each window, [B, H, D], whose steps go together."""
        shape = expected.mean().shape
        noise_BHD = torch.randn(shape, generator=generator, device=self.root_HH.device)
        steps = min(shape[1], len(self.root_HH))
        root_HH = self.root_HH[:steps, :steps]
        together_BHD = torch.einsum("hk,bkd->bhd", root_HH, noise_BHD[:, :steps])
        noise_BHD = torch.cat((together_BHD, noise_BHD[:, steps:]), 1)
        return expected.inverse(torch.special.ndtr(noise_BHD).clamp(_EDGE, 1 - _EDGE))

    @torch.no_grad()
    def fit(
        self,
        batches: Iterator[WindowBatch],
        quantiles: Callable[[WindowBatch], Tensor],
        ranks: Callable[[WindowBatch], Tensor] | None,
    ) -> None:
        """Learn both from the windows of the validation set.

        `quantiles(batch)`: those of the forecast at `ENDS`, [B, H, D, Q]; `ranks(batch)`: the share of the forecast
        below each value, [B, H, D], where steps are drawn together.
        """
        scores: list[Tensor] = []
        outside: list[Tensor] = []
        normal: list[Tensor] = []
        for batch in batches:
            future_BHD, seen_BHD = batch.answers()
            low_BHDC, median_BHD1, high_BHDC = _parts(quantiles(batch))
            off_BHD1 = future_BHD[..., None] - median_BHD1
            scores.append((off_BHD1[..., 0] / batch.spread()[:, None]).masked_fill(~seen_BHD, torch.nan).cpu())
            width_BHDC = torch.where(off_BHD1 < 0, median_BHD1 - low_BHDC, high_BHDC - median_BHD1)
            outside.append((off_BHD1.abs() / width_BHDC.clamp_min(_EDGE))[seen_BHD].cpu())
            if ranks is not None:
                rank_BHD = torch.special.ndtri(ranks(batch).clamp(_EDGE, 1 - _EDGE))
                normal.append(rank_BHD.masked_fill(~seen_BHD, 0.0).cpu())
        if not scores:
            return
        score_WHD, outside_RC = torch.cat(scores), torch.cat(outside)
        self.by_step.fill_(float((~score_WHD.isnan()).sum(0).min() >= _ENOUGH))
        low_HDC, high_HDC = _ends(score_WHD)
        # the median lies within, and neither side of it is much narrower than the other
        self.low_HDC.copy_(torch.minimum(low_HDC, -_NARROWER * high_HDC).clamp_max(0.0))
        self.high_HDC.copy_(torch.maximum(high_HDC, -_NARROWER * low_HDC).clamp_min(0.0))
        self.factor_C.copy_(_factors(outside_RC))
        if normal and self.by_step:
            self.root_HH.copy_(_root(torch.cat(normal)[:, : len(self.root_HH)]))


def _parts(quantiles_BHDQ: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The lower ends [B, H, D, C], the median [B, H, D, 1] and the upper ends of quantiles at `ENDS`."""
    bands = len(BANDS)
    return quantiles_BHDQ[..., :bands], quantiles_BHDQ[..., bands : bands + 1], quantiles_BHDQ[..., bands + 1 :]


def _factors(outside_RC: Tensor) -> Tensor:
    """How much wider each band must be to cover its share of all values; never narrower."""
    if len(outside_RC) < _FEW:
        return torch.ones(len(BANDS))
    sorted_RC = outside_RC.sort(0).values
    at = [min(len(sorted_RC), math.ceil((len(sorted_RC) + 1) * band)) - 1 for band in BANDS]
    factors = torch.stack([sorted_RC[place, column] for column, place in enumerate(at)])
    return factors.clamp(1.0, _MOST_WIDER)  # a few quiet windows are no reason to promise more


def _ends(scores_WHD: Tensor) -> tuple[Tensor, Tensor]:
    """Of n scores of a step, missing ones left out, the k-th smallest and the k-th largest, k = (n + 1)(1 - c) / 2."""
    sorted_WHD = scores_WHD.nan_to_num(torch.inf).sort(0).values
    count_HD = (~scores_WHD.isnan()).sum(0)
    lows: list[Tensor] = []
    highs: list[Tensor] = []
    for band in BANDS:
        rank_HD = ((count_HD + 1) * (1 - band) / 2).floor().long().clamp_min(1)
        first_HD, last_HD = rank_HD - 1, (count_HD - rank_HD).clamp_min(0)
        for at_HD, ends in ((first_HD, lows), (last_HD, highs)):
            ends.append(sorted_WHD.gather(0, at_HD[None])[0].nan_to_num(0.0, 0.0, 0.0))
    return torch.stack(lows, -1), torch.stack(highs, -1)


def _root(normal_WHD: Tensor) -> Tensor:
    """The lower root of the correlation of steps, over all targets, a little nearer to independence."""
    rows_RH = normal_WHD.permute(0, 2, 1).flatten(0, 1).double()
    rows_RH = rows_RH - rows_RH.mean(0)
    covariance_HH = rows_RH.T @ rows_RH / max(1, len(rows_RH))
    deviation_H = covariance_HH.diagonal().sqrt().clamp_min(1e-6)
    correlation_HH = covariance_HH / deviation_H / deviation_H[:, None]
    identity_HH = torch.eye(len(deviation_H), dtype=torch.double)
    mixed_HH = (1 - _SHRINK) * correlation_HH + _SHRINK * identity_HH
    mixed_HH.fill_diagonal_(1.0)
    root_HH: Tensor = torch.linalg.cholesky(mixed_HH)
    return root_HH.float()
