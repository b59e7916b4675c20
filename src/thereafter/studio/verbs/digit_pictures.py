"""Pictures for the panels Glimpses and Drawing: made by rule, held out by a run, drawn by the visitor, or a file.

Shapes: H rows, W columns, h pixels from edge to edge of a digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from thereafter.errors import OptionError
from thereafter.studio.verbs.clips import as_digit
from thereafter.studio.verbs.pictures import open_own as open_file
from thereafter.task_model import TaskModel
from thereafter.tasks import store
from thereafter.vision.glimpsing.cluttered import ClutteredPictures
from thereafter.vision.made_pictures import clutter_rules
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.glyphs import SIDE, numbered_glyphs
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.picture import Picture, given_array
from thereafter.vision.rules import uniforms

MOST_SIDE = 512
"""Pixels of a side up to which a made picture is as large as those of the training; else it is resized."""
_TEST = clutter_rules("cluttered-glyphs")["test"]
_held_out: WeakKeyDictionary[TaskModel, Sequence[LabelledPicture]] = WeakKeyDictionary()


@dataclass(frozen=True)
class OpenedDigit:
    """A picture, and its label where it is known. `count`: the pictures of its source."""

    picture: Picture
    name: str
    label: str | None = None
    count: int = 1


def open_digit_made(number: int, codec: PictureCodec, pieces: int) -> OpenedDigit:
    """A written digit that was in no training, among so many pieces of others where the pictures have room."""
    number %= _TEST.count
    side, name = _side(codec), f"picture {number}"
    if side == SIDE:
        drawn_hh = numbered_glyphs([_TEST.begin + number])[0]
        return OpenedDigit(given_array(drawn_hh[..., None]), name, str((_TEST.begin + number) % 10), _TEST.count)
    made = _made(side, pieces)
    return OpenedDigit(Picture(made, number, name), name, made.labels()[number], len(made))


def open_digit_drawn(ink: str, number: int, codec: PictureCodec) -> OpenedDigit:
    """A digit that the visitor drew; where the pictures have room it is put somewhere, and `number` says where."""
    side, digit_hh = _side(codec), as_digit(ink)
    pixels_HW = np.zeros((side, side), np.uint8)
    top, left = ((side - SIDE + 1) * uniforms(0, np.array([number]), 2)[0]).astype(int)
    pixels_HW[top : top + SIDE, left : left + SIDE] = digit_hh
    return OpenedDigit(given_array(pixels_HW[..., None]), "your digit", count=1000)


def open_digit_held_out(model: TaskModel, number: int) -> OpenedDigit:
    """One of the pictures that a run was validated on."""
    if model not in _held_out:
        examples = store.learned_from(model.task, model.config, "the training")[1].examples
        labelled = (LabelledPicture(one) if isinstance(one, Picture) else one for one in examples)
        _held_out[model] = [one for one in labelled if isinstance(one, LabelledPicture)]
    pictures = _held_out[model]
    if not pictures:
        raise OptionError("the run held out no pictures; pick a written digit or draw one")
    one = pictures[number % len(pictures)]
    return OpenedDigit(one.picture, f"picture {one.picture.name}", one.label or None, len(pictures))


def open_digit_file(content: str) -> OpenedDigit:
    """A PNG or JPEG file of the visitor's, in base64; see `pictures.open_own`."""
    opened = open_file(content)
    return OpenedDigit(opened.picture, opened.name)


@lru_cache(maxsize=8)
def _made(side: int, pieces: int) -> ClutteredPictures:
    return ClutteredPictures(replace(_TEST, size=side, pieces=pieces))


def _side(codec: PictureCodec) -> int:
    """The size of a made picture: that of the training where it is a square in which a digit has room."""
    fits = codec.height == codec.width and SIDE < codec.height <= MOST_SIDE
    return codec.height if fits else SIDE
