"""How far forecasts are from what came, as the field measures it; the score of forecasts from many origins, as a whole
and by step of the horizon.

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
                      the mean over all levels
    coverage          the share of values inside a band, its ends included

A value that is NaN is missing, and left out of every mean; a mean of nothing is NaN. Arrays may have any shape; with
`axis` the means are over these axes alone, such as (0, 2) of [W, H, D] for a figure a step. Arithmetic is in double
precision.

Shapes: W windows, H steps, D targets, Q levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import repeat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular, finite
from thereafter.errors import OptionError, ShapeError
from thereafter.evaluation.bootstrap import ResampledMeans
from thereafter.series.forecasting.answers import LEVELS, Forecast
from thereafter.series.scales import SeriesScale, SeriesScales
from thereafter.series.table import Window
from thereafter.series.times import Floats
from thereafter.tasks.task import Headed

Axes = int | tuple[int, ...] | None


def mae(actual: ArrayLike, forecast: ArrayLike, axis: Axes = None) -> Floats:
    """The mean absolute error.

    >>> float(mae([1.0, 2.0, np.nan], [2.0, 4.0, 0.0]))
    1.5
    """
    return mean_of_known(np.abs(_errors(actual, forecast)), axis)


def mse(actual: ArrayLike, forecast: ArrayLike, axis: Axes = None) -> Floats:
    """The mean squared error."""
    return mean_of_known(np.square(_errors(actual, forecast)), axis)


def smape(actual: ArrayLike, forecast: ArrayLike, axis: Axes = None) -> Floats:
    """The symmetric mean absolute percentage error, from 0 to 200.

    >>> float(smape([1.0, 0.0], [3.0, 0.0]))
    50.0
    """
    error = np.abs(_errors(actual, forecast))
    size = np.abs(_doubles(actual)) + np.abs(_doubles(forecast))
    return mean_of_known(200 * np.divide(error, size, out=np.where(np.isnan(error), np.nan, 0.0), where=size > 0), axis)


def mase(actual_WHD: ArrayLike, forecast_WHD: ArrayLike, scale_WD: ArrayLike) -> float:
    """The mean absolute scaled error; the scale is that of `seasonal_scale`, a figure a window and target.

    [W, H] with [W], or [W, H, D] with [W, D]. Windows whose scale is 0 or NaN are left out.
    """
    return _scaled(np.abs(_errors(actual_WHD, forecast_WHD)), scale_WD, root=False)


def rmsse(actual_WHD: ArrayLike, forecast_WHD: ArrayLike, scale_WD: ArrayLike) -> float:
    """The root mean squared scaled error; the scale is that of `seasonal_scale` with power 2. Shapes as in `mase`."""
    return _scaled(np.square(_errors(actual_WHD, forecast_WHD)), scale_WD, root=True)


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


Numbers = NDArray[np.floating]

BAND = 0.8
"""The band whose coverage is reported."""
_NEAR = 1e-6  # of a level
_BY_STEP = (0, 2)  # axes of [W, H, D] that a figure a step is the mean over


@dataclass(frozen=True)
class StepScore:
    """The figures of one step of the horizon, on the scale of the data; `coverage_calibrated` is None without one."""

    step: int
    mae: float
    mse: float
    coverage: float
    coverage_calibrated: float | None
    crps: float


@dataclass(frozen=True)
class ForecastScore(Headed, Tabular):
    """The figures of `values` values that were forecast from `windows` origins, `horizon` steps each.

    On the scale of the data: `mae`, `mse`, `rmse`, `smape` (0 to 200), `pinball`, `crps`, `nats` (-log p of a value;
    None where it was not asked for). Divided by the standard deviation of each series in its training part:
    `mae_standardised`, `mse_standardised`. Divided by the seasonal naive errors of the training part: `mase`, `rmsse`.
    `coverage` is that of the `band` before calibration, `coverage_calibrated` after it. A figure of nothing is NaN.
    """

    headline = ("rmse", "RMSE")

    windows: int
    horizon: int
    values: int
    mae: float
    mse: float
    rmse: float
    smape: float
    mase: float
    rmsse: float
    mae_standardised: float
    mse_standardised: float
    pinball: float
    crps: float
    band: float
    coverage: float
    coverage_calibrated: float | None
    nats: float | None
    steps: tuple[StepScore, ...] = field(default=(), repr=False)
    targets: tuple[str, ...] = ()
    """The columns that are forecast, in whose unit the errors are."""

    def as_dict(self) -> Table:
        """All figures, for JSON; one of nothing is None. `steps` are those by step."""
        return {name: finite(value) for name, value in asdict(self).items()}

    def to_rows(self) -> list[Row]:
        """A row a step of the horizon."""
        return [asdict(step) for step in self.steps]

    def line(self) -> str:
        """The figures that models are compared by, in one line."""
        figures = _listed(MAE=self.mae, RMSE=self.rmse, CRPS=self.crps)
        return f"{figures} {self._unit()}, {_listed(MASE=self.mase)}, standardised {_listed(MSE=self.mse_standardised)}"

    def __str__(self) -> str:
        lines = [
            f"{self.windows:,} windows of {self.horizon:,} steps, {self.values:,} values",
            f"{self._unit()}: "
            + _listed(MAE=self.mae, RMSE=self.rmse, MSE=self.mse, CRPS=self.crps, pinball=self.pinball)
            + f", {_listed(sMAPE=self.smape)} % (of 200)",
            "in standard deviations of the training part: "
            + _listed(MSE=self.mse_standardised, MAE=self.mae_standardised),
            "over the seasonal naive errors of the training part: " + _listed(MASE=self.mase, RMSSE=self.rmsse),
            self._bands(),
        ]
        if self.nats is not None:
            lines.append(f"{self.nats:.4g} nats a value, {self._unit()}")
        return "\n".join(lines)

    def _unit(self) -> str:
        return f"in the unit of {', '.join(self.targets) or 'the target'}"

    def _bands(self) -> str:
        """How much the band covers, as a whole and at the first, the middle and the last step."""
        text = f"the {100 * self.band:.3g} % band covers {_share(self.coverage)}"
        if self.coverage_calibrated is not None:
            text += f", {_share(self.coverage_calibrated)} after calibration"
        places = sorted({0, (len(self.steps) - 1) // 2, len(self.steps) - 1}) if self.steps else []
        steps = []
        for step in (self.steps[place] for place in places):
            after = "" if step.coverage_calibrated is None else f" and {_share(step.coverage_calibrated)}"
            steps.append(f"step {step.step}: {_share(step.coverage)}{after}")
        return f"{text} ({'; '.join(steps)})" if len(steps) > 1 else text


def score_forecasts(
    actual_WHD: Numbers,
    mean_WHD: Numbers,
    quantiles_WHDQ: Numbers,
    levels_Q: Sequence[float] | Numbers,
    *,
    deviation_WD: Numbers,
    absolute_scale_WD: Numbers,
    squared_scale_WD: Numbers,
    low_WHD: Numbers | None = None,
    high_WHD: Numbers | None = None,
    nats: Numbers | None = None,
    band: float = BAND,
    targets: tuple[str, ...] = (),
) -> ForecastScore:
    """Forecasts against what came, NaN where a value is missing; everything on the scale of the data.

    `quantiles_WHDQ`: as the forecaster gives them, before calibration, at `levels_Q`; both ends of the `band` are among
    them, and CRPS is fair where the levels are evenly spaced. `deviation_WD`: the standard deviation of the training
    part of each window's series; `absolute_scale_WD` and `squared_scale_WD`: its seasonal scale
    with power 1 and 2. `low_WHD` and `high_WHD`: the band after calibration. `nats`: -log p of values, of any shape.
    """
    levels = np.asarray(levels_Q, np.float64)
    _check(actual_WHD, deviation_WD, low_WHD, high_WHD)
    first, last = (_place(levels, (1 + side * band) / 2) for side in (-1, 1))
    ends = (quantiles_WHDQ[..., first], quantiles_WHDQ[..., last])
    calibrated = None if low_WHD is None or high_WHD is None else (low_WHD, high_WHD)
    pinball_WHD = pinball_of_each(actual_WHD, quantiles_WHDQ, levels)
    standard_WD = np.where(deviation_WD > 0, deviation_WD, np.nan).astype(np.float64)
    relative_WHD = (np.asarray(actual_WHD, np.float64) - mean_WHD) / standard_WD[:, None]
    square, loss = mse(actual_WHD, mean_WHD).item(), mean_of_known(pinball_WHD).item()
    steps = zip(
        mae(actual_WHD, mean_WHD, _BY_STEP).tolist(),
        mse(actual_WHD, mean_WHD, _BY_STEP).tolist(),
        coverage(actual_WHD, *ends, _BY_STEP).tolist(),
        repeat(None) if calibrated is None else coverage(actual_WHD, *calibrated, _BY_STEP).tolist(),
        (2 * mean_of_known(pinball_WHD, _BY_STEP)).tolist(),
        strict=False,
    )
    return ForecastScore(
        windows=len(actual_WHD),
        horizon=actual_WHD.shape[1],
        values=int(np.count_nonzero(~np.isnan(actual_WHD))),
        mae=mae(actual_WHD, mean_WHD).item(),
        mse=square,
        rmse=square**0.5,
        smape=smape(actual_WHD, mean_WHD).item(),
        mase=mase(actual_WHD, mean_WHD, absolute_scale_WD),
        rmsse=rmsse(actual_WHD, mean_WHD, squared_scale_WD),
        mae_standardised=mean_of_known(np.abs(relative_WHD)).item(),
        mse_standardised=mean_of_known(np.square(relative_WHD)).item(),
        pinball=loss,
        crps=2 * loss,
        band=band,
        coverage=coverage(actual_WHD, *ends).item(),
        coverage_calibrated=None if calibrated is None else coverage(actual_WHD, *calibrated).item(),
        nats=None if nats is None else mean_of_known(nats).item(),
        steps=tuple(StepScore(step, *figures) for step, figures in enumerate(steps, 1)),
        targets=targets,
    )


def _check(actual_WHD: Numbers, deviation_WD: Numbers, low_WHD: Numbers | None, high_WHD: Numbers | None) -> None:
    if actual_WHD.ndim != 3 or deviation_WD.shape != (len(actual_WHD), actual_WHD.shape[2]):
        raise ShapeError(
            f"values are {actual_WHD.shape} and deviations {deviation_WD.shape}; expected [W, H, D] and [W, D]"
        )
    if (low_WHD is None) != (high_WHD is None):
        raise OptionError("one end of the calibrated band is missing; expected both or neither")


def _place(levels_Q: Floats, level: float) -> int:
    """Where a level stands among those that are given."""
    near = np.flatnonzero(np.abs(levels_Q - level) < _NEAR)
    if not len(near):
        raise OptionError(f"levels are {levels_Q.tolist()}; expected the end {level:.4g} of the band among them")
    return int(near[0])


def _listed(**figures: float) -> str:
    """ "MAE 1.25, MSE 2.5"."""
    return ", ".join(f"{name} {value:.4g}" for name, value in figures.items())


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


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


def resampled_forecasts(actual: Numbers, mean: Numbers, *, block: int = 1, unit: str = "") -> ResampledMeans:
    """The mean squared and the mean absolute error of forecasts against what came, both negative, since more is better;
    a window a row, of any shape behind it, NaN where a value is missing.

    Windows that overlap err together; `block` neighbours in a row, about a horizon, are one example then. `unit` is
    what the names of the figures end in.
    """
    errors = np.asarray(actual, np.float64) - mean
    errors_WV = errors.reshape(len(errors), -1)
    known_WV = ~np.isnan(errors_WV)
    sums = (-(errors_WV**2).sum(1, where=known_WV), -np.abs(errors_WV).sum(1, where=known_WV), known_WV.sum(1))
    statistics_WS = np.stack(sums, axis=1).astype(np.float64)
    statistics_NS = np.add.reduceat(statistics_WS, np.arange(0, len(errors), max(1, block)), axis=0)
    return ResampledMeans(statistics_NS, {f"mse{unit}": (0,), f"mae{unit}": (1,)})
