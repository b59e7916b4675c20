"""Clips for the panel Moving digits: a written digit by number, one that the visitor drew, or clips a run held out.

Shapes: T frames, H rows, W columns, h pixels from edge to edge of a digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.studio.answers.moving import DigitAnswer
from thereafter.task_model import TaskModel
from thereafter.tasks import finding
from thereafter.vision.clips.clip import Clip, ClipCodec
from thereafter.vision.clips.moving import NAMES, MovingClips, headings, move
from thereafter.vision.made_pictures import moving_rules
from thereafter.vision.pictures.glyphs import SIDE, numbered_glyphs

INK = SIDE * SIDE
"""Pixels of a drawing, a hexadecimal digit each."""
MOST_SPEED = 6.0
"""Pixels a frame that a drawn digit can go."""
_BOX = 19  # pixels of the longer side of a drawn digit, about as those of training
_DRAWN_FROM = 8_000  # written digits that are in no training
_RULES = {1: "moving-glyph", 2: "moving-glyphs"}
_TWO = ("moving-digits", "moving-glyphs")
_held_out: WeakKeyDictionary[TaskModel, Sequence[Clip]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class OpenedClip:
    """Frames, and what is known of them. `count`: the clips of its source; `digits`: how many move, None where no rule
    says it."""

    frames_THW: NDArray[np.uint8]
    name: str
    labels: dict[str, str]
    count: int = 1
    digits: int | None = None


def open_made(number: int, codec: ClipCodec, frames: int, digits: int = 1) -> OpenedClip:
    """A written digit that moves by rule, or two; none of them was in a training."""
    clips = _made(_side(codec), frames, digits)
    clip = clips[number % len(clips)]
    return OpenedClip(clip.read(), f"clip {number % len(clips)}", dict(clip.labels), len(clips), digits)


def open_drawn(ink: str, direction: int, speed: float, codec: ClipCodec, frames: int) -> OpenedClip:
    """A digit that the visitor drew; it begins in the middle, in one of the 16 directions, and bounces."""
    side = _side(codec)
    step_2 = speed * headings(direction / len(NAMES))
    middle = (side - SIDE) / 2
    frames_THW = move(as_digit(ink)[None], [[middle, middle]], step_2[None], frames, side)
    return OpenedClip(frames_THW, "your digit", {"direction": NAMES[direction]}, digits=1)


def open_held_out(model: TaskModel, number: int) -> OpenedClip:
    """One of the clips that a run was validated on."""
    if model not in _held_out:
        examples = finding.learned_from(model.task, model.config, "the training")[1].examples
        _held_out[model] = [one for one in examples if isinstance(one, Clip)]
    clips = _held_out[model]
    if not clips:
        raise OptionError("the run held out no clips; pick a written digit or draw one")
    clip = clips[number % len(clips)]
    return OpenedClip(clip.read(), f"clip {clip.name}", dict(clip.labels), len(clips))


def written_digit(number: int) -> DigitAnswer:
    """A written digit as a drawing has it: the last figure of its number."""
    pixels_hh = numbered_glyphs([_DRAWN_FROM + number])[0]
    ink = "".join(f"{level:x}" for level in np.rint(pixels_hh.ravel() / 17).astype(int).tolist())
    return DigitAnswer(digit=number % 10, ink=ink)


def digits_of(model: TaskModel) -> int:
    """How many digits moved in the clips that a model learned from, as far as their name says it."""
    return 2 if str(model.config["source"]["name"]).partition(":")[0] in _TWO else 1


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
def _made(side: int, frames: int, digits: int) -> MovingClips:
    return MovingClips(replace(moving_rules(_RULES[digits])["test"], size=side, frames=frames))


def _side(codec: ClipCodec) -> int:
    """The size of the frames, where a digit can move in them."""
    if codec.height != codec.width or codec.height < SIDE + MOST_SPEED:
        raise OptionError(
            f"this model reads frames of {codec.width} x {codec.height} pixels; expected a square in which a digit of "
            f"{SIDE} can move; pick its held-out clips"
        )
    return codec.height
