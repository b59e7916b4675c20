"""The path of glimpses over a picture: where a network looked, what it saw there, what it believed (Mnih et al. 2014).

Shapes: T glimpses, K scales, L labels, C colours (1 or 3), H rows of pixels, W columns, g pixels of a patch.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import require
from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Figure
from thereafter.figures.pictures import Pixels, add_frames, coloured, enlarged, outlined
from thereafter.figures.style import Plot
from thereafter.inspection.measurement import Measurement
from thereafter.vision.glimpsing.task import GlimpsesExplained

KIND = "glimpse-path"
_SIDE, _LINE, _GAP = 112, 19, 14  # pixels of a picture, of a label, between two rows
_LEFT, _RIGHT, _BELOW = 96, 92, 60
_LEAST = 220  # pixels that a picture is enlarged to, so that lines are thin
_BEFORE = (150, 150, 150)


def measured_glimpses(
    explained: GlimpsesExplained,
    *,
    patch: int,
    scales: int = 1,
    model: str = "the network",
    text: str = "a picture",
    truth: str = "",
) -> Measurement:
    """Where a network looked at a picture and what it believed then: "glimpse-path". `patch` pixels a side at `scales`
    scales are those of its sensor, `truth` is the right label.

    Example: figures.measured_glimpses(model.explain("digit.png"), patch=8, scales=3, model="glyph-glimpses")
    """
    if not 1 <= patch <= 4096 or not 1 <= scales <= 6:
        raise OptionError(f"patch is {patch} and scales is {scales}; expected those of the network's settings")
    names = np.array(explained.names, dtype=str)
    arrays = {
        "pixel": np.moveaxis(explained.pixels_CHW, 0, 2),
        "place": explained.places_T2.astype(np.float64),
        "side": patch * 2 ** np.arange(scales),
        "label": names,
        "right": (names == truth).astype(np.int64),
        "belief": explained.beliefs_TL.astype(np.float64),
    }
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(("label", "right"), ("label",))
    axes |= {"pixel": ("height", "width", "colour"), "place": ("glimpse", "coordinate"), "side": ("scale",)}
    axes |= {"belief": ("glimpse", "label")}
    return Measurement(KIND, arrays, axes, {"model": model, "text": text})


def glimpse_path(measurement: Measurement) -> Figure:
    """A picture once for every glimpse with the squares that were seen, under it what was seen in them, and below what
    was believed then.

    Example: figures.glimpse_path(figures.measured_glimpses(model.explain("digit.png"), patch=8, scales=3))
    """
    if measurement.kind != KIND:
        raise OptionError(f"got a measurement of kind {measurement.kind!r}; expected {KIND!r}")
    place_T2, belief_TL = measurement["place"], measurement["belief"]
    label_L, right_L = measurement["label"].tolist(), measurement["right"].tolist()
    steps = list(range(1, len(place_T2) + 1))
    plot = _stacked(len(steps), [_SIDE, _SIDE, _LINE * len(label_L)])
    paths = path_pictures(measurement["pixel"], place_T2, measurement["side"].tolist())
    seen = np.stack([_retina(measurement["pixel"], place_2, measurement["side"].tolist()) for place_2 in place_T2])
    for row, (pictures, name) in enumerate(((paths, "glimpses<br>so far"), (seen, "what it<br>saw")), start=1):
        add_frames(plot, pictures, 1, 0, row=row, col=1)
        plot.update_yaxes(range=(0.5, -0.5), tickvals=[0], ticktext=[name], ticks="", linecolor="white", row=row, col=1)
        plot.update_xaxes(visible=False, row=row, col=1)
    names = [f"<b>{name} ◂</b>" if right else name for name, right in zip(label_L, right_L, strict=True)]
    at = list(range(len(names)))
    plot.add_heatmap(z=belief_TL.T, x=steps, y=at, coloraxis="coloraxis", xgap=2, ygap=1, row=3, col=1)
    plot.update_yaxes(
        autorange="reversed", tickvals=at, ticktext=names, tickfont_size=12, ticks="", title_text="label", row=3, col=1
    )
    bar = {"title": {"text": "probability", "side": "right"}, "thickness": 12, "tickformat": ".1f"}
    plot.update_layout(coloraxis={"colorscale": "Blues", "cmin": 0, "cmax": 1, "colorbar": bar})
    plot.update_xaxes(title_text="glimpses", row=3, col=1)
    marked = " (◂ marks the right one)" if any(right_L) else ""
    cells = [(t, at) for t in range(len(steps)) for at in range(len(label_L))]
    return Figure(
        "glimpse-path",
        "What is believed after each glimpse",
        f"{measurement.about['model']} looks at {measurement.about['text']}: the squares of each glimpse, from sharp "
        f"to coarse, with those before it in grey; under it what was seen, and the probability of every label{marked}, "
        "given the glimpses so far.",
        plot,
        {
            "glimpse": [t + 1 for t, _ in cells],
            "column": [round(float(place_T2[t, 0]), 3) for t, _ in cells],
            "row": [round(float(place_T2[t, 1]), 3) for t, _ in cells],
            "label": [str(label_L[at]) for _, at in cells],
            "right": [int(right_L[at]) for _, at in cells],
            "probability": [round(float(belief_TL[cell]), 5) for cell in cells],
        },
    )


def path_pictures(pixels_HWC: Pixels, place_T2: NDArray[np.float64], sides: list[int]) -> Pixels:
    """The picture for every glimpse, enlarged and coloured: its squares in orange, the sharpest of those before in
    grey."""
    large = coloured(enlarged(pixels_HWC, _LEAST))
    times = large.shape[0] // pixels_HWC.shape[0]
    orange = (0xE6, 0x9F, 0x00)
    drawn = []
    for glimpse in range(len(place_T2)):
        picture = large
        for place_2 in place_T2[:glimpse]:
            picture = outlined(picture, _box(place_2, sides[0], times), _BEFORE, 2)
        for side in reversed(sides):
            picture = outlined(picture, _box(place_T2[glimpse], side, times), orange, 4)
        drawn.append(picture)
    return np.stack(drawn)


def _box(place_2: NDArray[np.float64], side: int, times: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a square, in pixels of the enlarged picture; corners as the sensor has them."""
    left, top = (times * math.floor(float(one) - side / 2 + 0.5) for one in place_2)
    return left, top, left + times * side, top + times * side


