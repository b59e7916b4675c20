"""What every forecaster gives: a loss, a distribution over the steps ahead, sampled paths, calibrated bands.

After its training it learns from the validation set: honest bands, and how steps go together. A band that is trained by
likelihood alone is often too wide or too narrow on rows that come later. Split conformal prediction mends it (Lei et
al. 2018, distribution-free predictive inference; scaled residuals): for each step,

    s    = (y - median) / spread                      of each window of the validation set
    band = median + spread [the (1 - c) / 2, the (1 + c) / 2 quantile of all s],    c the coverage

with the spread of each window itself, so that a window that moves much gets a wide band and a quiet one a narrow band.
Windows overlap and later rows differ, so the promise is not exact; a score prints the coverage with and without it. A
short series has too few windows to know every step: then one factor for each coverage widens the band of the forecast
itself, learned from all steps together.

Steps that are forecast at once are drawn together: their ranks are correlated as they were on the validation set (a
Gaussian copula), so that a path is a path and sums over it have an honest spread.

Shapes: B windows, W those of the validation set, L rows that are read, H steps ahead, D targets, Q levels, S samples,
C bands.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thereafter.models.task_net import TaskNet
from thereafter.series.batches import WindowBatch
from thereafter.series.distributions import Distribution

Batches = Callable[[], Iterator[WindowBatch]]
"""Gives all batches of a part, any number of times."""
SAMPLES = 100
"""Paths by which the bands of a forecast are estimated that has no closed form."""
_ROWS_AT_A_TIME = 4096


@dataclass(frozen=True)
class WindowFacts:
    """What a network is built for: targets D, covariates of the past C, known ahead K, rows read, steps ahead.

    `gaps`: whether values may be missing, so that the network is shown which are.
    """

    targets: int
    covariates: int
    known: int
    lookback: int
    horizon: int
    season: int
    gaps: bool


@dataclass(frozen=True)
class Expected:
    """A forecast in scaled units: its mean [B, H, D], and the values below which the shares `levels` lie
    [B, H, D, Q]; `spread_BD` is that of each window."""

    mean_BHD: Tensor
    quantiles_BHDQ: Tensor
    spread_BD: Tensor


class Forecaster(TaskNet[WindowBatch]):
    """From windows to a distribution over the next `facts.horizon` rows."""

    def __init__(self, facts: WindowFacts) -> None:
        super().__init__()
        self.facts = facts
        self.reach = facts.horizon
        """How many rows it gives at once; what lies beyond follows from its own predictions."""
        self.calibration = Calibration(facts.horizon, facts.targets)

    @abstractmethod
    def expect(self, batch: WindowBatch) -> Distribution:
        """The distribution over the next rows, [B, H, D], H at most `reach`."""

    @property
    def device(self) -> torch.device:
        return self.calibration.by_step.device

    def costs(self, batch: WindowBatch) -> Tensor:
        """What training makes small, for every value of the future, [B, H, D]: -log p where nothing else is learned."""
        return -self.expect(batch).log_prob(batch.answers()[0])

    def nats(self, batch: WindowBatch) -> Tensor:
        return (self.costs(batch) * batch.answers()[1]).sum()

    def solve(self, batches: Batches, series: Sequence[Tensor]) -> None:
        """Find the weights at once, where least squares does it; networks are trained instead.

        `series`: the rows that may be learned from, scaled, [T, D] of each series, NaN where missing.
        """
        raise TypeError(f"{type(self).__name__} is trained in steps")

    def steps_read(self) -> int:
        """Steps in which the window is read."""
        return self.facts.lookback

    @torch.no_grad()
    def forecast(self, batch: WindowBatch, levels_Q: Tensor, generator: torch.Generator | None = None) -> Expected:
        """The forecast of as many steps as the batch asks for. Beyond its reach a forecaster reads its own predictions:
        its mean follows from means, its quantiles from sampled paths."""
        spread_BD = batch.spread()
        if batch.horizon <= self.reach:
            expected = self.expect(batch)
            return Expected(expected.mean(), expected.quantiles(levels_Q), spread_BD)
        paths_SBHD = self.paths(batch, SAMPLES, generator)
        quantiles_QBHD = torch.quantile(paths_SBHD, levels_Q.to(paths_SBHD), dim=0)
        return Expected(self.mean_path(batch), quantiles_QBHD.permute(1, 2, 3, 0), spread_BD)

    @torch.no_grad()
    def mean_path(self, batch: WindowBatch) -> Tensor:
        """Means fed back as if they had come, [B, H, D]."""
        return self._continue(batch, lambda expected: expected.mean())

    @torch.no_grad()
    def paths(self, batch: WindowBatch, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Futures that may come, [S, B, H, D]: each drawn piece by piece, and read before the next is drawn.

        The steps of one piece are drawn together (`calibration.correlate`).
        """
        rows = len(batch)

        def draw(expected: Distribution) -> Tensor:
            return self.calibration.correlate(expected, generator)

        pieces, left = [], count
        while left:  # so many windows at a time that memory stays small
            several = min(left, max(1, _ROWS_AT_A_TIME // max(1, rows)))
            index_R = torch.arange(rows, device=batch.past_BLD.device).repeat(several)
            paths_RHD = self._continue(batch.rows(index_R), draw)
            pieces.append(paths_RHD.view(several, rows, *paths_RHD.shape[1:]))
            left -= several
        return torch.cat(pieces)

    def _continue(self, batch: WindowBatch, choose: Callable[[Distribution], Tensor]) -> Tensor:
        """Piece after piece of the horizon, each read before the next."""
        pieces, left = [], batch.horizon
        while left:
            steps = min(self.reach, left)
            piece_BHD = choose(self.expect(batch.ahead(steps)))
            pieces.append(piece_BHD)
            left -= steps
            if left:
                batch = batch.slid(piece_BHD)
        return torch.cat(pieces, 1)


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
    and the root of the correlation of steps [H, H]."""

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
        return (
            median_BHD1 + self.low_HDC[steps_H] * spread_B1D1,
            median_BHD1 + self.high_HDC[steps_H] * spread_B1D1,
        )

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
