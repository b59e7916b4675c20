"""The windows of `forecasting_peers.py`: ETTh1's OT, its parts and origins, the errors, and least squares."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TRAIN, VALID, TEST = 8640, 2880, 2880
LOOKBACK = 336


def read_series(file: Path) -> Floats:
    """OT of the first 20 months, standardised by the first 12."""
    with file.open(newline="") as lines:
        values = np.array([float(row["OT"]) for row in csv.DictReader(lines)])[: TRAIN + VALID + TEST]
    return (values - values[:TRAIN].mean()) / values[:TRAIN].std()


def origins(part: str, horizon: int, stride: int) -> NDArray[np.int64]:
    """The first row to be forecast, of each window that lies in the part."""
    begin, rows = (TRAIN, VALID) if part == "valid" else (TRAIN + VALID, TEST)
    return np.arange(begin, begin + rows - horizon + 1, stride)


def futures(series: Floats, origins_W: NDArray[np.int64], horizon: int) -> Floats:
    """What is to be forecast, [windows, horizon]."""
    return series[origins_W[:, None] + np.arange(horizon)]


def errors(actual_WH: Floats, forecast_WH: Floats) -> tuple[float, float]:
    """MSE and MAE over all windows and steps."""
    if forecast_WH.shape != actual_WH.shape or not np.isfinite(forecast_WH).all():
        raise ValueError(f"forecasts of shape {forecast_WH.shape}; expected finite ones of shape {actual_WH.shape}")
    difference = forecast_WH - actual_WH
    return float((difference**2).mean()), float(np.abs(difference).mean())


def least_squares(series: Floats, horizon: int) -> Floats:
    """Weights [336 + 1, horizon] from the train part: values less the last one, and a constant, to targets less it."""
    first = np.arange(LOOKBACK, TRAIN - horizon + 1)
    return np.linalg.lstsq(lags(series, first), futures(series, first, horizon) - series[first - 1, None], rcond=None)[
        0
    ]


def lags(series: Floats, origins_W: NDArray[np.int64]) -> Floats:
    """The inputs of least squares [windows, 336]: the values before the last one less it, and a constant."""
    past = series[origins_W[:, None] + np.arange(-LOOKBACK, 0)]
    return np.concatenate([past[:, :-1] - past[:, -1:], np.ones((len(past), 1))], axis=1)
