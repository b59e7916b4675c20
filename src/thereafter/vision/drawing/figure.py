"""A picture that is drawn stroke by stroke, with the windows that were read and written through (Gregor et al. 2015).

Shapes: T strokes, C colours (1 or 3), H rows of pixels, W columns; V = 2 windows, of reading and of writing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import require
from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Figure
from thereafter.figures.pictures import Pixels, add_frames, coloured, enlarged, outlined
from thereafter.figures.style import Plot
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace

KIND = "drawn-strokes"
_SIDE, _BARS, _GAP = 84, 120, 14  # pixels of a canvas, of the bars, between two rows
_LEFT, _RIGHT, _BELOW = 96, 30, 60
_LEAST = 160  # pixels that a canvas is enlarged to, so that lines are thin
_READ, _WRITE = (0x56, 0xB4, 0xE9), (0xE6, 0x9F, 0x00)


def measured_strokes(
    trace: Trace, *, read: int, write: int, model: str = "the network", text: str = "a picture"
) -> Measurement:
    """How a network drew a picture again: "drawn-strokes". `read` and `write` are the places on the side of its
    windows.

    Example: figures.measured_strokes(model.trace("digit.png"), read=5, write=5, model="glyph-drawer")
    """
    if "canvas" not in trace.arrays:
        raise OptionError("the trace has no canvas; expected that of a run of the task draw, over one picture")
    canvas_TCHW = trace.arrays["canvas"]
    arrays = {
        "pixel": np.moveaxis(trace.arrays["pixels"], 0, 2),
        "canvas": np.rint(255 * np.moveaxis(canvas_TCHW, 1, 3)).astype(np.uint8),
        "latent": trace.arrays["latent"].astype(np.float64),
        "window": np.zeros((0, 2, 3)),
    }
    if "read.centre" in trace.arrays:
        sides = {"read": read, "write": write}
        arrays["window"] = np.stack([_windows(trace, name, places) for name, places in sides.items()], 1)
    axes: dict[str, tuple[str, ...]] = {"pixel": ("height", "width", "colour"), "latent": ("stroke",)}
    axes |= {"canvas": ("stroke", "height", "width", "colour"), "window": ("attended", "window", "place")}
    return Measurement(KIND, arrays, axes, {"model": model, "text": text, "answer": str(trace.about["answer"])})


def drawn_strokes(measurement: Measurement) -> Figure:
    """The canvas after every stroke with the window that was written through, under it the picture with the window that
    was read through, and below the nats of each stroke's z.

    Example: figures.drawn_strokes(figures.measured_strokes(model.trace("digit.png"), read=5, write=5))
    """
    if measurement.kind != KIND:
        raise OptionError(f"got a measurement of kind {measurement.kind!r}; expected {KIND!r}")
    canvas_THWC, window_TV3, latent_T = (measurement[name] for name in ("canvas", "window", "latent"))
    strokes = len(canvas_THWC)
    plot = _stacked(strokes, [_SIDE, _SIDE, _BARS])
    again_THWC = np.broadcast_to(measurement["pixel"], canvas_THWC.shape)
    rows = ((canvas_THWC, 1, _WRITE, "canvas,<br>writing"), (again_THWC, 0, _READ, "picture,<br>reading"))
    for row, (pictures, window, tint, name) in enumerate(rows, start=1):
        places_T3 = window_TV3[:, window] if len(window_TV3) else [None] * strokes
        framed = [framed_canvas(one, place_3, tint) for one, place_3 in zip(pictures, places_T3, strict=True)]
        add_frames(plot, np.stack(framed), 1, 0, row=row, col=1)
        plot.update_yaxes(range=(0.5, -0.5), tickvals=[0], ticktext=[name], ticks="", linecolor="white", row=row, col=1)
        plot.update_xaxes(visible=False, row=row, col=1)
    steps = list(range(1, strokes + 1))
    plot.add_bar(x=steps, y=latent_T, marker_color=style.BLUE, width=0.6, showlegend=False, row=3, col=1)
    plot.update_yaxes(title_text="nats of z", rangemode="tozero", row=3, col=1)
    plot.update_xaxes(title_text="stroke", row=3, col=1)
    attends = "; orange the window that it writes through, blue that it reads through" if len(window_TV3) else ""
    blank = np.full((strokes, 2, 3), np.nan) if not len(window_TV3) else window_TV3
    table = {"stroke": steps, "nats": latent_T.round(4).tolist()}
    for window, name in enumerate(("read", "write")):
        for at, part in enumerate(("row", "column", "side")):
            table[f"{name} {part}"] = [None if np.isnan(one) else round(float(one), 3) for one in blank[:, window, at]]
    return Figure(
        "drawn-strokes",
        "A picture drawn stroke by stroke",
        f"{measurement.about['model']} draws again {measurement.about['text']}: the chance of each pixel to be lit "
        f"after every stroke{attends}. Below, how many nats a stroke says of the picture (KL of z from the prior). "
        f"In all {measurement.about['answer']}.",
        plot,
        table,
    )


def framed_canvas(pixels_HWC: Pixels, place_3: NDArray[np.float64] | None, tint: tuple[int, int, int]) -> Pixels:
    """A canvas, enlarged and coloured, with the outline of a window: row and column of its middle, and its side."""
    large = coloured(enlarged(pixels_HWC, _LEAST))
    if place_3 is None:
        return large
    times = large.shape[0] / pixels_HWC.shape[0]
    row, column, side = (float(one) for one in place_3)
    edges = (column - side / 2, row - side / 2, column + side / 2, row + side / 2)
    left, top, right, bottom = (round(times * (one + 0.5)) for one in edges)
    return outlined(large, (left, top, right, bottom), tint, 4)


def _windows(trace: Trace, name: str, places: int) -> NDArray[np.float64]:
    """Row, column and side of the windows of all strokes, [T, 3]; a side reaches from the first place to the last."""
    centre_T2, stride_T = trace.arrays[f"{name}.centre"], trace.arrays[f"{name}.stride"]
    return np.column_stack((centre_T2, (places - 1) * stride_T + 1)).astype(np.float64)


def _stacked(strokes: int, heights: list[int]) -> Plot:
    """Plots over each other, so many pixels high, all as wide as the canvases in a row."""
    subplots = require("plotly.subplots", "drawing a picture")
    inside = sum(heights) + _GAP * (len(heights) - 1)
    plot: Plot = subplots.make_subplots(
        len(heights), 1, shared_xaxes=True, row_heights=heights, vertical_spacing=_GAP / inside
    )
    margin = {"l": _LEFT, "r": _RIGHT, "t": 16, "b": _BELOW}
    width = strokes * _SIDE + _LEFT + _RIGHT
    plot.update_layout(style.canvas(width=width, height=inside + _BELOW + 16).layout, margin=margin)
    every = list(range(1, strokes + 1, max(1, strokes // 20)))
    plot.update_xaxes(range=(0.5, strokes + 0.5), tickvals=every, showgrid=False, zeroline=False)
    plot.update_yaxes(zeroline=False)
    return plot
