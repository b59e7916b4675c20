"""The panel Moving digits: what is believed of a clip after every frame, and the frames that come next.

A clip shows a written digit by number, one that the visitor drew, or was held out by a run. Shapes: T frames, K frames
ahead, H rows, W columns, h pixels from edge to edge of a digit, L labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from thereafter.errors import OptionError
from thereafter.serving.schema import Answer, Asked, ModelName
from thereafter.studio.asking import numbers, of_studio, of_task_model, rows, wrong_task
from thereafter.studio.panels.pictures import Ink, PixelsAnswer, RunExamples, as_digit, packed
from thereafter.task_model import TaskModel
from thereafter.vision.clips.clip import Clip, ClipCodec
from thereafter.vision.clips.labels import ClipExplained
from thereafter.vision.clips.moving import NAMES, MovingClips, headings, move
from thereafter.vision.clips.next_frames import FramesExplained
from thereafter.vision.made_pictures import moving_rules
from thereafter.vision.pictures.glyphs import SIDE, numbered_glyphs

MOST_SPEED = 6.0
"""Pixels a frame that a drawn digit can go."""
_DRAWN_FROM = 8_000  # written digits that are in no training
_RULES = {1: "moving-glyph", 2: "moving-glyphs"}
_TWO = ("moving-digits", "moving-glyphs")
_HELD_OUT: RunExamples[Clip] = RunExamples(
    "clips; pick a written digit or draw one", lambda one: one if isinstance(one, Clip) else None
)
FRAMES = 10
"""Of a clip whose labels are asked for, where it is made here."""


class DigitAnswer(Answer):
    """A written digit to begin a drawing with; `ink`: 28 rows of 28 pixels, a hexadecimal digit each."""

    digit: int
    ink: str


class BeliefAnswer(Answer):
    """One column of labels: `belief[t][l]` is the probability of label l after frame t; `answer` is the likeliest at
    the end, `true` what is right, null where nobody knows. `turns`: where labels are directions, the angle of each in
    whole turns, counter-clockwise from the right."""

    column: str
    labels: list[str]
    turns: list[float] | None
    belief: list[list[float | None]]
    answer: str
    true: str | None


class WatchedAnswer(Answer):
    """A clip by its name, one of `count` of its source, and the beliefs of a model about it."""

    name: str
    count: int
    frames: PixelsAnswer
    beliefs: list[BeliefAnswer]


class ForeseenAnswer(Answer):
    """Frames that were read, those that came after them, and what a model expected: the chance of each pixel to be
    lit. By step: `nats` of the frame that came, the squared error of the prediction, and that of the last frame
    `copied`, both summed over pixels from 0 to 1."""

    name: str
    digits: int | None
    read: PixelsAnswer
    came: PixelsAnswer
    predicted: PixelsAnswer
    nats: list[float | None]
    errors: list[float | None]
    copied: list[float | None]


class ClipAsked(Asked):
    """`source`: a "made" clip of written digits or one "held-out" by the run, both by `number`; or a "drawn" digit.

    `ink`: 28 rows of 28 pixels, a hexadecimal digit each, 0 to f; `direction` is where it begins to go, in sixteenths
    of a turn counter-clockwise from the right; `speed` in pixels a frame.
    """

    model: ModelName
    source: Literal["made", "held-out", "drawn"] = "made"
    number: Annotated[int, Field(ge=0, le=1_000_000, description="Which clip of its source.")] = 0
    ink: Ink = ""
    direction: Annotated[int, Field(ge=0, le=15)] = 0
    speed: Annotated[float, Field(ge=1, le=6)] = 3.0


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
    clips = _made_clips(_frame_side(codec), frames, digits)
    clip = clips[number % len(clips)]
    return OpenedClip(clip.read(), f"clip {number % len(clips)}", dict(clip.labels), len(clips), digits)


def open_drawn(ink: str, direction: int, speed: float, codec: ClipCodec, frames: int) -> OpenedClip:
    """A digit that the visitor drew; it begins in the middle, in one of the 16 directions, and bounces."""
    side = _frame_side(codec)
    step_2 = speed * headings(direction / len(NAMES))
    middle = (side - SIDE) / 2
    frames_THW = move(as_digit(ink)[None], [[middle, middle]], step_2[None], frames, side)
    return OpenedClip(frames_THW, "your digit", {"direction": NAMES[direction]}, digits=1)


def open_held_out(model: TaskModel, number: int) -> OpenedClip:
    """One of the clips that a run was validated on."""
    clip, count = _HELD_OUT.pick(model, number)
    return OpenedClip(clip.read(), f"clip {clip.name}", dict(clip.labels), count)


@lru_cache(maxsize=8)
def _made_clips(side: int, frames: int, digits: int) -> MovingClips:
    return MovingClips(replace(moving_rules(_RULES[digits])["test"], size=side, frames=frames))


def _frame_side(codec: ClipCodec) -> int:
    """The size of the frames, where a digit can move in them."""
    if codec.height != codec.width or codec.height < SIDE + MOST_SPEED:
        raise OptionError(
            f"this model reads frames of {codec.width} x {codec.height} pixels; expected a square in which a digit of "
            f"{SIDE} can move; pick its held-out clips"
        )
    return codec.height


def codec_of(model: TaskModel, task: str) -> ClipCodec:
    """What the clips of a model have in common; OptionError where it was trained to something else."""
    codec = model.codecs.get("clips")
    if model.task.name != task or not isinstance(codec, ClipCodec):
        raise wrong_task(model, task)
    return codec


def watch(model: TaskModel, opened: OpenedClip) -> WatchedAnswer:
    """The labels of a clip, and what was believed after each frame."""
    explained = model.explain(opened.frames_THW)
    assert isinstance(explained, ClipExplained)
    beliefs = [
        BeliefAnswer(
            column=column,
            labels=list(names),
            # the angles of labels that are directions
            turns=[NAMES.index(label) / len(NAMES) for label in names] if set(names) <= set(NAMES) else None,
            belief=rows(belief_TL.astype(np.float64).round(6)),
            answer=explained.answer.labels[column],
            true=opened.labels.get(column),
        )
        for (column, belief_TL), names in zip(explained.beliefs.items(), explained.names.values(), strict=True)
    ]
    return WatchedAnswer(name=opened.name, count=opened.count, frames=packed(opened.frames_THW), beliefs=beliefs)


def foresee(model: TaskModel, opened: OpenedClip) -> ForeseenAnswer:
    """The last frames of a clip as they are predicted from those before them, beside what came."""
    explained = model.explain(opened.frames_THW)
    assert isinstance(explained, FramesExplained)
    came_KHW = explained.came_KHW / 255
    copied_K = np.square(came_KHW - explained.read_THW[-1] / 255).sum((1, 2))
    return ForeseenAnswer(
        name=opened.name,
        digits=opened.digits,
        read=packed(explained.read_THW),
        came=packed(explained.came_KHW),
        predicted=packed(explained.predicted.pixels_KHW),
        nats=numbers(np.array(explained.judged.nats_K)),
        errors=numbers(np.array(explained.judged.errors_K)),
        copied=numbers(copied_K),
    )


@of_studio("GET", "/tasks/video/digit")
def written_digit(number: Annotated[int, Field(ge=0, le=1_999)] = 7) -> DigitAnswer:
    """A written digit to begin a drawing with: the last figure of the number."""
    pixels_hh = numbered_glyphs([_DRAWN_FROM + number])[0]
    ink = "".join(f"{level:x}" for level in np.rint(pixels_hh.ravel() / 17).astype(int).tolist())
    return DigitAnswer(digit=number % 10, ink=ink)


@of_task_model("/tasks/video", "watch")
def watch_clip(model: TaskModel, asked: ClipAsked) -> WatchedAnswer:
    """A clip, and what a model believes of each column of labels after every frame."""
    codec = codec_of(model, "video")
    return watch(model, _open(model, codec, FRAMES, asked))


@of_task_model("/tasks/next-frames", "foresee")
def foresee_clip(model: TaskModel, asked: ClipAsked) -> ForeseenAnswer:
    """The last frames of a clip as a model expects them from those before, beside what came."""
    codec = codec_of(model, "next-frames")
    return foresee(model, _open(model, codec, codec.read + codec.ahead, asked))


def _open(model: TaskModel, codec: ClipCodec, frames: int, asked: ClipAsked) -> OpenedClip:
    if asked.source == "drawn":
        return open_drawn(asked.ink, asked.direction, asked.speed, codec, frames)
    if asked.source == "held-out":
        return open_held_out(model, asked.number)
    # as far as the name of the clips that the model learned from says it
    digits = 2 if str(model.config["source"]["name"]).partition(":")[0] in _TWO else 1
    return open_made(asked.number, codec, frames, digits)
