"""Windows of a table as tensors, scaled.

Shapes: B windows, L rows that are read, H rows to forecast, D targets, C covariates, K of them known ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.models.forecasting.batch import WindowBatch, join_batches
from thereafter.series.scales import SeriesScales
from thereafter.series.table import SeriesTable
from thereafter.series.windows import Window


def make_batch(windows: Sequence[Window], scales: SeriesScales, horizon: int | None = None) -> WindowBatch:
    """Windows as tensors; `horizon` is that of the run where none is given."""
    table = windows[0].table
    if any(window.table is not table for window in windows):
        return join_batches([make_batch([window], scales, horizon) for window in windows])
    if table.known_NK.shape[1] != scales.known or table.past_NP.shape[1] != scales.covariates - scales.known:
        raise OptionError(
            f"{table.source} has {table.known_NK.shape[1]} covariates known ahead, a row every {table.frequency}; the "
            f"run was trained on {scales.known}, a row every {scales.frequency}; try a table like that"
        )
    series_B = np.array([window.series for window in windows])
    origin_B = table.bounds_S1[series_B] + np.array([window.origin for window in windows])
    lookback, steps = scales.frame.lookback, horizon or scales.frame.horizon
    begin_B, end_B = table.bounds_S1[series_B], table.bounds_S1[series_B + 1]
    past_BL = origin_B[:, None] + np.arange(-lookback, 0)
    ahead_BH = origin_B[:, None] + np.arange(steps)
    aligned = scales.of_table(table)[series_B]
    mean_BX, deviation_BX = aligned[:, 0], aligned[:, 1]
    inside_BL, inside_BH = past_BL >= begin_B[:, None], ahead_BH < end_B[:, None]
    targets, known = scales.targets, scales.known
    past, seen = _take(table.values_ND, past_BL, inside_BL, mean_BX[:, :targets], deviation_BX[:, :targets])
    future, future_seen = _take(table.values_ND, ahead_BH, inside_BH, mean_BX[:, :targets], deviation_BX[:, :targets])
    middle, end = targets + known, targets + scales.covariates
    inputs_known, _ = _take(
        table.known_NK, past_BL, inside_BL, mean_BX[:, targets:middle], deviation_BX[:, targets:middle]
    )
    inputs_past, _ = _take(table.past_NP, past_BL, inside_BL, mean_BX[:, middle:end], deviation_BX[:, middle:end])
    ahead, _ = _take(table.known_NK, ahead_BH, inside_BH, mean_BX[:, targets:middle], deviation_BX[:, targets:middle])
    inputs = np.concatenate((inputs_known, inputs_past), 2)
    tensors = [torch.from_numpy(array) for array in (past, seen, inputs, ahead, future, future_seen)]
    return WindowBatch(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5], tuple(windows))


def check_known(table: SeriesTable, series: int, origin: int, horizon: int) -> None:
    """OptionError where the covariates that are known ahead do not reach as far as the forecast."""
    if not table.known:
        return
    rows = table.known_NK[table.bounds_S1[series] + origin : table.bounds_S1[series + 1]][:horizon]
    names: tuple[str, ...] = table.known
    if np.isnan(table.values(series)[origin:]).all():  # a gap amid rows that came is masked
        missing = np.isnan(rows)
        names = tuple(name for at, name in enumerate(names) if missing[:, at].any()) or names
        rows = rows[: int(missing.any(1).argmax())] if missing.any() else rows
    if len(rows) < horizon:
        raise OptionError(
            f"the forecast needs {', '.join(names)} for each of {horizon:,} steps; got {len(rows):,} rows with it "
            "after the last value; try rows with their times and these columns, and an empty target"
        )


def _take(
    rows_NX: NDArray[np.float64],
    at_BT: NDArray[np.int64],
    inside_BT: NDArray[np.bool_],
    mean_BX: NDArray[np.float64],
    deviation_BX: NDArray[np.float64],
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Rows at these places, scaled, and which of them are there; those that are not are 0."""
    if not rows_NX.shape[1]:
        return np.zeros((*at_BT.shape, 0), np.float32), np.zeros((*at_BT.shape, 0), np.bool_)
    values_BTX = rows_NX[at_BT.clip(0, len(rows_NX) - 1)]
    seen_BTX = ~np.isnan(values_BTX) & inside_BT[..., None]
    scaled_BTX = (values_BTX - mean_BX[:, None]) / deviation_BX[:, None]
    return np.where(seen_BTX, scaled_BTX, 0.0).astype(np.float32), seen_BTX
