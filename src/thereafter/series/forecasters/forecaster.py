"""What every forecaster gives: a loss, a distribution over the steps ahead, sampled paths.

Shapes: B windows, L rows that are read, H steps ahead, D targets, Q levels, S samples.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from thereafter.models.task_net import TaskNet
from thereafter.series.distributions import Distribution
from thereafter.series.forecasters.batch import WindowBatch
from thereafter.series.forecasters.calibration import Calibration

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

    @abstractmethod
    def costs(self, batch: WindowBatch) -> Tensor:
        """What training makes small, for every value of the future, [B, H, D]."""

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
