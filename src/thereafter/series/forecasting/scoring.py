"""Forecasts against what came: the score of a run.

Shapes: W windows, H steps, D targets, Q levels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.series.forecasting.answers import LEVELS, Forecast
from thereafter.series.forecasting.score import BAND, ForecastScore, score_forecasts
from thereafter.series.scales import SeriesScale, SeriesScales
from thereafter.series.windows import Window

_DECILES = tuple(round(0.1 * k, 1) for k in range(1, 10))


def measure_forecasts(windows: Sequence[Window], answers: Sequence[Forecast], scales: SeriesScales) -> ForecastScore:
    """All figures; standardised by the deviation of each series in its training rows."""
    places = [LEVELS.index(level) for level in _DECILES]
    known = [_scale_of(window, scales) for window in windows]
    bands = [answer.band(BAND) for answer in answers]
    return score_forecasts(
        actual_values(windows, len(answers[0])),
        np.stack([answer.mean_HD for answer in answers]),
        np.stack([answer.quantiles_HDQ[..., places] for answer in answers]),
        _DECILES,
        deviation_WD=deviations_of(windows, scales),
        absolute_scale_WD=np.array([scale.naive_absolute for scale in known]),
        squared_scale_WD=np.array([scale.naive_squared for scale in known]),
        low_WHD=np.stack([low for low, _ in bands]),
        high_WHD=np.stack([high for _, high in bands]),
        targets=windows[0].table.targets,
    )


def actual_values(windows: Sequence[Window], horizon: int) -> NDArray[np.float64]:
    """What came after each window, [W, H, D]; NaN where nothing did."""
    actual = []
    for window in windows:
        rows_HD = window.table.values(window.series)[window.origin : window.origin + horizon]
        gap = np.full((horizon - len(rows_HD), rows_HD.shape[1]), np.nan)
        actual.append(np.concatenate((rows_HD, gap)))
    return np.stack(actual)


def deviations_of(windows: Sequence[Window], scales: SeriesScales) -> NDArray[np.float64]:
    """The standard deviation of the training part of each window's series, [W, D]."""
    return np.array([_scale_of(window, scales).deviation for window in windows])


def _scale_of(window: Window, scales: SeriesScales) -> SeriesScale:
    return scales.scale_of(window.table, window.series)
