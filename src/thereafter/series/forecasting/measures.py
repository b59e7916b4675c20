"""How far forecasts are from what came, as the field measures it.

With e = y - f the error of a forecast f of the value y, and means over all values,

    MAE, MSE, RMSE    the means of |e| and e^2, and the root of the latter (Hyndman and Koehler 2006)
    sMAPE             the mean of 200 |e| / (|y| + |f|), in per cent from 0 to 200 (Makridakis et al. 2020, M4); 0 where
                      both are 0. Some packages give a 100th or a 200th of it
    MASE              MAE of a window over the mean |y_t - y_{t-s}| of its training part, s the season; then the mean
                      over windows (Hyndman and Koehler 2006)
    RMSSE             the root of the MSE of a window over the mean (y_t - y_{t-s})^2 of its training part; then the
                      mean over windows (Makridakis et al. 2022, M5)
    pinball           the mean of max(l (y - q), (l - 1) (y - q)) over levels l (Koenker and Bassett 1978)
    CRPS              the integral of (F(z) - [y <= z])^2 over z (Gneiting and Raftery 2007): twice the pinball loss,
                      the mean over all levels; of draws x: mean |x - y| - (1/2) mean |x - x'|
    coverage          the share of values inside a band, its ends included

A value that is NaN is missing, and left out of every mean; a mean of nothing is NaN. Arrays may have any shape; with
`axis` the means are over these axes alone, such as (0, 2) of [W, H, D] for a figure a step. Arithmetic is in double
precision.

Shapes: W windows, H steps, D targets, Q levels, S samples, T rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import OptionError, ShapeError

Floats = NDArray[np.float64]
Axes = int | tuple[int, ...] | None

CELLS = 1 << 22  # numbers in memory at once
_CDF = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)), otypes=[np.float64])


def mae(actual: ArrayLike, forecast: ArrayLike, axis: Axes = None) -> Floats:
    """The mean absolute error.

    >>> float(mae([1.0, 2.0, np.nan], [2.0, 4.0, 0.0]))
    1.5
    """
    return mean_of_known(np.abs(_errors(actual, forecast)), axis)


def mse(actual: ArrayLike, forecast: ArrayLike, axis: Axes = None) -> Floats:
    """The mean squared error."""
    return mean_of_known(np.square(_errors(actual, forecast)), axis)


def rmse(actual: ArrayLike, forecast: ArrayLike, axis: Axes = None) -> Floats:
    """The root of the mean squared error."""
    return np.sqrt(mse(actual, forecast, axis))


def smape(actual: ArrayLike, forecast: ArrayLike, axis: Axes = None) -> Floats:
    """The symmetric mean absolute percentage error, from 0 to 200.

    >>> float(smape([1.0, 0.0], [3.0, 0.0]))
    50.0
    """
    error = np.abs(_errors(actual, forecast))
    size = np.abs(_doubles(actual)) + np.abs(_doubles(forecast))
    return mean_of_known(200 * np.divide(error, size, out=np.where(np.isnan(error), np.nan, 0.0), where=size > 0), axis)


def seasonal_scale(train_T: ArrayLike, season: int = 1, power: int = 1) -> Floats:
    """What MASE (power 1) and RMSSE (power 2) divide by: the mean |y_t - y_{t-season}|^power of the training part.

    [T] or [T, D]; a figure a series. NaN where no two values are a season apart.

    >>> float(seasonal_scale([1.0, 2.0, 4.0]))
    1.5
    """
    if season < 1 or power not in (1, 2):
        raise OptionError(
            f"season is {season} and power {power}; expected a season of 1 or more, and a power of 1 or 2"
        )
    train = _doubles(train_T)
    return mean_of_known(np.abs(train[season:] - train[:-season]) ** power, 0)


def mase(actual_WHD: ArrayLike, forecast_WHD: ArrayLike, scale_WD: ArrayLike) -> float:
    """The mean absolute scaled error; the scale is that of `seasonal_scale`, a figure a window and target.

    [W, H] with [W], or [W, H, D] with [W, D]. Windows whose scale is 0 or NaN are left out.
    """
    return _scaled(np.abs(_errors(actual_WHD, forecast_WHD)), scale_WD, root=False)


def rmsse(actual_WHD: ArrayLike, forecast_WHD: ArrayLike, scale_WD: ArrayLike) -> float:
    """The root mean squared scaled error; the scale is that of `seasonal_scale` with power 2. Shapes as in `mase`."""
    return _scaled(np.square(_errors(actual_WHD, forecast_WHD)), scale_WD, root=True)


def pinball(actual: ArrayLike, quantiles_Q: ArrayLike, levels_Q: ArrayLike, axis: Axes = None) -> Floats:
    """The pinball loss of quantiles [..., Q] at their levels, the mean over levels; `axis` are those of `actual`."""
    return mean_of_known(pinball_of_each(actual, quantiles_Q, levels_Q), axis)


def pinball_of_each(actual: ArrayLike, quantiles_Q: ArrayLike, levels_Q: ArrayLike) -> Floats:
    """The pinball loss of every value, the mean over levels; level by level, so that memory stays modest."""
    y, quantiles, levels = _doubles(actual), np.asarray(quantiles_Q), _doubles(levels_Q)
    if levels.ndim != 1 or not len(levels) or quantiles.shape != (*y.shape, len(levels)):
        raise ShapeError(
            f"values are {y.shape}, quantiles {quantiles.shape} and levels {levels.shape}; expected quantiles of the "
            "shape of the values with an axis of levels behind"
        )
    total = np.zeros_like(y)
    for at, level in enumerate(levels):
        error = y - quantiles[..., at]
        total += np.maximum(level * error, (level - 1) * error)
    return total / len(levels)


def crps_quantiles(actual: ArrayLike, quantiles_Q: ArrayLike, levels_Q: ArrayLike, axis: Axes = None) -> Floats:
    """CRPS from quantiles [..., Q] at evenly spaced levels: twice the mean pinball loss."""
    return 2 * pinball(actual, quantiles_Q, levels_Q, axis)


def crps_samples(actual: ArrayLike, samples_S: ArrayLike, axis: Axes = None) -> Floats:
    """CRPS of draws [..., S], taken for the whole distribution: mean |x - y| - (1/2) mean |x - x'|.

    >>> float(crps_samples([0.0], [[-1.0, 1.0]]))
    0.5
    """
    y, draws = _doubles(actual), np.asarray(samples_S)
    if draws.shape[:-1] != y.shape or not draws.shape[-1]:
        raise ShapeError(f"values are {y.shape} and draws {draws.shape}; expected the same shape with draws behind")
    count = draws.shape[-1]
    rank = (2 * np.arange(1, count + 1) - count - 1) / count**2  # of a sorted draw in the mean of |x - x'| / 2
    flat_N, draws_NS, score_N = y.ravel(), draws.reshape(-1, count), np.empty(y.size)
    rows = max(1, CELLS // count)
    for at in range(0, y.size, rows):
        piece_NS = np.sort(draws_NS[at : at + rows].astype(np.float64), axis=1)
        score_N[at : at + rows] = np.abs(piece_NS - flat_N[at : at + rows, None]).mean(1) - piece_NS @ rank
    return mean_of_known(score_N.reshape(y.shape), axis)


def crps_normal(actual: ArrayLike, mean: ArrayLike, deviation: ArrayLike, axis: Axes = None) -> Floats:
    """CRPS of a normal distribution: sigma (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), z = (y - mu) / sigma."""
    sigma = _doubles(deviation)
    z = _errors(actual, mean) / sigma
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return mean_of_known(sigma * (z * (2 * _CDF(z) - 1) + 2 * density - 1 / math.sqrt(math.pi)), axis)


def coverage(actual: ArrayLike, low: ArrayLike, high: ArrayLike, axis: Axes = None) -> Floats:
    """The share of values in the band from `low` to `high`.

    >>> float(coverage([1.0, 2.0, 3.0, 9.0], [1.0] * 4, [3.0] * 4))
    0.75
    """
    y = _doubles(actual)
    below, above = _errors(y, low), _errors(high, y)
    inside = np.where(np.isnan(below + above), np.nan, (below >= 0) & (above >= 0))
    return mean_of_known(inside, axis)


def mean_of_known(values: ArrayLike, axis: Axes = None) -> Floats:
    """The mean of all values that are not NaN; NaN where there is none."""
    each = _doubles(values)
    known = ~np.isnan(each)
    count = np.asarray(known.sum(axis=axis), np.float64)
    total = np.asarray(np.sum(each, axis=axis, where=known), np.float64)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _scaled(each_WHD: Floats, scale_WD: ArrayLike, *, root: bool) -> float:
    """The mean over steps, over its scale, its root where asked for; then the mean over windows and targets."""
    scale = _doubles(scale_WD)
    if each_WHD.ndim < 2 or scale.shape != (len(each_WHD), *each_WHD.shape[2:]):
        raise ShapeError(
            f"forecasts are {each_WHD.shape} and scales {scale.shape}; expected [W, H] and [W], or [W, H, D] and [W, D]"
        )
    window = mean_of_known(each_WHD, 1)
    quotient = np.divide(window, scale, out=np.full_like(window, np.nan), where=scale > 0)
    return float(mean_of_known(np.sqrt(quotient) if root else quotient))


def _errors(actual: ArrayLike, forecast: ArrayLike) -> Floats:
    y, f = _doubles(actual), _doubles(forecast)
    if y.shape != f.shape:
        raise ShapeError(f"values are {y.shape} and forecasts {f.shape}; expected the same shape")
    return y - f


def _doubles(values: ArrayLike) -> Floats:
    return np.asarray(values, np.float64)
