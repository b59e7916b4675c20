"""Windows of series as tensors.

Shapes: B windows, L rows that are read, H rows that are forecast, D targets, C covariates of the past, K known ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from thereafter.series.windows import Window
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
        future, seen = self.future_BHD, self.future_seen_BHD
        return replace(
            self,
            ahead_BHK=self.ahead_BHK[:, :steps],
            future_BHD=None if future is None else future[:, :steps],
            future_seen_BHD=None if seen is None else seen[:, :steps],
            windows=(),
        )

    def slid(self, values_BHD: Tensor) -> WindowBatch:
        """The windows moved on, with `values_BHD` taken for the rows that came; past covariates are at their mean."""
        steps, known = values_BHD.shape[1], self.ahead_BHK.shape[2]
        came_BHC = values_BHD.new_zeros(len(self), steps, self.inputs_BLC.shape[2])
        came_BHC[..., :known] = self.ahead_BHK[:, :steps]
        return WindowBatch(
            torch.cat((self.past_BLD, values_BHD), 1)[:, steps:],
            torch.cat((self.seen_BLD, torch.ones_like(values_BHD, dtype=torch.bool)), 1)[:, steps:],
            torch.cat((self.inputs_BLC, came_BHC), 1)[:, steps:],
            self.ahead_BHK[:, steps:],
        )

    def unrolled(self) -> WindowBatch:
        """Every row of the future as the next row of a window of its own, [B H] windows: what one step is learned from.

        Window b, step h reads the rows that came before that step, the true ones.
        """
        future_BHD, future_seen_BHD = self.answers()
        steps, length, known = self.horizon, self.past_BLD.shape[1], self.ahead_BHK.shape[2]
        came_BHC = self.past_BLD.new_zeros(len(self), steps, self.inputs_BLC.shape[2])
        came_BHC[..., :known] = self.ahead_BHK

        def windows(before: Tensor, after: Tensor) -> Tensor:
            joined = torch.cat((before, after), 1)[:, :-1]
            return joined.unfold(1, length, 1).transpose(2, 3).flatten(0, 1)

        return WindowBatch(
            windows(self.past_BLD, future_BHD),
            windows(self.seen_BLD, future_seen_BHD),
            windows(self.inputs_BLC, came_BHC),
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
