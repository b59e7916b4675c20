"""The verb of the panel Glimpses: where a network looks, what it sees there, and what it believes after each glimpse.

Shapes: T glimpses, K scales, C channels, g pixels of a patch, L labels.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from thereafter.errors import OptionError
from thereafter.serving.schema import Answer, Asked, ModelName
from thereafter.studio.asking import of_task_model
from thereafter.studio.panels.numbers import numbers
from thereafter.studio.panels.pictures import LONGEST, Ink, Number, OpenedDigit, PixelsAnswer, open_digit, packed
from thereafter.task_model import TaskModel
from thereafter.vision.glimpsing.network import PictureReader
from thereafter.vision.glimpsing.sensor import GlimpseCore
from thereafter.vision.glimpsing.task import GlimpsesExplained
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture

PIECES = 4
"""Of other digits, in a made picture."""


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


class PictureAsked(Asked):
    """`source`: a "made" picture or one "held-out" by the run, both by `number`; a "drawn" digit, which `number` puts
    somewhere, `ink` being 28 rows of 28 pixels, a hexadecimal digit each; or the visitor's "own" file `picture` in
    base64."""

    model: ModelName
    source: Literal["made", "held-out", "drawn", "own"] = "made"
    number: Number = 0
    ink: Ink = ""
    picture: Annotated[str, Field(max_length=LONGEST)] = ""


def glimpse_codec(model: TaskModel) -> PictureCodec:
    """What the pictures of a model have in common; OptionError where it was trained to something else."""
    codec = model.codecs.get("pictures")
    if not isinstance(model.net, PictureReader) or not isinstance(codec, PictureCodec):
        raise OptionError(f"this model was trained to {model.task.name}; expected one trained to glimpse; pick another")
    return codec


def glimpse(model: TaskModel, opened: OpenedDigit) -> GlimpsedAnswer:
    """The path of glimpses over a picture."""
    glimpse_codec(model)
    given = LabelledPicture(opened.picture)
    explained = model.explain(given)
    assert isinstance(explained, GlimpsesExplained)
    patches_TKCgg = model.trace(given).arrays["patches"]
    rows = zip(explained.places_T2.tolist(), patches_TKCgg, explained.beliefs_TL, strict=True)
    glimpses = [
        GlimpseAnswer(
            column=round(column, 3),
            row=round(row, 3),
            squares=squares(model, column, row),
            patches=packed(np.rint(255 * np.moveaxis(seen_KCgg, 1, 3)).astype(np.uint8)),
            belief=numbers(belief_L.astype(np.float64).round(6)),
        )
        for (column, row), seen_KCgg, belief_L in rows
    ]
    return GlimpsedAnswer(
        name=opened.name,
        count=opened.count,
        pixels=packed(np.moveaxis(explained.pixels_CHW, 0, 2)[None]),
        labels=list(explained.names),
        glimpses=glimpses,
        label=explained.label,
        true=opened.label,
    )


def squares(model: TaskModel, column: float, row: float) -> list[SquareAnswer]:
    """The squares that a glimpse covers (`vision.glimpsing.sensor`); none if it sees the whole picture."""
    if not isinstance(model.net, GlimpseCore):
        return []
    sides = [model.net.sensor.patch << scale for scale in range(model.net.sensor.scales)]
    return [
        SquareAnswer(left=math.floor(column - side / 2 + 0.5), top=math.floor(row - side / 2 + 0.5), side=side)
        for side in sides
    ]


@of_task_model(PictureAsked, "glimpse")
def glimpse_picture(model: TaskModel, source: str, number: int, ink: str, picture: str) -> GlimpsedAnswer:
    """A picture, the places a network looked at, what it saw there, and what it believed after each glimpse."""
    return glimpse(model, open_digit(model, glimpse_codec(model), source, number, ink, picture, pieces=PIECES))
