"""Answers of the panel Glimpses: a picture, where a network looked, what it saw there and what it believed then."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.studio.answers.pixels import PixelsAnswer


class SquareAnswer(Answer):
    """A square of the picture that a patch was cut out of: its upper left corner and its side, in pixels. It may reach
    beyond the edge."""

    left: int
    top: int
    side: int


class GlimpseAnswer(Answer):
    """One glimpse: its middle in pixels, and from the sharpest scale to the widest the squares and what was seen in
    them. `belief`: the probability of every label after it. Without squares the whole picture was seen."""

    column: float
    row: float
    squares: list[SquareAnswer]
    patches: PixelsAnswer
    belief: list[float | None]


class GlimpsedAnswer(Answer):
    """A picture by its name, one of `count` of its source, as the network reads it; `label` is what it believes in the
    end, `true` what is right, null where nobody knows."""

    name: str
    count: int
    pixels: PixelsAnswer
    labels: list[str]
    glimpses: list[GlimpseAnswer]
    label: str
    true: str | None
