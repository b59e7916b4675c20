"""Where a captioner looked while it wrote each word of a caption (Xu et al. 2015).

Shapes: T words, R rows and Q columns of places, H rows of pixels, W columns, C colours.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import require
from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Figure
from thereafter.figures.pictures import Pixels, add_picture, enlarged, lit_by
from thereafter.figures.style import Plot
from thereafter.inspection.measurement import Measurement
from thereafter.vision.captioning.answers import CaptionExplained

KIND = "caption-attention"
_ACROSS = 6  # pictures beside each other
_SIDE, _TITLE = 150, 34  # pixels of a small picture, and of the word above it
_PLAIN = 32  # pixels a side where there is no picture, only features


def measured_caption(explained: CaptionExplained, *, model: str = "the captioner") -> Measurement:
    """A caption and the attention behind it: "caption-attention", which can be saved, and drawn with `thereafter
    figure`.

    Example: figures.measured_caption(model.explain("photo.jpg"), model="shapes-captioner")
    """
    if not explained.attends:
        raise OptionError(
            "the network has no attention, so that there is nowhere it looked; expected one with see = attention"
        )
    arrays = {
        "word": np.array(explained.words, dtype=str),
        "probability": np.array(explained.probabilities, np.float64),
        "weight": explained.weights.reshape(len(explained.words), *explained.grid).astype(np.float64),
        "pixel": explained.picture,
    }
    axes = {
        "word": ("word",),
        "probability": ("word",),
        "weight": ("word", "row", "column"),
        "pixel": ("height", "width", "colour"),
    }
    return Measurement(KIND, arrays, axes, {"model": model, "text": explained.name, "caption": explained.caption})


def attended_picture(explained: CaptionExplained | Measurement, *, model: str = "") -> Figure:
    """The picture, and beside it once for every word of its caption: bright where the network looked.

    Example: figures.attended_picture(model.explain("photo.jpg"), model="shapes-captioner")
    """
    if isinstance(explained, CaptionExplained):
        explained = measured_caption(explained, model=model or "the captioner")
    words, weight_TRQ = explained["word"].tolist(), explained["weight"]
    probabilities = explained["probability"].tolist()
    picture = _picture(explained["pixel"], weight_TRQ)
    plot, places = _small_pictures(1 + len(words))
    add_picture(plot, enlarged(picture, _SIDE), **places[0])
    _add_title(plot, 0, "the picture", "")
    for number, (word, weight_RQ) in enumerate(zip(words, weight_TRQ, strict=True)):
        add_picture(plot, enlarged(lit_by(picture, weight_RQ), _SIDE), **places[number + 1])
        _add_title(plot, number + 1, word, f"{probabilities[number]:.2f}")
    rows = list(np.ndindex(weight_TRQ.shape))
    about = explained.about
    return Figure(
        "attended-picture",
        "Where the captioner looks, word by word",
        f"Attention of {about['model']} while it writes “{about['caption']}” under {about['text']}: for each word the "
        "picture is clear where it looked most, and fades to grey where it did not look; beside the word its "
        "probability given those before it.",
        plot,
        {
            "word": [words[t] for t, *_ in rows],
            "probability": [round(probabilities[t], 5) for t, *_ in rows],
            "row": [r for _, r, _ in rows],
            "column": [q for *_, q in rows],
            "weight": [round(float(weight_TRQ[place]), 5) for place in rows],
        },
    )


def _picture(pixels_HWC: Pixels, weight_TRQ: NDArray[np.float64]) -> Pixels:
    """The pixels; of a picture that was given as features a white field of as many places."""
    if pixels_HWC.size:
        return pixels_HWC
    _, rows, columns = weight_TRQ.shape
    times = max(1, _PLAIN // max(rows, columns))
    return np.full((rows * times, columns * times, 1), 255, np.uint8)


def _small_pictures(count: int) -> tuple[Plot, Sequence[dict[str, int]]]:
    """An empty small plot for each picture, row by row."""
    across = min(count, _ACROSS)
    rows = -(-count // across)
    subplots = require("plotly.subplots", "drawing a picture")
    width, height = across * (_SIDE + 10) + 30, rows * (_SIDE + _TITLE) + 20
    apart = {"horizontal_spacing": 10 / width, "vertical_spacing": _TITLE / height}
    plot: Plot = subplots.make_subplots(rows, across, **apart)
    plot.update_layout(style.canvas(width=width, height=height).layout)
    plot.update_layout(margin={"l": 15, "r": 15, "t": _TITLE, "b": 6})
    return plot, [{"row": at // across + 1, "col": at % across + 1} for at in range(count)]


def _add_title(plot: Plot, number: int, word: str, beside: str) -> None:
    """A word above its picture, and its probability behind it."""
    axis = "" if not number else str(number + 1)
    text = f"<b>{html.escape(word, quote=False)}</b>"
    if beside:
        text += f" <span style='color:{style.GREY};font-size:12px'>{beside}</span>"
    plot.add_annotation(
        xref=f"x{axis} domain", yref=f"y{axis} domain", x=0, y=1, text=text, showarrow=False, xanchor="left",
        yanchor="bottom", font={"size": 15}, align="left",
    )  # fmt: skip
