"""Digits that move and bounce: clips as a pure function of (rule, seed, number), of which nothing is stored.

A digit of h x h pixels in a frame of `size` has room L = size - h. Its place, y up, after t frames is

    z(t) = L - |(z(0) + v t) mod 2 L - L|        in x and in y

rounded to pixels: a straight line, reflected at the walls. It begins where its first step meets no wall, so that the
first two frames show its direction. Where digits overlap the brighter pixel is seen (Srivastava et al. 2015, who take
two digits in frames of 64, 20 frames, any angle, 3.6 pixels a frame). Shapes: B clips, D digits, T frames, H rows, W
columns, N digits of a pool, h rows and columns of a digit, 2 for x and y.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from thereafter.errors import OptionError, ShapeError
from thereafter.vision.clips.clip import Clips
from thereafter.vision.pictures.glyphs import SIDE, DigitPool, DigitRule, open_pool
from thereafter.vision.rules import Floats, Integers, Pixels, uniforms

_DRAWS = 5  # of a digit: which one, direction, speed, x, y


@dataclass(frozen=True)
class Paths:
    """Where digits are: which of the pool, where they begin to go (a number of `direction_names`), and their upper
    left corners in every frame."""

    digit_BD: Integers
    direction_BD: Integers
    column_BDT: Integers
    row_BDT: Integers


class MovingClips(Clips):
    """The clips of a rule. `columns` has digit and direction where one digit moves; clips of several have no labels.

    >>> clips = MovingClips(MovingRule(count=3))
    >>> clips.read_many([0, 2]).shape, list(clips.columns)
    ((2, 10, 64, 64), ['digit', 'direction'])
    """

    def __init__(self, rule: MovingRule, name: str = "moving digits", pool: DigitPool | None = None) -> None:
        self.rule = rule
        self.name = name
        self.pool = open_pool(rule.source, rule.begin, rule.end) if pool is None else pool
        self.columns = self._labels() if rule.digits == 1 else {}

    def __len__(self) -> int:
        return self.rule.count

    def shape(self, row: int) -> tuple[int, int, int]:
        return self.rule.frames, self.rule.size, self.rule.size

    def paths(self, rows: ArrayLike) -> Paths:
        """Where the digits of these clips are in every frame."""
        rule, room = self.rule, self.rule.size - self.pool.side
        rows_B = np.asarray(rows, np.int64)
        drawn_BDK = uniforms(rule.seed, rows_B, _DRAWS * rule.digits).reshape(len(rows_B), rule.digits, _DRAWS)
        digit_BD = (drawn_BDK[..., 0] * len(self.pool)).astype(np.int64)
        turn_BD = drawn_BDK[..., 1]
        direction_BD = (turn_BD * rule.directions).astype(np.int64)
        if rule.directions:
            turn_BD = direction_BD / rule.directions
        speed_BD = rule.slowest + (rule.fastest - rule.slowest) * drawn_BDK[..., 2]
        step_BD2 = speed_BD[..., None] * headings(turn_BD)
        low, high = np.maximum(0, -step_BD2), np.minimum(room, room - step_BD2)
        start_BD2 = low + drawn_BDK[..., 3:] * (high - low)
        column_BDT, row_BDT = corners(start_BD2, step_BD2, rule.frames, room)
        return Paths(digit_BD, direction_BD, column_BDT, row_BDT)

    def read_many(self, rows: ArrayLike) -> Pixels:
        """The frames of several clips at once, [B, T, H, W]."""
        paths = self.paths(rows)
        digits_BDhh = self.pool.take(paths.digit_BD.ravel()).reshape(*paths.digit_BD.shape, *(2 * [self.pool.side]))
        return paint(digits_BDhh, paths.column_BDT, paths.row_BDT, self.rule.size)

    def _labels(self) -> dict[str, Sequence[str]]:
        """The columns of all clips: only the first two random numbers of each are needed."""
        drawn_N2 = uniforms(self.rule.seed, np.arange(len(self)), 2)
        digit_N = self.pool.digits[(drawn_N2[:, 0] * len(self.pool)).astype(np.int64)]
        columns = {"digit": [str(digit) for digit in digit_N.tolist()]}
        if names := self.rule.direction_names:
            columns["direction"] = [names[at] for at in (drawn_N2[:, 1] * len(names)).astype(np.int64).tolist()]
        return dict(columns)


def headings(turns: ArrayLike) -> Floats:
    """Unit vectors (x, y) of angles in whole turns, counter-clockwise from the right, y up.

    >>> headings([0.25]).tolist()  # exactly up: no crumb of a sine is left
    [[0.0, 1.0]]
    """
    angle = 2 * np.pi * np.asarray(turns, np.float64)
    return np.round(np.stack([np.cos(angle), np.sin(angle)], -1), 12) + 0.0


def corners(start_2: Floats, step_2: Floats, frames: int, room: int) -> tuple[Integers, Integers]:
    """The column and the row of the upper left corner of digits in every frame, both [..., T].

    `start_2` and `step_2`, [..., 2], are where the lower left corner begins and how far it goes in a frame, x to the
    right and y up.
    """
    straight_T2 = start_2[..., None, :] + step_2[..., None, :] * np.arange(frames)[:, None]
    place_T2 = np.rint(room - np.abs(straight_T2 % (2 * room) - room)).astype(np.int64)
    return place_T2[..., 0], room - place_T2[..., 1]


def paint(digits_BDhh: Pixels, column_BDT: Integers, row_BDT: Integers, size: int) -> Pixels:
    """Frames of size x size with every digit at its place, [B, T, H, W]; where digits overlap, the brighter pixel."""
    clips, digits, frames = column_BDT.shape
    if min(column_BDT.min(), row_BDT.min()) < 0 or max(column_BDT.max(), row_BDT.max()) > size - digits_BDhh.shape[-1]:
        raise ShapeError(f"a digit of {digits_BDhh.shape[-1]} pixels leaves its frame of {size}; expected it inside")
    painted_BTHW = np.zeros((clips, frames, size, size), np.uint8)
    clip_B1, frame_1T = np.arange(clips)[:, None], np.arange(frames)[None]
    for at in range(digits):
        layer_BTHW = np.zeros_like(painted_BTHW) if at else painted_BTHW
        windows = sliding_window_view(layer_BTHW, digits_BDhh.shape[-2:], axis=(2, 3), writeable=True)
        windows[clip_B1, frame_1T, row_BDT[:, at], column_BDT[:, at]] = digits_BDhh[:, at, None]
        if at:
            np.maximum(painted_BTHW, layer_BTHW, out=painted_BTHW)
    return painted_BTHW


def move(digits_Dhh: Pixels, start_D2: ArrayLike, step_D2: ArrayLike, frames: int = 10, size: int = 64) -> Pixels:
    """One clip [T, H, W] of digits that begin and go as they are told; `corners` says how places are meant."""
    room = size - digits_Dhh.shape[-1]
    column_DT, row_DT = corners(np.asarray(start_D2, float), np.asarray(step_D2, float), frames, room)
    return np.asarray(paint(digits_Dhh[None], column_DT[None], row_DT[None], size)[0], np.uint8)


NAMES = ("E", "ENE", "NE", "NNE", "N", "NNW", "NW", "WNW", "W", "WSW", "SW", "SSW", "S", "SSE", "SE", "ESE")
"""The 16 directions, counter-clockwise from the right, y up."""
_MOST_PIXELS = 64_000_000


@dataclass(frozen=True)
class MovingRule(DigitRule):
    """`count` clips of `frames` pictures, size x size pixels, in which `digits` digits move and bounce.

    A digit begins in one of so many `directions` (4, 8 or 16; 0: any angle) at a speed from `slowest` to `fastest`
    pixels a frame. The digits are those from `begin` to before `end` of the `source` (end 0: to the last one).
    """

    format: ClassVar[str] = "moving digits"
    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {**DigitRule.bounds, "digits": (1, 8), "frames": (1, 1000)}
    digits: int = 1
    frames: int = 10
    size: int = 64
    directions: int = 16
    slowest: float = 2.0
    fastest: float = 5.0
    count: int = 1000
    seed: int = 0
    source: str = "glyphs"
    begin: int = 0
    end: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.directions not in (0, 4, 8, 16) or isinstance(self.directions, bool):
            raise OptionError(f"directions is {self.directions!r}; expected 4, 8, 16, or 0 for any angle")
        if self.end and self.end <= self.begin:
            raise OptionError(f"the digits from begin={self.begin} to end={self.end} are none; expected end > begin")
        for name in ("slowest", "fastest"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise OptionError(f"{name} is {value!r}; expected a number of pixels a frame")
        if not 0 < self.slowest <= self.fastest <= self.size - SIDE:
            raise OptionError(
                f"speeds are from slowest={self.slowest} to fastest={self.fastest}; expected 0 < slowest <= fastest <= "
                f"{self.size - SIDE} (size - {SIDE}), so that a digit can take its first step"
            )
        if self.frames * self.size**2 > _MOST_PIXELS:
            raise OptionError(
                f"a clip has {self.frames} x {self.size} x {self.size} pixels; expected at most {_MOST_PIXELS:,}; try "
                "fewer frames or a smaller size"
            )

    @property
    def direction_names(self) -> tuple[str, ...]:
        """The directions in which a digit may begin, counter-clockwise from the right; none where any angle may be."""
        return NAMES[:: len(NAMES) // self.directions] if self.directions else ()
