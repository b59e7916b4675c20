"""Answers of the panel Drawing: a canvas after every stroke, and the windows that were read and written through."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.studio.answers.pixels import PixelsAnswer


class DrawingWindowAnswer(Answer):
    """A window in pixels: its middle, the distance of two of its places, the deviation of its filters, and how many
    places it has on a side."""

    row: float
    column: float
    stride: float
    deviation: float
    places: int


class StrokeAnswer(Answer):
    """One stroke: its windows, null without attention and for reading where nothing is read. `latent`: nats of its z,
    null for a new picture. `changed`: by how much the chances of the pixels changed, summed over them. `left`: nats of
    the pixels as they are on the canvas after it, null for a new picture."""

    read: DrawingWindowAnswer | None
    write: DrawingWindowAnswer | None
    latent: float | None
    changed: float
    left: float | None


class DrawingAnswer(Answer):
    """A picture that is drawn. `pixels`: the one that is drawn again, null for a new one. `canvases`: the chance of
    each pixel to be lit, before the first stroke and after each; `left` as in `StrokeAnswer`, before the first."""

    name: str
    count: int
    pixels: PixelsAnswer | None
    canvases: PixelsAnswer
    strokes: list[StrokeAnswer]
    left: float | None
    nats: float | None
