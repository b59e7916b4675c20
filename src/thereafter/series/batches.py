"""Windows of series as scaled tensors, in batches.

Shapes: B windows, L rows that are read, H rows that are forecast, D targets, C covariates of the past, K known ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.series.scales import SeriesScales
from thereafter.series.table import SeriesTable, Window, Windows
from thereafter.series.times import Floats, Integers
from thereafter.tasks.batching import TensorBatch

LEAST_MOVEMENT = 0.1  # of the series' own deviation: a window that hardly moves is not blown up


@dataclass(frozen=True)
class WindowBatch(TensorBatch):
    """Rows before and after the origin of each window, scaled. Missing values are 0, and False in `seen`.

    `inputs_BLC`: covariates of the rows that are read, the known ones first; `ahead_BHK`: the known ones of the rows to
    come. `future_BHD` is None where it is asked for. `windows` says where in their table they are.
    """

    past_BLD: Tensor
    seen_BLD: Tensor
    inputs_BLC: Tensor
    ahead_BHK: Tensor
    future_BHD: Tensor | None = None
    future_seen_BHD: Tensor | None = None
    windows: tuple[Window, ...] = ()

    @property
    def horizon(self) -> int:
        return self.ahead_BHK.shape[1]

    def answers(self) -> tuple[Tensor, Tensor]:
        """What came, and which of it was seen, [B, H, D] each."""
        if self.future_BHD is None or self.future_seen_BHD is None:
            raise ValueError("a batch without its future has nothing to learn from")
        return self.future_BHD, self.future_seen_BHD

    def over(self, places: Mapping[str, Tensor]) -> WindowBatch:
        """The same over other tensors; which windows they are is not known any more."""
        return replace(self, **places, windows=())

    def rows(self, index_R: Tensor) -> WindowBatch:
        """Some of the windows, in this order."""
        return replace(self.each(lambda tensor: tensor[index_R]), windows=())

    def ahead(self, steps: int) -> WindowBatch:
        """The same windows with a shorter future."""
        if steps == self.horizon:
            return self
        ahead = {name: vars(self)[name] for name in ("ahead_BHK", "future_BHD", "future_seen_BHD")}
        cut = {name: tensor[:, :steps] for name, tensor in ahead.items() if tensor is not None}
        return replace(self, **cut, windows=())

    def came(self, begin: int = 0, end: int | None = None) -> Tensor:
        """The covariates of rows that came, [B, H, C]: those that were known ahead; past ones are at their mean."""
        return F.pad(self.ahead_BHK[:, begin:end], (0, self.inputs_BLC.shape[2] - self.ahead_BHK.shape[2]))

    def slid(self, values_BHD: Tensor) -> WindowBatch:
        """The windows moved on, with `values_BHD` taken for the rows that came."""
        steps = values_BHD.shape[1]
        return WindowBatch(
            torch.cat((self.past_BLD, values_BHD), 1)[:, steps:],
            torch.cat((self.seen_BLD, torch.ones_like(values_BHD, dtype=torch.bool)), 1)[:, steps:],
            torch.cat((self.inputs_BLC, self.came(end=steps)), 1)[:, steps:],
            self.ahead_BHK[:, steps:],
        )

    def unrolled(self) -> WindowBatch:
        """Every row of the future as the next row of a window of its own, [B H] windows: what one step is learned from.

        Window b, step h reads the rows that came before that step, the true ones.
        """
        future_BHD, future_seen_BHD = self.answers()
        length = self.past_BLD.shape[1]

        def windows(before: Tensor, after: Tensor) -> Tensor:
            joined = torch.cat((before, after), 1)[:, :-1]
            return joined.unfold(1, length, 1).transpose(2, 3).flatten(0, 1)

        return WindowBatch(
            windows(self.past_BLD, future_BHD),
            windows(self.seen_BLD, future_seen_BHD),
            windows(self.inputs_BLC, self.came()),
            self.ahead_BHK.flatten(0, 1)[:, None],
            future_BHD.flatten(0, 1)[:, None],
            future_seen_BHD.flatten(0, 1)[:, None],
        )

    def last(self) -> Tensor:
        """The last value of each window that is not missing, [B, D]; 0 where all are."""
        steps_L = torch.arange(1, self.past_BLD.shape[1] + 1, device=self.past_BLD.device)
        at_BD = (self.seen_BLD * steps_L[:, None]).argmax(1)
        return self.past_BLD.gather(1, at_BD[:, None])[:, 0]

    def spread(self) -> Tensor:
        """The standard deviation of each window, [B, D], and a tenth of the series' own."""
        seen_BLD = self.seen_BLD.to(self.past_BLD.dtype)
        count_BD = seen_BLD.sum(1).clamp_min(1.0)
        mean_BD = self.past_BLD.sum(1) / count_BD  # missing values are 0
        off_BLD = (self.past_BLD - mean_BD[:, None]) * seen_BLD
        return (off_BLD.square().sum(1) / count_BD).sqrt() + LEAST_MOVEMENT

    def level(self, norm: str) -> tuple[Tensor, Tensor]:
        """What a forecast is relative to, z = (y - offset) / scale, [B, D] each.

        "none": 0 and 1. "last": the last value, and 1. "standard": the last value and the window's spread, so that a
        series whose level moves looks the same everywhere (Kim et al. 2022, reversible instance normalisation). "mean":
        0, and the window's mean and one more: for counts (Salinas et al. 2020, DeepAR).
        """
        zero_BD, one_BD = torch.zeros_like(self.past_BLD[:, 0]), torch.ones_like(self.past_BLD[:, 0])
        if norm == "none":
            return zero_BD, one_BD
        if norm == "mean":
            return zero_BD, 1.0 + self.past_BLD.sum(1).abs() / self.seen_BLD.sum(1).clamp_min(1)
        return self.last(), self.spread() if norm == "standard" else one_BD


def join_batches(batches: Sequence[WindowBatch]) -> WindowBatch:
    """Windows of several tables as one batch; the future is None where that of one is."""
    if any(batch.future_BHD is None for batch in batches):
        batches = [replace(batch, future_BHD=None, future_seen_BHD=None) for batch in batches]
    joined = {name: torch.cat([vars(batch)[name] for batch in batches]) for name in batches[0].tensors()}
    return replace(batches[0], **joined, windows=tuple(window for batch in batches for window in batch.windows))


_BATCH = 512  # windows that are laid out together where nothing is trained


def batches_of(windows: Windows, scales: SeriesScales, device: torch.device) -> Iterator[WindowBatch]:
    """All windows in batches, in order."""
    for begin in range(0, len(windows), _BATCH):
        yield make_batch(list(windows[begin : begin + _BATCH]), scales).to(device)


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
    rows_NX: Floats,
    at_BT: Integers,
    inside_BT: NDArray[np.bool_],
    mean_BX: Floats,
    deviation_BX: Floats,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Rows at these places, scaled, and which of them are there; those that are not are 0."""
    if not rows_NX.shape[1]:
        return np.zeros((*at_BT.shape, 0), np.float32), np.zeros((*at_BT.shape, 0), np.bool_)
    values_BTX = rows_NX[at_BT.clip(0, len(rows_NX) - 1)]
    seen_BTX = ~np.isnan(values_BTX) & inside_BT[..., None]
    scaled_BTX = (values_BTX - mean_BX[:, None]) / deviation_BX[:, None]
    return np.where(seen_BTX, scaled_BTX, 0.0).astype(np.float32), seen_BTX
