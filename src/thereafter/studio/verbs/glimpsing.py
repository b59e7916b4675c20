"""The verb of the panel Glimpses: where a network looks, what it sees there, and what it believes after each glimpse.

Shapes: T glimpses, K scales, C channels, g pixels of a patch, L labels.
"""

from __future__ import annotations

import math

import numpy as np

from thereafter.errors import OptionError
from thereafter.studio.answers.glimpsing import GlimpseAnswer, GlimpsedAnswer, SquareAnswer
from thereafter.studio.verbs.digit_pictures import OpenedDigit
from thereafter.studio.verbs.numbers import numbers
from thereafter.studio.verbs.pictures import packed
from thereafter.task_model import TaskModel
from thereafter.vision.glimpsing.network import PictureReader
from thereafter.vision.glimpsing.sensor import GlimpseCore
from thereafter.vision.glimpsing.task import GlimpsesExplained
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture

PIECES = 4
"""Of other digits, in a made picture."""


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
