"""Answers about clips: their labels with what the network believed after each frame, and the frames that come next.

Shapes: N clips, T frames, K frames ahead, L labels of a column, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import OptionError
from thereafter.storage import replacing
from thereafter.tabular import Row

Chances = Mapping[str, Mapping[str, float]]
"""The probability of every label, by column."""
_LIT = 0.5 / 255  # fainter pixels are black


@dataclass(frozen=True)
class ClipLabels:
    """The label of a clip in each column, and the probability of every label."""

    labels: dict[str, str]
    probabilities: Chances

    def __str__(self) -> str:
        parts = [f"{name} {label} ({_percent(self.probabilities[name][label])})" for name, label in self.labels.items()]
        return ", ".join(parts)


@dataclass(frozen=True)
class ClipPrediction:
    """A clip by its name, with its labels."""

    clip: str
    answer: ClipLabels

    def rows(self) -> list[Row]:
        row: Row = {"clip": self.clip}
        for name, label in self.answer.labels.items():
            row |= {name: label, f"p_{name}": self.answer.probabilities[name][label]}
        return [row]

    def __str__(self) -> str:
        return str(self.answer)


@dataclass(frozen=True, eq=False)
class ClipExplained:
    """The labels of a clip, and what was believed of each column after every frame.

    `beliefs` has an array [T, L] for each column: p(label | the frames so far), the labels in the order of `names`.
    """

    answer: ClipLabels
    names: Mapping[str, tuple[str, ...]]
    beliefs: Mapping[str, NDArray[np.float32]]
    frames_THW: NDArray[np.uint8] = field(repr=False)

    def best(self, column: str, frame: int) -> tuple[str, float]:
        """The likeliest label of a column after a frame, counted from 0, and its probability."""
        at = int(self.beliefs[column][frame].argmax())
        return self.names[column][at], float(self.beliefs[column][frame, at])

    def as_dict(self) -> Table:
        """Plain JSON values."""
        frames = [
            {
                name: dict(zip(self.names[name], belief_TL[frame].tolist(), strict=True))
                for name, belief_TL in self.beliefs.items()
            }
            for frame in range(len(self.frames_THW))
        ]
        return {"labels": self.answer.labels, "probabilities": self.answer.probabilities, "frames": frames}

    def __str__(self) -> str:
        lines = [str(self.answer)]
        for frame in range(len(self.frames_THW)):
            best = {name: self.best(name, frame) for name in self.beliefs}
            wide = {name: max(map(len, labels)) for name, labels in self.names.items()}
            parts = [f"{name} {label:<{wide[name]}} {_percent(p):>7}" for name, (label, p) in best.items()]
            lines.append(f"  frame {frame + 1:>3}  {'  '.join(parts)}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class NextFrames:
    """The frames that come next: the chance of each pixel to be lit, [K, H, W]."""

    frames_KHW: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.frames_KHW)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NextFrames) and np.array_equal(self.frames_KHW, other.frames_KHW)

    @property
    def pixels_KHW(self) -> NDArray[np.uint8]:
        """The frames as pictures, 0 to 255."""
        return np.rint(255 * self.frames_KHW).astype(np.uint8)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the frames as a clip (`.npz`), which every task over clips reads."""
        place = Path(path)
        if place.suffix.lower() != ".npz":
            raise OptionError(f"{place.name!r} ends in {place.suffix!r}; expected .npz; try {place.stem}.npz")
        with replacing(place) as beside, open(beside, "wb") as file:
            np.savez_compressed(file, frames=self.pixels_KHW[None])
        return place

    def rows(self) -> list[Row]:
        """A row a frame: how much of it is lit, and where the middle of the light is, from the upper left corner."""
        rows: list[Row] = []
        for step, frame_HW in enumerate(self.frames_KHW, start=1):
            lit_HW = np.where(frame_HW < _LIT, 0, frame_HW).astype(np.float64)
            lit = float(lit_HW.sum())
            middle = [float((lit_HW.sum(1 - axis) * np.arange(size)).sum()) for axis, size in enumerate(lit_HW.shape)]
            place: Row = {"row": middle[0] / lit if lit else None, "column": middle[1] / lit if lit else None}
            rows.append({"step": step, "lit": lit, **place})
        return rows

    def __str__(self) -> str:
        steps, height, width = self.frames_KHW.shape
        lit = self.frames_KHW.sum((1, 2))
        size = f"{steps:,} frame{'s' * (steps != 1)} of {height} x {width} pixels"
        return f"{size}; lit in the first {lit[0]:.0f}, in the last {lit[-1]:.0f}"


@dataclass(frozen=True)
class FramesPrediction:
    """A clip by its name, with the frames that come next."""

    clip: str
    answer: NextFrames

    def rows(self) -> list[Row]:
        return [{"clip": self.clip} | row for row in self.answer.rows()]

    def __str__(self) -> str:
        return str(self.answer)


@dataclass(frozen=True)
class JudgedFrames:
    """How well the frames of a clip were predicted that are known: nats, squared error and least nats of each."""

    nats_K: tuple[float, ...]
    errors_K: tuple[float, ...]
    least_K: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class FramesExplained:
    """The last frames of a clip as they were predicted from those before them, beside what came."""

    read_THW: NDArray[np.uint8]
    came_KHW: NDArray[np.uint8]
    predicted: NextFrames
    judged: JudgedFrames

    def as_dict(self) -> Table:
        """Plain JSON values: the figures of each step."""
        steps = zip(self.judged.nats_K, self.judged.errors_K, self.judged.least_K, strict=True)
        rows = zip(self.predicted.rows(), steps, strict=True)
        return {
            "read": len(self.read_THW),
            "steps": [
                row | {"nats": nats, "squared_error": error, "least": least} for row, (nats, error, least) in rows
            ],
        }

    def __str__(self) -> str:
        ahead = len(self.came_KHW)
        lines = [f"{ahead:,} frame{'s' * (ahead != 1)} predicted from the {len(self.read_THW):,} before them"]
        for step, (nats, error) in enumerate(zip(self.judged.nats_K, self.judged.errors_K, strict=True), start=1):
            lines.append(f"  frame {len(self.read_THW) + step:>3}  {nats:8.1f} nats  squared error {error:7.1f}")
        return "\n".join(lines)


def figures_of(answers: Sequence[object]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Nats, squared errors and least nats of judged clips, [N, K] each."""
    judged = [one for one in answers if isinstance(one, JudgedFrames)]
    nats_NK, errors_NK, least_NK = (
        np.array(list(rows), np.float64)
        for rows in zip(*((one.nats_K, one.errors_K, one.least_K) for one in judged), strict=True)
    )
    return nats_NK, errors_NK, least_NK


def _percent(p: float) -> str:
    return f"{p:.1%}".replace("%", " %")
