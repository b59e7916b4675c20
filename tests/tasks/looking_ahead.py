"""Whether a forecaster looks ahead: rows that it must not have read are replaced by noise.

Much that is published as a forecast has leaked: a scaler fitted to the whole series, a filter that looks both ways. To
find out, rows after the origin of a forecast are replaced by noise, and nothing may change:

    changed_by_future(predict, windows)    the largest change of any forecast; 0 where none looks ahead
    noise_after(table, rows_S)             a table whose rows from `rows_S` on are noise: what is learned from the rows
                                           before them, a scaler, an order, weights, must come out the same

Shapes: S series, N rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thereafter.series.forecasting.answers import Forecast
from thereafter.series.table import SeriesTable, Window
from thereafter.tasks import answering
from thereafter.tasks.fitting import Fitted

Predict = Callable[[Sequence[Window]], Sequence[Forecast]]


def noise_after(table: SeriesTable, rows_S: Sequence[int] | NDArray[np.int64], seed: int = 0) -> SeriesTable:
    """The same table, with the targets and past covariates of each series replaced by noise from a row on.

    Covariates that are known ahead stay: they are known.
    """
    rng = np.random.default_rng(seed)
    values_ND, past_NP = table.values_ND.copy(), table.past_NP.copy()
    for at, row in enumerate(rows_S):
        begin, end = int(table.bounds_S1[at]) + int(row), int(table.bounds_S1[at + 1])
        for columns in (values_ND, past_NP):
            later = columns[begin:end]
            spread = np.nanstd(columns) if columns.size and not np.isnan(columns).all() else 1.0
            noise = 1e3 * max(float(spread), 1.0) * np.abs(rng.normal(size=later.shape))
            columns[begin:end] = np.where(np.isnan(later), later, np.round(noise))  # round: counts stay counts
    return replace(table, values_ND=values_ND, past_NP=past_NP)


def predictor(fitted: Fitted) -> Predict:
    """How a trained forecaster answers windows."""

    def predict(windows: Sequence[Window]) -> list[Forecast]:
        answers = answering.answers(fitted, windows)
        return [answer for answer in answers if isinstance(answer, Forecast)]

    return predict


def changed_by_future(predict: Predict, windows: Sequence[Window], seed: int = 0) -> float:
    """The largest change of the mean or of any quantile where everything from each window's origin on is noise."""
    largest = 0.0
    for window in windows:
        ends = np.diff(window.table.bounds_S1)
        ends[window.series] = window.origin
        noisy = noise_after(window.table, ends, seed)
        (before,), (after,) = predict([window]), predict([window._replace(table=noisy)])
        for one, other in ((before.mean_HD, after.mean_HD), (before.quantiles_HDQ, after.quantiles_HDQ)):
            largest = max(largest, float(np.abs(one - other).max()))
    return largest
