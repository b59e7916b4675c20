"""One step ahead and many: what a forecaster expects k steps ahead of what it has read, at every row of a part.

Beyond the steps that it gives at once a forecaster reads its own predictions. The first chapter of the books on
sequence models draws this of a noisy sine: one step ahead looks perfect, 64 steps ahead does not.

Shapes: A numbers of steps k, R rows, B windows, H steps, D targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.errors import OptionError, UnknownNameError
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.series.forecasters.forecaster import Forecaster
from thereafter.series.forecasting.answers import spelled_times
from thereafter.series.forecasting.windows import make_batch
from thereafter.series.scales import SeriesScales
from thereafter.series.table import SeriesTable
from thereafter.series.windows import Window, Windows

KIND = "steps-ahead"
STEPS = (1, 4, 16, 64)
"""The books' numbers of steps."""
MOST = 1024
"""Steps ahead that can be asked for."""
_BATCH = 512  # windows that are forecast together


def steps_ahead(
    net: Forecaster,
    scales: SeriesScales,
    windows: Sequence[object],
    steps: Sequence[int] = STEPS,
    *,
    series: str = "",
    target: int = 0,
    about: Table | None = None,
) -> Measurement:
    """Every row of a part, as forecast k steps ahead, for every k of `steps`; of one series and one target.

    The row t is forecast k steps ahead from the rows up to t - k. `windows` say which part: of each window the first
    row to be forecast. Errors are over the rows that every k reaches, so that they can be compared; beside them the
    error of the value k steps before, which is what the last value forecasts.
    """
    steps_A = _checked(steps)
    if not isinstance(windows, Windows):
        raise OptionError(f"the windows are a {type(windows).__name__}; expected those of a table of series")
    table, farthest, at = windows.table, steps_A[-1], number_of(windows.table, series)
    origin_W = windows.origin_W[windows.series_W == at]
    if not len(origin_W):
        raise OptionError(f"the part has no row of the series {table.names[at]!r} to forecast; try another part")
    begin, end = int(origin_W.min()), int(origin_W.max()) + windows.frame.horizon
    if end - begin < farthest:
        raise OptionError(
            f"the part has {end - begin:,} rows, and {farthest:,} steps ahead are asked for; expected at most "
            f"{end - begin:,} steps"
        )
    ahead_RH = _forecasts(net, scales, table, at, target, range(begin, end), farthest)
    predicted_AR = np.full((len(steps_A), end - begin), np.nan)
    for place, k in enumerate(steps_A):
        predicted_AR[place, k - 1 :] = ahead_RH[: end - begin - k + 1, k - 1]
    values_T = table.values(at)[:end, target]
    arrays: Arrays = {
        "ahead": np.array(steps_A, np.int64),
        "time": np.array(spelled_times(table.times(at)[begin:end])),
        "actual": values_T[begin:],
        "predicted": predicted_AR,
        **_errors(predicted_AR, values_T, begin, steps_A),
    }
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(("time", "actual"), ("row",))
    axes |= {"predicted": ("ahead", "row")} | dict.fromkeys(("ahead", "rmse", "mae", "last_value_rmse"), ("ahead",))
    facts: Table = {"model": "a forecaster", "text": table.source, "series": table.names[at]}
    facts |= {"target": table.targets[target], "row": str(table.frequency), "lookback": scales.frame.lookback}
    facts |= {"rows": end - begin, "compared_rows": end - begin - farthest + 1}
    return Measurement(KIND, arrays, axes, facts | (about or {}))


def forecaster_of(net: object, codecs: Mapping[str, object]) -> tuple[Forecaster, SeriesScales]:
    """The network and the scales of a trained forecaster; OptionError where the model is of another task."""
    scales = codecs.get("series")
    if not isinstance(net, Forecaster) or not isinstance(scales, SeriesScales):
        raise OptionError("the model forecasts no series; expected one that was trained with task='forecast'")
    return net, scales


def number_of(table: SeriesTable, series: str) -> int:
    """The place of a series in its table, by name; the first without a name."""
    if not series:
        return 0
    if series not in table.names:
        raise UnknownNameError("series", series, table.names)
    return table.names.index(series)


def _checked(steps: Sequence[int]) -> list[int]:
    steps_A = sorted(set(steps))
    if not steps_A or steps_A[0] < 1 or steps_A[-1] > MOST:
        raise OptionError(f"the steps ahead are {list(steps)}; expected whole numbers from 1 to {MOST:,}, such as 1,16")
    return steps_A


def _forecasts(
    net: Forecaster, scales: SeriesScales, table: SeriesTable, series: int, target: int, origins: range, steps: int
) -> NDArray[np.float64]:
    """The forecast from every origin, in the units of the data, [R, H]."""
    mean_D, deviation_D = scales.of_table(table)[series, :, : scales.targets]
    pieces = []
    with net.quietly(), progress.task("forecasting", total=len(origins), unit="rows") as advance:
        for begin in range(0, len(origins), _BATCH):
            windows = [Window(table, series, origin) for origin in origins[begin : begin + _BATCH]]
            path_BHD = net.mean_path(make_batch(windows, scales, steps).to(net.device))
            scaled_BH = path_BHD[..., target].double().cpu().numpy()
            pieces.append(scaled_BH * deviation_D[target] + mean_D[target])
            advance(len(windows))
    return np.concatenate(pieces)


def _errors(
    predicted_AR: NDArray[np.float64], values_T: NDArray[np.float64], begin: int, steps: Sequence[int]
) -> Arrays:
    """Errors by k over the rows that every k reaches and that have a value."""
    rows_C = np.arange(begin + steps[-1] - 1, len(values_T))
    actual_C = values_T[rows_C]
    seen_C = ~np.isnan(actual_C)
    last_AC = np.stack([values_T[np.maximum(rows_C - k, 0)] for k in steps])
    wrong_AC = predicted_AR[:, steps[-1] - 1 :] - actual_C
    last_wrong_AC = last_AC - actual_C
    return {
        "rmse": _mean(np.square(wrong_AC), seen_C) ** 0.5,
        "mae": _mean(np.abs(wrong_AC), seen_C),
        "last_value_rmse": _mean(np.square(last_wrong_AC), seen_C & ~np.isnan(last_AC).any(0)) ** 0.5,
    }


def _mean(wrong_AC: NDArray[np.float64], seen_C: NDArray[np.bool_]) -> NDArray[np.float64]:
    if not seen_C.any():
        return np.full(len(wrong_AC), np.nan)
    means_A: NDArray[np.float64] = wrong_AC[:, seen_C].mean(axis=1)
    return means_A
