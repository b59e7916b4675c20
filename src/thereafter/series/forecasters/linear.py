"""All steps at once by least squares on the last rows, relative to the last value.

    y_{t+h} - y_t = W_h [y_{t-L+1} - y_t, ..., y_t - y_t, covariates ahead] + b_h

Each step has weights of its own. `ridge` times the mean square of the inputs is added to the diagonal of the normal
equations, so that 336 inputs that are nearly alike have one answer.

Shapes: B windows, L rows, H steps, D targets, P inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from thereafter.errors import EmptyCorpusError
from thereafter.series.distributions import Distribution, Normal
from thereafter.series.forecasters.batch import WindowBatch
from thereafter.series.forecasters.forecaster import Batches, Forecaster, WindowFacts
from thereafter.series.forecasters.settings import ForecastSettings

_LEAST = 1e-4


class Linear(Forecaster):
    """See the module's equation; `spread_HD` is the standard deviation of its errors on the training windows."""

    weight_PO: Tensor
    spread_HD: Tensor

    def __init__(self, settings: ForecastSettings, facts: WindowFacts) -> None:
        super().__init__(facts)
        self.norm, self.ridge = settings.norm or "last", settings.ridge
        inputs = facts.lookback * facts.targets + facts.horizon * facts.known + 1
        self.register_buffer("weight_PO", torch.zeros(inputs, facts.horizon * facts.targets))
        self.register_buffer("spread_HD", torch.ones(facts.horizon, facts.targets))

    def expect(self, batch: WindowBatch) -> Distribution:
        mean_BHD, scale_BD = self._mean(batch)
        steps = batch.horizon
        return Normal(mean_BHD[:, :steps], self.spread_HD[:steps] * scale_BD[:, None])

    def costs(self, batch: WindowBatch) -> Tensor:
        return -self.expect(batch).log_prob(batch.answers()[0])

    @torch.no_grad()
    def solve(self, batches: Batches, series: Sequence[Tensor]) -> None:
        """The normal equations, added up batch by batch in double precision; windows whose future has gaps are left
        out."""
        inputs, outputs = self.weight_PO.shape
        gram_PP = torch.zeros(inputs, inputs, dtype=torch.double, device=self.device)
        moment_PO = torch.zeros(inputs, outputs, dtype=torch.double, device=self.device)
        for batch in batches():
            x_BP, y_BO = self._equations(batch)
            gram_PP += x_BP.T @ x_BP
            moment_PO += x_BP.T @ y_BO
        if float(gram_PP[-1, -1]) < 2:
            raise EmptyCorpusError(
                f"least squares needs windows whose next {self.facts.horizon} rows have no gap; got "
                f"{int(gram_PP[-1, -1])} of them; try a smaller horizon, or model='ar' or 'gru', which take gaps"
            )
        power = gram_PP.diagonal()[:-1].mean() if inputs > 1 else gram_PP.new_zeros(())
        gram_PP.diagonal()[:-1].add_(self.ridge * power)
        solved_PO = torch.linalg.lstsq(gram_PP.cpu(), moment_PO.cpu(), driver="gelsd").solution
        self.weight_PO.copy_(solved_PO)
        squares_O, rows = torch.zeros(outputs, dtype=torch.double, device=self.device), 0
        for batch in batches():
            x_BP, y_BO = self._equations(batch)
            squares_O += (y_BO - x_BP @ self.weight_PO.double()).square().sum(0)
            rows += len(x_BP)
        spread_O = (squares_O / max(1, rows)).sqrt().clamp_min(_LEAST)
        self.spread_HD.copy_(spread_O.view_as(self.spread_HD))

    def parameters_count(self) -> int:
        return self.weight_PO.numel()

    @property
    def device(self) -> torch.device:
        return self.weight_PO.device

    def _equations(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        """Inputs and targets of windows whose future is whole, relative to their level."""
        future_BHD, seen_BHD = batch.answers()
        whole_B = seen_BHD.flatten(1).all(1)
        offset_BD, scale_BD = batch.level(self.norm)
        y_BHD = (future_BHD - offset_BD[:, None]) / scale_BD[:, None]
        return self._inputs(batch)[whole_B].double(), y_BHD.flatten(1)[whole_B].double()

    def _inputs(self, batch: WindowBatch) -> Tensor:
        offset_BD, scale_BD = batch.level(self.norm)
        z_BLD = (batch.past_BLD - offset_BD[:, None]) / scale_BD[:, None] * batch.seen_BLD
        known = self.facts.horizon - batch.horizon  # callers ask for all steps where covariates are known ahead
        ahead_BHK = torch.nn.functional.pad(batch.ahead_BHK, (0, 0, 0, known))
        return torch.cat((z_BLD.flatten(1), ahead_BHK.flatten(1), torch.ones_like(z_BLD[:, :1, 0])), 1)

    def _mean(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        offset_BD, scale_BD = batch.level(self.norm)
        z_BHD = (self._inputs(batch) @ self.weight_PO).view(-1, self.facts.horizon, self.facts.targets)
        return offset_BD[:, None] + scale_BD[:, None] * z_BHD, scale_BD
