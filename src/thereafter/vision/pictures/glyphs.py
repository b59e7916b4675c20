"""Digits drawn by rule: strokes with a slant, width, size and shaking hand of their own, 28 x 28 as MNIST's.

A digit is a pure function of some random numbers, so that nothing needs to be stored. Each is written in one or more
ways: strokes through a few points, as line segments whose ends are linear in the points (splines of Catmull and Rom
1974), so that points may be moved and all digits of a batch drawn by one product. Shapes: N digits, V ways, P points,
S segments, K random numbers, 2 for x and y.

>>> glyph(7, np.random.default_rng(1)).shape
(28, 28)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import OptionError
from thereafter.vision.pictures.draws import uniforms

SIDE = 28
"""Pixels from edge to edge."""
SEED = 20_261_117
_TRAITS = 8  # way, slant, turn, height, breadth, width of the pen, shift to the right, shift down
_SHAKE = 0.05
_AT_ONCE = 64


def glyph(digit: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One digit, 0 (paper) to 255 (ink), anti-aliased."""
    return np.asarray(draw(np.array([digit]), rng.random((1, draws_a_glyph())))[0], np.uint8)


def numbered_glyphs(numbers: ArrayLike) -> NDArray[np.uint8]:
    """The digits of these numbers, [N, 28, 28]: number n is always the same digit n % 10.

    >>> bool((numbered_glyphs([3, 1])[0] == numbered_glyphs([3])[0]).all())
    True
    """
    numbers_N = np.asarray(numbers, np.int64)
    return draw(numbers_N % 10, uniforms(SEED, numbers_N, draws_a_glyph()))


def draws_a_glyph() -> int:
    """The random numbers that one digit takes."""
    return _TRAITS + 2 * int(written().points_VP2.shape[1])


