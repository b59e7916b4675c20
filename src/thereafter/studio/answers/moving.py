"""Answers of the panel Moving digits: a clip, what is believed of it after every frame, and the frames that come."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.studio.answers.pixels import PixelsAnswer


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
