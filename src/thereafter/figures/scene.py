"""3-D scenes, and labels beside their points that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.figures.style import Plot

_CENTRE = np.array([0.0, 0.0, -0.08])
_MARGIN = 8
_VIEW = np.pi / 4  # plotly's angle from the lower edge of a scene to its upper one
_AWAY = np.arange(18, 100, 8)  # pixels from a point to the middle of its word, nearest first
_ROUND = np.pi / 2 + np.pi / 8 * np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8])  # from above
_POINT = 6  # pixels from the middle of a point to its edge
_MOST = 40  # words there is room for


def scene(
    plot: Plot, names: Sequence[str], spans: Sequence[tuple[float, float]], eye: tuple[float, float, float]
) -> None:
    """Lay out the scene of a plot: names and spans of x, y and z, seen from `eye` (the scene is a cube of side 1)."""
    axis = {"backgroundcolor": "white", "gridcolor": "#DDDDDD", "showbackground": True, "tickfont": {"size": 13}}
    axes = {
        f"{letter}axis": axis
        | {"title": {"text": name, "font": {"size": 15}}, "range": [low, high], "tickvals": _ticks(low, high)}
        for letter, name, (low, high) in zip("xyz", names, spans, strict=True)
    }
    camera = {"eye": _place(eye), "center": _place(_CENTRE)}
    plot.update_scenes(**axes, camera=camera, aspectmode="cube")
    plot.update_layout(margin={"l": 0, "r": 0, "t": _MARGIN, "b": _MARGIN})


def span(values: NDArray[np.float64]) -> tuple[float, float]:
    """From the least value to the largest, with a little room."""
    room = 0.06 * max(float(np.ptp(values)), 1e-9)
    return float(values.min()) - room, float(values.max()) + room


def label(plot: Plot, points_N3: NDArray[np.float64], words: Sequence[str], size: int = 13) -> None:
    """Words beside points of a scene laid out before, each where it hides no other word and no point if there is room.

    As annotations: text of a 3-D trace is cut off by what stands before it. Of many words every second, third, ... is
    written.
    """
    every = -(-len(words) // _MOST)
    points_N3, words = np.asarray(points_N3, dtype=np.float64)[::every], words[::every]
    offsets = _offsets(_pixels(plot, points_N3), words, size)
    beside = {"font": {"size": size}, "bgcolor": "rgba(255,255,255,0.7)", "borderpad": 0, "standoff": 5}
    beside |= {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": "#777777"}
    notes = [
        beside | {"x": float(x), "y": float(y), "z": float(z), "text": word, "ax": ax, "ay": ay}
        for (x, y, z), word, (ax, ay) in zip(points_N3, words, offsets, strict=True)
    ]
    plot.update_scenes(annotations=notes)


def _offsets(pixels_N2: NDArray[np.float64], words: Sequence[str], size: int) -> list[tuple[float, float]]:
    """For each word the nearest place beside its point that is free, else the least covered one."""
    taken = np.concatenate([pixels_N2 - _POINT, pixels_N2 + _POINT], axis=1)
    away, angle = (grid.ravel() for grid in np.meshgrid(_AWAY, _ROUND, indexing="ij"))
    chosen = []
    for word, point in zip(words, pixels_N2, strict=True):
        half = np.array([0.33 * size * len(word) + 3, 0.5 * size + 3])
        shifts = np.stack([(away + half[0] - half[1]) * np.cos(angle), -away * np.sin(angle)], axis=1)
        boxes = np.concatenate([point + shifts - half, point + shifts + half], axis=1)
        best = int((_covered(boxes, taken) + 0.01 * away).argmin())
        chosen.append((float(shifts[best, 0]), float(shifts[best, 1])))
        taken = np.concatenate([taken, boxes[best : best + 1]])
    return chosen


def _covered(boxes_N4: NDArray[np.float64], taken_M4: NDArray[np.float64]) -> NDArray[np.float64]:
    """Square pixels that each box (left, top, right, bottom) shares with those taken."""
    low = np.maximum(boxes_N4[:, None, :2], taken_M4[None, :, :2])
    high = np.minimum(boxes_N4[:, None, 2:], taken_M4[None, :, 2:])
    area_N: NDArray[np.float64] = np.maximum(high - low, 0.0).prod(axis=2).sum(axis=1)
    return area_N


def _pixels(plot: Plot, points_N3: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where points of the scene lie in the picture, in pixels from its middle, right and down."""
    laid = plot.layout.scene
    low, high = np.array([laid.xaxis.range, laid.yaxis.range, laid.zaxis.range]).T
    eye = np.array([laid.camera.eye.x, laid.camera.eye.y, laid.camera.eye.z])
    ahead = (_CENTRE - eye) / np.linalg.norm(_CENTRE - eye)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    seen_N3 = (points_N3 - low) / (high - low) - 0.5 - eye
    scale = (plot.layout.height / 2 - _MARGIN) / np.tan(_VIEW / 2)
    across = np.stack([seen_N3 @ right, -(seen_N3 @ np.cross(right, ahead))], axis=1)
    pixels_N2: NDArray[np.float64] = scale * across / (seen_N3 @ ahead)[:, None]
    return pixels_N2


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers along an axis, none near its lower end, where those of another axis may stand, or at its upper one.

    >>> _ticks(-11.0, 11.0)
    [-5.0, 0.0, 5.0, 10.0]
    """
    rough = (high - low) / 8
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
    ticks = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
    return [round(float(t), 9) for t in ticks if low + 0.06 * (high - low) < t < high - 0.04 * (high - low)]


def _place(point: Iterable[float]) -> dict[str, float]:
    return dict(zip("xyz", map(float, point), strict=True))
