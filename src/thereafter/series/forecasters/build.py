"""The forecaster that the settings name, and the simple ones, which all others have to beat.

    naive            y_{t+h} = y_t
    seasonal naive   y_{t+h} = y_{t+h-s}, s the season; one season earlier where that is missing
    drift            y_{t+h} = y_t + h (y_t - y_1) / (t - 1), over the window

These have no weights; their spread is that of their errors on the training windows, step by step.

Shapes: B windows, L rows, H steps, D targets, K seasons of S rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.series.distributions import Distribution, Normal
from thereafter.series.forecasters.autoregression import Autoregression
from thereafter.series.forecasters.batch import WindowBatch
from thereafter.series.forecasters.forecaster import Batches, Forecaster, WindowFacts
from thereafter.series.forecasters.linear import Linear
from thereafter.series.forecasters.network import ForecastNetwork
from thereafter.series.forecasters.settings import COUNTS, SIMPLE, ForecastSettings


def build(settings: ForecastSettings, facts: WindowFacts) -> Forecaster:
    """A forecaster with fresh weights."""
    if settings.model in SIMPLE:
        return Simple(settings, facts)
    if settings.model == "ar":
        return Autoregression(settings, facts)
    if settings.model == "linear":
        return Linear(settings, facts)
    return ForecastNetwork(settings, facts, norm=_norm(settings), segment=_segment(settings, facts))


def _norm(settings: ForecastSettings) -> str:
    if settings.head == COUNTS:
        if settings.norm not in ("", "none"):
            raise OptionError(
                f"norm is {settings.norm!r} and the head {COUNTS!r}, whose counts are not shifted; try leaving norm out"
            )
        if settings.skip:
            raise OptionError(f"skip is on and the head is {COUNTS!r}, whose counts are not shifted; try skip=false")
        return "mean"
    return settings.norm or "standard"


def _segment(settings: ForecastSettings, facts: WindowFacts) -> int:
    """A season at a step where nothing else is asked for: fewer steps to learn over, and a day looks like a day."""
    if settings.recursive or settings.model == "window":
        if settings.segment > 1:
            why = "one row at a time" if settings.recursive else "all rows at once"
            raise OptionError(f"segment is {settings.segment}, and this forecaster reads {why}; try segment=1")
        return 1
    if settings.segment:
        return settings.segment
    return facts.season if facts.season > 1 and facts.lookback % facts.season == 0 else 1


_LEAST = 1e-4  # of the series' deviation: the spread of a forecast that was never wrong


class Simple(Forecaster):
    """One of `settings.SIMPLE`; `spread_HD` is the standard deviation of its errors."""

    spread_HD: Tensor

    def __init__(self, settings: ForecastSettings, facts: WindowFacts) -> None:
        super().__init__(facts)
        self.kind = settings.model
        self.register_buffer("spread_HD", torch.ones(facts.horizon, facts.targets))

    def expect(self, batch: WindowBatch) -> Distribution:
        mean_BHD = self._mean(batch)
        return Normal(mean_BHD, self.spread_HD[: batch.horizon].expand_as(mean_BHD))

    def costs(self, batch: WindowBatch) -> Tensor:
        return -self.expect(batch).log_prob(batch.answers()[0])

    @torch.no_grad()
    def solve(self, batches: Batches, series: Sequence[Tensor]) -> None:
        squares_HD, count_HD = torch.zeros_like(self.spread_HD), torch.zeros_like(self.spread_HD)
        for batch in batches():
            future_BHD, seen_BHD = batch.answers()
            squares_HD += ((future_BHD - self._mean(batch)) * seen_BHD).square().sum(0)
            count_HD += seen_BHD.sum(0)
        self.spread_HD.copy_((squares_HD / count_HD.clamp_min(1)).sqrt().clamp_min(_LEAST))

    def _mean(self, batch: WindowBatch) -> Tensor:
        last_BD, steps = batch.last(), batch.horizon
        last_BHD = last_BD[:, None].expand(-1, steps, -1)
        if self.kind == "naive":
            return last_BHD
        rows = batch.past_BLD.shape[1]
        if self.kind == "seasonal-naive":
            season = min(self.facts.season, rows)
            whole = rows - rows % season
            shape = (len(last_BD), whole // season, season, last_BD.shape[1])
            past_BKSD = batch.past_BLD[:, -whole:].reshape(shape)
            seen_BKSD = batch.seen_BLD[:, -whole:].reshape(shape)
            number_K = torch.arange(1, whole // season + 1, device=last_BD.device)
            latest_BSD = (seen_BKSD * number_K[:, None, None]).argmax(1)  # the latest season that has the value
            value_BSD = past_BKSD.gather(1, latest_BSD[:, None])[:, 0]
            value_BSD = torch.where(seen_BKSD.any(1), value_BSD, last_BD[:, None])
            return value_BSD[:, torch.arange(steps, device=last_BD.device) % season]
        places_L = torch.arange(rows, device=last_BD.device)[:, None]
        first_BD = torch.where(batch.seen_BLD, places_L, rows - 1).amin(1)
        end_BD = torch.where(batch.seen_BLD, places_L, 0).amax(1)
        begin_BD = batch.past_BLD.gather(1, first_BD[:, None])[:, 0]
        slope_BD = (last_BD - begin_BD) / (end_BD - first_BD).clamp_min(1)
        ahead_H = torch.arange(1, steps + 1, device=last_BD.device)
        return last_BHD + ahead_H[:, None] * slope_BD[:, None]

    @property
    def device(self) -> torch.device:
        return self.spread_HD.device