def _retina(pixels_HWC: Pixels, place_2: NDArray[np.float64], sides: list[int]) -> Pixels:
    """What a glimpse saw: the widest square coarse, the narrower ones sharper in its middle; black beyond the edge."""
    wide, patch = sides[-1], sides[0]
    corner = [math.floor(float(one) - wide / 2 + 0.5) for one in place_2]
    framed = np.pad(coloured(pixels_HWC), ((wide, wide), (wide, wide), (0, 0)))
    seen = framed[wide + corner[1] :, wide + corner[0] :][:wide, :wide].astype(np.float64)
    shown = np.empty_like(seen)
    for side in reversed(sides):
        left, top = (math.floor(float(one) - side / 2 + 0.5) - at for one, at in zip(place_2, corner, strict=True))
        cut, times = seen[top : top + side, left : left + side], side // patch
        means = cut.reshape(patch, times, patch, times, 3).mean((1, 3))
        shown[top : top + side, left : left + side] = means.repeat(times, 0).repeat(times, 1)
    return enlarged(np.rint(shown).astype(np.uint8), _LEAST)


def _stacked(glimpses: int, heights: list[int]) -> Plot:
    """Plots over each other, so many pixels high, all as wide as the pictures in a row."""
    subplots = require("plotly.subplots", "drawing a picture")
    inside = sum(heights) + _GAP * (len(heights) - 1)
    plot: Plot = subplots.make_subplots(
        len(heights), 1, shared_xaxes=True, row_heights=heights, vertical_spacing=_GAP / inside
    )
    margin = {"l": _LEFT, "r": _RIGHT, "t": 16, "b": _BELOW}
    width = glimpses * _SIDE + _LEFT + _RIGHT
    plot.update_layout(style.canvas(width=width, height=inside + _BELOW + 16).layout, margin=margin)
    numbers = list(range(1, glimpses + 1))
    plot.update_xaxes(range=(0.5, glimpses + 0.5), tickvals=numbers, showgrid=False, zeroline=False)
    plot.update_yaxes(zeroline=False, showgrid=False)
    return plot
