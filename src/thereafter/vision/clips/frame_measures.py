"""How well the next frames of a clip are predicted, frame by frame and pixel by pixel.

A frame has pixels x of intensity 0 to 1 and a prediction p for each, the chance that it is lit. With intensities as
targets, as Srivastava, Mansimov and Salakhutdinov (2015) and Shi et al. (2015) measure it, in nats a frame,

    nats = - sum over pixels of x log p + (1 - x) log (1 - p)        error = sum over pixels of (x - p)^2

`nats` of a frame with grey pixels is never 0: the least it can be is the entropy of its intensities (`least_nats`).
What copies the last frame that was read, smoothed so that no pixel is certain, is what a network has to beat:

    p = e_k + (1 - 2 e_k) x_last        e_k: the best smoothing of step k on the training clips

`nats` is convex in e_k, so the best one is found by cutting an interval in golden sections.
Shapes: N clips, K steps ahead, H height, W width, V = 256 intensities of a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError, ShapeError
from thereafter.evaluation.bootstrap import Z_95

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]
LEVELS = 256
"""Intensities of a pixel."""
_CERTAIN = 1e-7  # a prediction is never surer of a pixel than this
_GOLDEN = (math.sqrt(5) - 1) / 2
_CUTS = 60  # the interval is 1e-13 wide then


def frame_nats(frames: Pixels, p: NDArray[np.floating]) -> Floats:
    """Nats of each frame, [...], of pixels 0 to 255 [..., H, W] under predictions of the same shape."""
    if frames.shape != p.shape:
        raise ShapeError(f"the frames are {frames.shape} and the predictions {p.shape}; expected the same shape")
    x, sure = frames / 255.0, np.clip(np.asarray(p, np.float64), _CERTAIN, 1 - _CERTAIN)
    nats: Floats = -(x * np.log(sure) + (1 - x) * np.log1p(-sure)).sum((-2, -1))
    return nats


def frame_errors(frames: Pixels, p: NDArray[np.floating]) -> Floats:
    """The squared error of each frame, summed over its pixels, [...]."""
    errors: Floats = np.square(frames / 255.0 - np.asarray(p, np.float64)).sum((-2, -1))
    return errors


def least_nats(frames: Pixels) -> Floats:
    """The entropy of the intensities of each frame, [...]: what p = x would cost."""
    x = np.arange(LEVELS) / 255.0
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy_V = -(np.nan_to_num(x * np.log(x)) + np.nan_to_num((1 - x) * np.log1p(-x)))
    nats: Floats = entropy_V[frames].sum((-2, -1))
    return nats


class CopyCounts:
    """What the best smoothing depends on: for each step and each intensity of the last frame, how many pixels had it
    (`count_KV`), and the sum of what came in their places (`sum_KV`). Clips are added batch by batch."""

    def __init__(self, ahead: int) -> None:
        self.count_KV, self.sum_KV = np.zeros((ahead, LEVELS)), np.zeros((ahead, LEVELS))

    def add(self, last_NHW: Pixels, future_NKHW: Pixels) -> None:
        """Count clips: the last frame that is read, and those that came."""
        if future_NKHW.shape[1] != len(self.count_KV):
            raise ShapeError(f"got {future_NKHW.shape[1]} frames ahead; expected {len(self.count_KV)}")
        places = last_NHW.astype(np.intp).ravel()
        counts_V = np.bincount(places, minlength=LEVELS)
        for step in range(len(self.count_KV)):
            came = future_NKHW[:, step].ravel() / 255.0
            self.count_KV[step] += counts_V
            self.sum_KV[step] += np.bincount(places, came, minlength=LEVELS)

    def smoothing(self) -> Floats:
        """The best smoothing of each step, [K]."""
        if not self.count_KV.any():
            raise EmptyCorpusError("no clips were counted; expected at least one")
        return np.array([_least(count_V, sum_V) for count_V, sum_V in zip(self.count_KV, self.sum_KV, strict=True)])


def _least(count_V: Floats, sum_V: Floats) -> float:
    x_V = np.arange(LEVELS) / 255.0

    def nats(smoothing: float) -> float:
        p_V = np.clip(smoothing + (1 - 2 * smoothing) * x_V, _CERTAIN, 1 - _CERTAIN)
        return float(-(sum_V * np.log(p_V) + (count_V - sum_V) * np.log1p(-p_V)).sum())

    low, high = _CERTAIN, 0.5
    for _ in range(_CUTS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if nats(left) < nats(right) else (left, high)
    return (low + high) / 2


def copied(last_NHW: Pixels, smoothing_K: Floats) -> Floats:
    """The predictions of copying, [N, K, H, W]."""
    x_N1HW = last_NHW[:, None] / 255.0
    smoothing_K11 = np.asarray(smoothing_K, np.float64)[:, None, None]
    p: Floats = smoothing_K11 + (1 - 2 * smoothing_K11) * x_N1HW
    return p


@dataclass(frozen=True)
class StepFigures:
    """The figures of one step ahead, a frame."""

    step: int
    nats: float
    squared_error: float


@dataclass(frozen=True)
class FrameScore(Tabular):
    """The next `ahead` frames of `clips` clips: `nats` and `squared_error` a frame, summed over its pixels.

    `error` is the standard error of `nats` over clips, 0 of one. `least`: nats of the frames under themselves, which
    nothing can be below. `steps` are the figures by step.
    """

    clips: int
    ahead: int
    nats: float
    error: float
    squared_error: float
    least: float
    steps: tuple[StepFigures, ...] = field(default=(), repr=False)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of `nats`, clips being drawn anew; one clip has none."""
        if self.clips < 2:
            return None
        return self.nats - Z_95 * self.error, self.nats + Z_95 * self.error

    def as_dict(self) -> Table:
        """All figures, for JSON; `steps` are those by step."""
        figures: Table = {"nats": self.nats, "squared_error": self.squared_error, "least": self.least}
        figures |= {"clips": self.clips, "ahead": self.ahead}
        if self.interval is not None:
            figures["interval"] = list(self.interval)
        return figures | {"steps": self.to_rows()}

    def to_rows(self) -> list[Row]:
        """A row a step."""
        return [dict(vars(step)) for step in self.steps]

    def line(self) -> str:
        """The figures that models are compared by, in one line."""
        between = "" if self.interval is None else " ({:.1f} to {:.1f})".format(*self.interval)
        return f"{self.nats:.1f} nats a frame{between}, squared error {self.squared_error:.1f}"

    def __str__(self) -> str:
        first = f"{self.line()}; {self.clips:,} clip{'s' * (self.clips != 1)}, "
        first += f"{self.ahead} frame{'s' * (self.ahead != 1)} ahead"
        places = sorted({0, (self.ahead - 1) // 2, self.ahead - 1}) if self.steps else []
        by_step = ", ".join(f"{self.steps[at].nats:.1f} at step {at + 1}" for at in places)
        return f"{first}\n{by_step}; the frames themselves have {self.least:.1f}" if len(places) > 1 else first


def score_frames(nats_NK: Floats, errors_NK: Floats, least_NK: Floats) -> FrameScore:
    """The score of predictions whose figures are given frame by frame."""
    if not len(nats_NK):
        raise EmptyCorpusError("there are no clips to score; expected at least one")
    of_clips_N = nats_NK.mean(1)
    error = float(of_clips_N.std(ddof=1) / math.sqrt(len(of_clips_N))) if len(of_clips_N) > 1 else 0.0
    by_step: Sequence[tuple[float, float]] = list(
        zip(nats_NK.mean(0).tolist(), errors_NK.mean(0).tolist(), strict=True)
    )
    return FrameScore(
        clips=len(nats_NK),
        ahead=nats_NK.shape[1],
        nats=float(nats_NK.mean()),
        error=error,
        squared_error=float(errors_NK.mean()),
        least=float(least_NK.mean()),
        steps=tuple(StepFigures(step, nats, squared) for step, (nats, squared) in enumerate(by_step, start=1)),
    )


@dataclass(frozen=True, eq=False)
class ResampledFrames:
    """Nats and squared error a frame, both negative, since more is better; statistics of a clip are their sums and its
    frames. See `resampled.Resampled`."""

    statistics_NS: Floats

    @classmethod
    def of(cls, nats_NK: Floats, errors_NK: Floats) -> ResampledFrames:
        """From the figures frame by frame."""
        frames_N = np.full(len(nats_NK), float(nats_NK.shape[1]))
        return cls(np.stack([nats_NK.sum(1), errors_NK.sum(1), frames_N], axis=1))

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        nats_R, errors_R, frames_R = sums_RS.T
        return {"nats": -nats_R / frames_R, "squared_error": -errors_R / frames_R}
