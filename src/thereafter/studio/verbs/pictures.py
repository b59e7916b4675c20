"""Pictures for the Captions panel: made by rule, held out by a run, or a file of the visitor's.

A file comes from outside: its size, its kind and the pixels that its header promises are checked before it is decoded.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.studio.answers.captioning import MadePicturesAnswer
from thereafter.studio.answers.pixels import PixelsAnswer
from thereafter.task_model import TaskModel
from thereafter.tasks import store
from thereafter.vision.captioning.measures import caption_words
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.captioning.shapes import CAPTION_DRAWS, Scene, captions_of, draw_scene, scene_of
from thereafter.vision.pictures.decoding import decode_bytes
from thereafter.vision.pictures.picture import Picture, given_array
from thereafter.vision.rules import uniforms

MADE = 10_000
"""Made pictures that can be picked, by number."""
MOST_BYTES = 2_000_000
"""Of a file of the visitor's."""
MOST_PIXELS = 16_000_000
_FIRST_SCENE = 200_000  # the test part of `shapes` begins there: nothing was trained on these
_KINDS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
_NAME = "your picture"
_WORDINGS = 100
_held_out: WeakKeyDictionary[TaskModel, Sequence[CaptionedPicture]] = WeakKeyDictionary()


@dataclass(frozen=True)
class OpenedPicture:
    """A picture, captions that are known to be right, and for a made one what it shows. `count`: those of its
    source."""

    picture: Picture
    name: str
    references: tuple[str, ...] = ()
    scene: Scene | None = None
    count: int = 1

    def allows(self, caption: str) -> bool | None:
        """Whether the rule of a made picture allows a caption; None where there is no rule."""
        if self.scene is None:
            return None
        return " ".join(caption_words(caption)) in right_captions(self.scene)


@lru_cache(maxsize=64)
def open_made(number: int) -> OpenedPicture:
    """The made picture of a number."""
    scene = scene_of(_FIRST_SCENE + number % MADE)
    name = f"picture {number % MADE}"
    return OpenedPicture(given_array(draw_scene(scene)), name, captions_of(scene), scene, MADE)


def right_captions(scene: Scene) -> set[str]:
    """Every sentence that the rule can write about a scene: its wording is drawn so often that none is missing."""
    drawn_NK = uniforms(0, np.arange(_WORDINGS), CAPTION_DRAWS).tolist()
    sentences = (caption for drawn in drawn_NK for caption in captions_of(replace(scene, drawn=tuple(drawn))))
    return {" ".join(caption_words(sentence)) for sentence in sentences}


def made_pictures(first: int, count: int) -> MadePicturesAnswer:
    """Some made pictures, one beside the other."""
    scenes = [scene_of(_FIRST_SCENE + number) for number in range(first, min(first + count, MADE))]
    pixels = np.stack([draw_scene(scene) for scene in scenes])
    return MadePicturesAnswer(first=first, last=MADE - 1, shows=[str(scene) for scene in scenes], pixels=packed(pixels))


def open_held_out(model: TaskModel, number: int) -> OpenedPicture:
    """One of the pictures that a run was validated on, with the captions that people wrote."""
    if model not in _held_out:
        examples = store.learned_from(model.task, model.config, "the training")[1].examples
        _held_out[model] = [one for one in examples if isinstance(one, CaptionedPicture)]
    held_out = _held_out[model]
    if not held_out:
        raise OptionError("the run held out no pictures; pick made pictures or one of your own")
    one = held_out[number % len(held_out)]
    return OpenedPicture(one.picture, one.picture.name, one.captions, None, len(held_out))


def open_own(content: str) -> OpenedPicture:
    """A PNG or JPEG file of the visitor's, in base64."""
    try:
        file = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise OptionError(f"{_NAME} is not base64; expected the content of a PNG or JPEG file") from None
    if not file:
        raise OptionError("there is no picture yet; choose a PNG or JPEG file, or drop one")
    if len(file) > MOST_BYTES:
        size = f"{len(file) / 1e6:.1f} MB"
        raise OptionError(f"{_NAME} has {size}; expected at most {MOST_BYTES // 10**6} MB; try a smaller copy of it")
    if not file.startswith(_KINDS):
        raise OptionError(f"{_NAME} is neither a PNG nor a JPEG file; try saving it as one")
    return OpenedPicture(given_array(decode_bytes(file, _NAME, MOST_PIXELS)), _NAME)


def packed(pixels: NDArray[np.uint8]) -> PixelsAnswer:
    """Pictures [N, H, W] or [N, H, W, C] as they go over the wire."""
    count, height, width = pixels.shape[:3]
    channels = pixels.shape[3] if pixels.ndim == 4 else 1
    data = base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode("ascii")
    return PixelsAnswer(count=count, height=height, width=width, channels=channels, data=data)
