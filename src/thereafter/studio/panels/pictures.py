"""Pictures that panels look at: a file of the visitor's, and digits that are made, drawn, or held out by a run.

A file comes from outside: its size, its kind and the pixels that its header promises are checked before it is decoded.
Shapes: H rows, W columns, h pixels from edge to edge of a digit.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from thereafter.errors import OptionError
from thereafter.serving.schema import Answer, Asked, ModelName
from thereafter.task_model import TaskModel
from thereafter.tasks import finding
from thereafter.vision.made_pictures import clutter_rules
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.decoding import decode_bytes
from thereafter.vision.pictures.glyphs import SIDE, ClutteredPictures, numbered_glyphs
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.picture import Picture, given_array
from thereafter.vision.rules import uniforms


class PixelsAnswer(Answer):
    """`count` pictures of one size. `data`: a byte for each channel of each pixel, in base64, picture by picture and
    row by row; grey where `channels` is 1, red, green, blue where it is 3."""

    count: int
    height: int
    width: int
    channels: int
    data: str


INK = SIDE * SIDE
"""Pixels of a drawing, a hexadecimal digit each."""
OwnFile = Annotated[str, Field(max_length=2_700_000)]
"""A file of the visitor's in base64: 2 MB, which `decode_own` looks at."""
MOST_BYTES = 2_000_000
"""Of a file of the visitor's."""
MOST_PIXELS = 16_000_000
OWN = "your picture"
_KINDS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
Number = Annotated[int, Field(ge=0, le=1_000_000, description="Which picture of its source.")]
Ink = Annotated[str, Field(pattern="^(|[0-9a-f]{784})$")]
T = TypeVar("T")
MOST_SIDE = 512
"""Pixels of a side up to which a made picture is as large as those of the training; else it is resized."""
_TEST = clutter_rules("cluttered-glyphs")["test"]
_BOX = 19  # pixels of the longer side of a drawn digit, about as those of training


class RunExamples(Generic[T]):
    """The examples of a kind that runs were validated on, read once for each model. `things` says what they are, and
    what to do where there are none."""

    def __init__(self, things: str, convert: Callable[[object], T | None]) -> None:
        self._things, self._convert = things, convert
        self._known: WeakKeyDictionary[TaskModel, Sequence[T]] = WeakKeyDictionary()

    def pick(self, model: TaskModel, number: int) -> tuple[T, int]:
        """The one of a number, counted round and round, and how many there are."""
        if model not in self._known:
            examples = finding.learned_from(model.task, model.config, "the training")[1].examples
            self._known[model] = [one for one in map(self._convert, examples) if one is not None]
        known = self._known[model]
        if not known:
            raise OptionError(f"the run held out no {self._things}")
        return known[number % len(known)], len(known)


def _labelled(example: object) -> LabelledPicture | None:
    """A picture with its label, if it has one."""
    labelled = LabelledPicture(example) if isinstance(example, Picture) else example
    return labelled if isinstance(labelled, LabelledPicture) else None


_DIGITS: RunExamples[LabelledPicture] = RunExamples("pictures; pick a written digit or draw one", _labelled)


def decode_own(content: str) -> Picture:
    """A PNG or JPEG file of the visitor's, in base64."""
    try:
        file = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise OptionError(f"{OWN} is not base64; expected the content of a PNG or JPEG file") from None
    if not file:
        raise OptionError("there is no picture yet; choose a PNG or JPEG file, or drop one")
    if len(file) > MOST_BYTES:
        size = f"{len(file) / 1e6:.1f} MB"
        raise OptionError(f"{OWN} has {size}; expected at most {MOST_BYTES // 10**6} MB; try a smaller copy of it")
    if not file.startswith(_KINDS):
        raise OptionError(f"{OWN} is neither a PNG nor a JPEG file; try saving it as one")
    return given_array(decode_bytes(file, OWN, MOST_PIXELS))


def packed(pixels: NDArray[np.uint8]) -> PixelsAnswer:
    """Pictures [N, H, W] or [N, H, W, C] as they go over the wire."""
    count, height, width = pixels.shape[:3]
    channels = pixels.shape[3] if pixels.ndim == 4 else 1
    data = base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode("ascii")
    return PixelsAnswer(count=count, height=height, width=width, channels=channels, data=data)


@dataclass(frozen=True)
class OpenedDigit:
    """A picture, and its label where it is known. `count`: the pictures of its source."""

    picture: Picture
    name: str
    label: str | None = None
    count: int = 1


class PictureAsked(Asked):
    """`source`: a "made" picture or one "held-out" by the run, both by `number`; a "drawn" digit, which `number` puts
    somewhere, `ink` being 28 rows of 28 pixels, a hexadecimal digit each; or the visitor's "own" file `picture` in
    base64."""

    model: ModelName
    source: Literal["made", "held-out", "drawn", "own"] = "made"
    number: Number = 0
    ink: Ink = ""
    picture: OwnFile = ""


def open_digit(model: TaskModel, codec: PictureCodec, asked: PictureAsked, *, pieces: int) -> OpenedDigit:
    """The picture that a request asks for; a made one has so many pieces of other digits."""
    if asked.source == "own":
        return OpenedDigit(decode_own(asked.picture), OWN)
    if asked.source == "drawn":
        return open_digit_drawn(asked.ink, asked.number, codec)
    if asked.source == "held-out":
        return open_digit_held_out(model, asked.number)
    return open_digit_made(asked.number, codec, pieces)


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
    one, count = _DIGITS.pick(model, number)
    return OpenedDigit(one.picture, f"picture {one.picture.name}", one.label or None, count)


def as_digit(ink: str) -> NDArray[np.uint8]:
    """A drawing as training digits are, [h, h]: as large as they are, and in the middle.

    >>> as_digit("f" * INK).max()
    np.uint8(255)
    """
    if not ink.strip("0"):
        raise OptionError("nothing is drawn yet; draw a digit, or begin with a written one")
    drawn_hh = np.array([int(one, 16) for one in ink], np.float64).reshape(SIDE, SIDE) * 17
    rows, columns = (np.flatnonzero(drawn_hh.any(axis)) for axis in (1, 0))
    part = drawn_hh[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = _BOX / max(part.shape)
    height, width = (max(1, round(scale * size)) for size in part.shape)
    top, left = (SIDE - height) // 2, (SIDE - width) // 2
    digit_hh = np.zeros((SIDE, SIDE))
    digit_hh[top : top + height, left : left + width] = _resized(part, height, width)
    return np.asarray(np.rint(digit_hh), np.uint8)


def _resized(part_HW: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """Another size, between pixels linearly."""
    for axis, size in enumerate((height, width)):
        have = part_HW.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * have / size - 0.5, 0, have - 1)
        low = np.minimum(at.astype(np.int64), max(0, have - 2))
        share = (at - low)[:, None] if axis == 0 else (at - low)
        high = np.minimum(low + 1, have - 1)
        part_HW = (1 - share) * part_HW.take(low, axis) + share * part_HW.take(high, axis)
    return part_HW


@lru_cache(maxsize=8)
def _made(side: int, pieces: int) -> ClutteredPictures:
    return ClutteredPictures(replace(_TEST, size=side, pieces=pieces))


def _side(codec: PictureCodec) -> int:
    """The size of a made picture: that of the training where it is a square in which a digit has room."""
    fits = codec.height == codec.width and SIDE < codec.height <= MOST_SIDE
    return codec.height if fits else SIDE
