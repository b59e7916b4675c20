"""How the ten digits are written: strokes through a few points, one or more ways for each digit.

A way is drawn as line segments whose ends are linear in its points (splines of Catmull and Rom 1974), so that points
may be moved and all digits of a batch drawn by one product. Shapes: V ways, P points, S segments, 2 for x and y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

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
