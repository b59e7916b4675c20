"""From windows to forecasts in the units of the data.

Shapes: B windows, H steps, D targets, Q levels, C bands, S samples.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from thereafter.errors import OptionError
from thereafter.models.forecasting.batch import WindowBatch
from thereafter.models.forecasting.calibration import ENDS
from thereafter.models.forecasting.forecaster import Forecaster
from thereafter.series.scales import SeriesScales
from thereafter.series.table import Times
from thereafter.series.windows import Window
from thereafter.tasks.forecast_answers import LEVELS, Forecast, spelled_times
from thereafter.tasks.forecast_batches import check_known, make_batch

MOST_STEPS, MOST_SAMPLES = 100_000, 10_000
_ENDS = [LEVELS.index(level) for level in ENDS]


def forecasts_of(
    net: Forecaster, batch: WindowBatch, scales: SeriesScales, options: Mapping[str, object]
) -> list[Forecast]:
    """The forecast of each window; options are those of `Forecasting.asked`."""
    given = options.get("horizon")
    horizon = scales.frame.horizon if given is None else whole("horizon", given, 1, MOST_STEPS)
    samples = whole("samples", options.get("samples", 0), 0, MOST_SAMPLES)
    seed = whole("seed", options.get("seed", 0), 0, 2**63 - 1)
    steps = whole_pieces(net, scales, horizon)
    if steps != batch.horizon:
        batch = make_batch(batch.windows, scales, steps).to(net.device)
    for window in batch.windows:
        check_known(window.table, window.series, window.origin, steps)
    generator = torch.Generator(device=net.device).manual_seed(seed)
    with net.quietly():
        expected = net.forecast(batch, torch.tensor(LEVELS), generator)
        paths_SBHD = (
            net.paths(batch, samples, generator)
            if samples
            else expected.mean_BHD.new_empty(0, *expected.mean_BHD.shape)
        )
        low_BHDC, high_BHDC = net.calibration.bands(expected.quantiles_BHDQ[..., _ENDS], expected.spread_BD)
    paths_SBHD = paths_SBHD[:, :, :horizon]
    arrays = [
        one[:, :horizon].double().cpu().numpy()
        for one in (expected.mean_BHD, expected.quantiles_BHDQ, low_BHDC, high_BHDC)
    ]
    paths = paths_SBHD.double().cpu().numpy()
    forecasts = []
    for at, window in enumerate(batch.windows):
        table = window.table
        mean_D, deviation_D = scales.of_table(table)[window.series, :, : scales.targets]
        mean_HD = arrays[0][at] * deviation_D + mean_D
        quantiles, low, high = (one[at] * deviation_D[:, None] + mean_D[:, None] for one in arrays[1:])
        times_H, name = times_ahead(window, horizon), table.names[window.series]
        paths_SHD = paths[:, at] * deviation_D + mean_D
        forecasts.append(Forecast(name, table.targets, times_H, mean_HD, quantiles, low, high, paths_SHD))
    return forecasts


def whole_pieces(net: Forecaster, scales: SeriesScales, horizon: int) -> int:
    """The steps to ask for. A network that gives several at once reads the covariates of all of them: then whole pieces
    are asked for, and cut."""
    if not scales.known or net.reach > scales.frame.horizon:
        return horizon
    return -(-horizon // net.reach) * net.reach


def times_ahead(window: Window, horizon: int) -> Times:
    """The times that are forecast: those of the table, and those that follow it."""
    times_T = window.table.times(window.series)
    there = times_T[window.origin : window.origin + horizon]
    if len(there) == horizon:
        return there
    after = window.table.frequency.after(times_T[-1], horizon - len(there))
    if np.issubdtype(times_T.dtype, np.datetime64):
        return np.concatenate((there, after)).astype("datetime64[s]")
    return np.concatenate((there, after)).astype(np.int64)


def step_names(batch: WindowBatch, steps: int) -> list[str]:
    """The steps in which the window of a batch is read, by the time at which each begins."""
    window = batch.windows[0]
    lookback = batch.past_BLD.shape[1]
    times = window.table.times(window.series)[max(0, window.origin - lookback) : window.origin]
    names = [""] * (lookback - len(times)) + spelled_times(times)
    return names[:: max(1, lookback // steps)]


def whole(name: str, value: object, least: int, most: int) -> int:
    """The value of an option that is a number of rows or samples; OptionError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise OptionError(f"{name} is {value!r}; expected a whole number, {least} to {most:,}")
    return value
