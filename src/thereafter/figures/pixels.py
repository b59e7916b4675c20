"""Pixels in a plot: pictures as PNG within the page, frames beside each other, weights spread over a picture.

Shapes: T frames, H rows of pixels, W columns, C colours (1 or 3), R rows and Q columns of weights.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import ShapeError
from thereafter.figures.plot import Plot
from thereafter.packages import require

Pixels = NDArray[np.uint8]
GAP = 0.06
"""The share of its place that a frame leaves free on either side."""
_COLOURS = {1: 0, 3: 2}  # the number that PNG has for grey, and for red, green, blue
_FOG = 150.0  # what is not looked at fades towards this grey
_LEFT = 0.12  # the share of its contrast that it keeps


def png(pixels_HWC: Pixels) -> bytes:
    """A picture as PNG (ISO/IEC 15948): rows of bytes, none of them filtered.

    >>> png(np.zeros((2, 3, 1), np.uint8))[1:4]
    b'PNG'
    """
    if pixels_HWC.ndim != 3 or pixels_HWC.shape[2] not in _COLOURS or not pixels_HWC.size:
        raise ShapeError(f"the picture is {pixels_HWC.shape}; expected height, width and 1 or 3 colours")
    height, width, colours = pixels_HWC.shape
    rows = np.zeros((height, 1 + width * colours), np.uint8)
    rows[:, 1:] = pixels_HWC.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[colours], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def data_uri(pixels_HWC: Pixels) -> str:
    """A picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels_HWC)).decode()}"


def enlarged(pixels_HWC: Pixels, least: int) -> Pixels:
    """Every pixel as a square of pixels, so that the shorter side has at least about `least`."""
    times = max(1, -(-least // min(pixels_HWC.shape[:2])))
    return np.repeat(np.repeat(pixels_HWC, times, axis=0), times, axis=1)


def spread_over(weights_RQ: NDArray[np.floating], height: int, width: int) -> NDArray[np.float64]:
    """Weights of the places of a grid, bilinear between the middles of the places, [height, width]."""
    values = np.asarray(weights_RQ, np.float64)
    for axis, size in enumerate((height, width)):
        count = values.shape[axis]
        places = np.clip((np.arange(size) + 0.5) * count / size - 0.5, 0, count - 1)
        low = np.minimum(places.astype(np.intp), max(0, count - 2))
        share = (places - low).reshape((-1, 1) if axis == 0 else (1, -1))
        high = np.minimum(low + 1, count - 1)
        values = values.take(low, axis) * (1 - share) + values.take(high, axis) * share
    return values


def lit_by(pixels_HWC: Pixels, weights_RQ: NDArray[np.floating]) -> Pixels:
    """The picture as it is where the weights are largest, and faded to grey where they are 0."""
    height, width = pixels_HWC.shape[:2]
    weights_HW = spread_over(weights_RQ, height, width)
    share_HW1 = (_LEFT + (1 - _LEFT) * weights_HW / max(float(weights_HW.max()), 1e-9))[..., None]
    return np.rint(_FOG + (pixels_HWC - _FOG) * share_HW1).astype(np.uint8)


def add_picture(plot: Plot, pixels_HWC: Pixels, **place: int) -> None:
    """A picture that fills its small plot, without axes."""
    go = require("plotly.graph_objects", "drawing a picture")
    plot.add_trace(go.Image(source=data_uri(pixels_HWC), hoverinfo="skip"), **place)
    plot.update_xaxes(visible=False, **place)
    plot.update_yaxes(visible=False, **place)


def coloured(pixels_HWC: Pixels) -> Pixels:
    """A picture in red, green and blue, whatever it had."""
    return np.repeat(pixels_HWC, 3, axis=2) if pixels_HWC.shape[2] == 1 else pixels_HWC


def outlined(pixels_HW3: Pixels, box: tuple[int, int, int, int], tint: tuple[int, int, int], width: int) -> Pixels:
    """A copy with the outline of a box: left, top, right and bottom. What lies beyond the edges is not drawn.

    >>> outlined(np.zeros((4, 4, 3), np.uint8), (1, 1, 9, 9), (7, 7, 7), 1)[..., 0].tolist()
    [[0, 0, 0, 0], [0, 7, 7, 7], [0, 7, 0, 0], [0, 7, 0, 0]]
    """
    drawn, (left, top, right, bottom) = pixels_HW3.copy(), box
    rows, columns = np.arange(drawn.shape[0])[:, None], np.arange(drawn.shape[1])[None]
    inside = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
    within = (rows >= top + width) & (rows < bottom - width) & (columns >= left + width) & (columns < right - width)
    drawn[inside & ~within] = tint
    return drawn


def add_frames(plot: Plot, frames: Pixels, first: float, y: float, **place: int) -> None:
    """Frames beside each other: the first has its middle at `first`, each takes 1 along x, and 1 along y about `y`.

    They are grey, [T, H, W], or have colours, [T, H, W, 3].
    """
    go = require("plotly.graph_objects", "drawing a picture")
    high = 1 - 2 * GAP
    height, width = frames.shape[1:3]
    for number, frame in enumerate(frames):
        steps = {"dx": high / width, "dy": high / height}
        corner = {"x0": first + number - high / 2 + steps["dx"] / 2, "y0": y - high / 2 + steps["dy"] / 2}
        image = go.Image(
            source=data_uri(frame if frame.ndim == 3 else frame[..., None]), hoverinfo="skip", **corner, **steps
        )
        plot.add_trace(image, **place)