def draw(digits_N: NDArray[np.int64], uniforms_NK: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The pictures of digits, [N, 28, 28], by random numbers in [0, 1)."""
    if not ((digits_N >= 0) & (digits_N <= 9)).all():
        raise OptionError(f"digits are 0 to 9, got {digits_N.min()} to {digits_N.max()}")
    pictures_NHW = np.empty((len(digits_N), SIDE, SIDE), np.uint8)
    for at in range(0, len(digits_N), _AT_ONCE):  # so many that the distances stay in the cache of a processor
        here = slice(at, at + _AT_ONCE)
        begin_NS2, end_NS2 = _segments(digits_N[here], uniforms_NK[here])
        pen_N = 1.7 + 2.1 * uniforms_NK[here, 5]
        pictures_NHW[here] = _inked(begin_NS2, end_NS2, pen_N)
    return pictures_NHW


def _segments(
    digits_N: NDArray[np.int64], uniforms_NK: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the segments of each digit begin and end, in pixels."""
    ways = written()
    way_N = ways.first[digits_N] + (uniforms_NK[:, 0] * ways.count[digits_N]).astype(np.int64)
    shaken = uniforms_NK[:, _TRAITS:].reshape(len(way_N), -1, 2) - 0.5
    points_NP2 = ways.points_VP2[way_N] + 2 * _SHAKE * shaken
    ends_N2S2 = np.stack([ways.begin_VSP[way_N] @ points_NP2, ways.end_VSP[way_N] @ points_NP2], 1)
    _, slant_N, turn_N, height_N, breadth_N, _, right_N, down_N = uniforms_NK[:, :_TRAITS].T
    x = (0.62 + 0.38 * breadth_N)[:, None, None] * ends_N2S2[..., 0]
    y = ends_N2S2[..., 1] - 0.5
    x = x - (0.5 * slant_N - 0.1)[:, None, None] * y
    angle = (0.24 * (turn_N - 0.5))[:, None, None]
    x, y = x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
    tall_N, wide_N = (np.ptp(part, axis=(1, 2)) for part in (y, x))
    scale_N = (16 + 3 * height_N) / np.maximum(tall_N, wide_N)
    middle = (SIDE - 1) / 2
    for part, shift_N in ((x, right_N), (y, down_N)):
        part -= ((part.max((1, 2)) + part.min((1, 2))) / 2)[:, None, None]
        part *= scale_N[:, None, None]
        part += (middle + 2 * (shift_N - 0.5))[:, None, None]
    ends = np.stack([x, y], -1)
    return ends[:, 0], ends[:, 1]


def _inked(
    begin_NS2: NDArray[np.float64], end_NS2: NDArray[np.float64], pen_N: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Ink where a pixel is nearer to a segment than half the pen: 255 min(1, max(0, pen / 2 + 1 / 2 - distance)).

    With a the pixel and b the end of a segment, both from its begin, the nearest place is
    s b, s = clip(a.b / b.b, 0, 1).
    """
    pixel_Z = np.arange(SIDE, dtype=np.float32)
    begin, along = begin_NS2.astype(np.float32), (end_NS2 - begin_NS2).astype(np.float32)
    x_NS1W = pixel_Z - begin[:, :, 0, None, None]
    y_NSH1 = pixel_Z[:, None] - begin[:, :, 1, None, None]
    b_x, b_y = along[:, :, 0, None, None], along[:, :, 1, None, None]
    length = np.maximum(b_x**2 + b_y**2, np.float32(1e-6))
    share = x_NS1W * (b_x / length) + y_NSH1 * (b_y / length)  # a.b / b.b
    nearest = np.minimum(np.maximum(share, np.float32(0)), np.float32(1))
    share *= np.float32(-2)
    share += nearest
    share *= nearest
    share *= length
    share += x_NS1W**2  # |a - s b|^2 = a.a + b.b s (s - 2 a.b / b.b)
    share += y_NSH1**2
    distance_NHW = np.sqrt(np.maximum(share.min(1), np.float32(0)))
    ink = np.clip(pen_N.astype(np.float32)[:, None, None] / 2 + np.float32(0.5) - distance_NHW, 0, 1)
    return np.asarray(np.rint(255 * ink), np.uint8)


Point = tuple[float, float]
Stroke = tuple[Point, ...]
"""Points that a curve passes through, x to the right and y down, in a box of height 1."""

_OVAL = ((0.55, 0.0), (0.2, 0.14), (0.08, 0.55), (0.26, 0.93), (0.58, 0.98), (0.86, 0.62), (0.8, 0.2), (0.55, 0.0))
_EIGHT = (
    (0.78, 0.14),
    (0.5, 0.0),
    (0.22, 0.15),
    (0.33, 0.38),
    (0.64, 0.56),
    (0.84, 0.8),
    (0.48, 1.0),
    (0.14, 0.8),
    (0.34, 0.55),
    (0.68, 0.36),
    (0.78, 0.14),
)
_HEAD = ((0.8, 0.2), (0.5, 0.0), (0.16, 0.22), (0.32, 0.48), (0.64, 0.44), (0.8, 0.2))
_BELLY = ((0.2, 0.44), (0.52, 0.38), (0.84, 0.62), (0.72, 0.9), (0.42, 1.0), (0.1, 0.88))
_SIX = (
    (0.68, 0.0),
    (0.36, 0.24),
    (0.15, 0.64),
    (0.28, 0.95),
    (0.62, 0.97),
    (0.82, 0.74),
    (0.62, 0.52),
    (0.34, 0.56),
    (0.17, 0.74),
)

WAYS: dict[int, tuple[tuple[Stroke, ...], ...]] = {
    0: ((_OVAL,),),
    1: (
        (((0.5, 0.0), (0.5, 1.0)),),
        (((0.26, 0.24), (0.52, 0.0)), ((0.52, 0.0), (0.5, 1.0))),
        (((0.26, 0.24), (0.52, 0.0)), ((0.52, 0.0), (0.52, 1.0)), ((0.24, 1.0), (0.8, 1.0))),
    ),
    2: (
        (((0.12, 0.24), (0.34, 0.02), (0.72, 0.06), (0.78, 0.34), (0.12, 0.97)), ((0.12, 0.97), (0.9, 0.95))),
        (
            (
                (0.14, 0.2),
                (0.4, 0.0),
                (0.76, 0.14),
                (0.7, 0.46),
                (0.34, 0.88),
                (0.12, 0.92),
                (0.22, 0.76),
                (0.5, 0.84),
                (0.94, 0.96),
            ),
        ),
    ),
    3: (
        (
            ((0.14, 0.12), (0.46, 0.0), (0.8, 0.16), (0.68, 0.4), (0.36, 0.47)),
            ((0.36, 0.47), (0.78, 0.56), (0.86, 0.8), (0.52, 1.0), (0.1, 0.88)),
        ),
        (
            ((0.14, 0.03), (0.82, 0.03)),
            ((0.82, 0.03), (0.42, 0.42)),
            ((0.42, 0.42), (0.8, 0.52), (0.84, 0.82), (0.48, 1.0), (0.1, 0.9)),
        ),
    ),
    4: (
        (((0.3, 0.0), (0.24, 0.3), (0.1, 0.56)), ((0.1, 0.56), (0.92, 0.54)), ((0.76, 0.04), (0.68, 1.0))),
        (((0.66, 0.0), (0.08, 0.64)), ((0.08, 0.64), (0.94, 0.64)), ((0.66, 0.0), (0.64, 1.0))),
    ),
    5: ((((0.86, 0.02), (0.26, 0.04)), ((0.26, 0.04), (0.2, 0.44)), _BELLY),),
    6: ((_SIX,),),
    7: (
        (((0.1, 0.06), (0.88, 0.04)), ((0.88, 0.04), (0.6, 0.46), (0.42, 1.0))),
        (((0.1, 0.06), (0.88, 0.04)), ((0.88, 0.04), (0.6, 0.46), (0.42, 1.0)), ((0.34, 0.52), (0.82, 0.5))),
    ),
    8: ((_EIGHT,),),
    9: (
        (_HEAD, ((0.8, 0.2), (0.77, 0.6), (0.66, 1.0))),
        (_HEAD, ((0.8, 0.2), (0.84, 0.6), (0.64, 0.96), (0.26, 0.92))),
    ),
}
"""The ways of writing each digit."""

_A_SPAN = 3
"""Segments between two points of a stroke."""


@dataclass(frozen=True)
class StrokeTable:
    """All ways as arrays: `first` and `count` say which of them are those of a digit."""

    points_VP2: NDArray[np.float64]
    begin_VSP: NDArray[np.float64]
    end_VSP: NDArray[np.float64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]


@cache
def written() -> StrokeTable:
    """The table `WAYS` as arrays; short ways are filled up with their last segment."""
    ways = [_linear(way) for digit in range(10) for way in WAYS[digit]]
    most_points, most_segments = max(len(way[0]) for way in ways), max(len(way[1]) for way in ways)
    points_VP2 = np.zeros((len(ways), most_points, 2))
    begin_VSP = np.zeros((len(ways), most_segments, most_points))
    end_VSP = np.zeros_like(begin_VSP)
    for at, (points, begin, end) in enumerate(ways):
        points_VP2[at, : len(points)] = points
        filled = np.minimum(np.arange(most_segments), len(begin) - 1)
        begin_VSP[at, :, : len(points)] = begin[filled]
        end_VSP[at, :, : len(points)] = end[filled]
    count = np.array([len(WAYS[digit]) for digit in range(10)])
    return StrokeTable(points_VP2, begin_VSP, end_VSP, np.cumsum(count) - count, count)


def _linear(way: tuple[Stroke, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The points of a way, each once, and the weights by which they make the two ends of every segment."""
    bent = [_bent(stroke) for stroke in way]
    points = list(dict.fromkeys(point for stroke in bent for point in stroke))
    begin, end = [], []
    for stroke in bent:
        weights = _spline(len(stroke)) @ np.eye(len(points))[[points.index(point) for point in stroke]]
        begin.append(weights[:-1])
        end.append(weights[1:])
    return np.array(points), np.concatenate(begin), np.concatenate(end)


def _bent(stroke: Stroke) -> Stroke:
    """A straight stroke with a point in its middle, where it may bend."""
    if len(stroke) > 2:
        return stroke
    (x, y), (u, v) = stroke
    return (x, y), ((x + u) / 2, (y + v) / 2), (u, v)


def _spline(points: int) -> NDArray[np.float64]:
    """Weights of the points in the places along a Catmull-Rom spline through them: p(t), t = 0, 1/3, 2/3, ..."""
    weights = np.zeros(((points - 1) * _A_SPAN + 1, points))
    for at in range(len(weights)):
        span = min(at // _A_SPAN, points - 2)
        t = at / _A_SPAN - span
        shares = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3)
        for near, share in zip(range(span - 1, span + 3), shares, strict=True):
            if 0 <= near < points:
                weights[at, near] += share / 2
            else:  # beyond an end the spline goes on as it came: 2 p_end - p_before
                inner = 0 if near < 0 else points - 1
                weights[at, inner] += share
                weights[at, 1 if near < 0 else points - 2] -= share / 2
    return weights
