"""What a forecaster learns from the validation set once it is trained: the spread of points, bands, paths.

Shapes: B windows, H steps, D targets, Q levels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.models.forecasting.batch import WindowBatch
from thereafter.models.forecasting.calibration import ENDS
from thereafter.models.forecasting.forecaster import Batches, Forecaster
from thereafter.models.forecasting.network import ForecastNetwork


@torch.no_grad()
def calibrate(net: Forecaster, batches: Batches) -> None:
    """Fit `net.calibration`, and the spread of a head that gives points, to windows that were not learned from."""
    if isinstance(net, ForecastNetwork):
        net.set_spread(batches())
    generator = torch.Generator(device=net.device).manual_seed(0)

    ends_Q = torch.tensor(ENDS)

    def quantiles(batch: WindowBatch) -> Tensor:
        return net.forecast(batch, ends_Q, generator).quantiles_BHDQ

    def ranks(batch: WindowBatch) -> Tensor:
        return net.expect(batch).cdf(batch.answers()[0])

    whole = net.reach == net.facts.horizon and net.reach > 1  # its steps are drawn together
    net.calibration.fit(batches(), quantiles, ranks if whole else None)
