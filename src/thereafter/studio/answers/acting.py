"""Answers of the panel Catch: a game step by step, what the network saw and what it chose by."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.studio.answers.glimpsing import SquareAnswer
from thereafter.studio.answers.pixels import PixelsAnswer


class GameStepAnswer(Answer):
    """One step of a game. `ball` is the column of the ball, whose row is the number of the step from 0, `paddle` the
    left column of the paddle. The network looked at `column` and `row`, in pixels: `squares` and `patches` are what it
    saw, from the sharpest scale to the widest. `chances`: the probability of every action; `expected`: the reward that
    it expects; `action` is what it did, a number of them."""

    ball: int
    paddle: int
    column: float
    row: float
    squares: list[SquareAnswer]
    patches: PixelsAnswer
    chances: list[float | None]
    expected: float
    action: int


class GameAnswer(Answer):
    """A game by its name on a screen of `size` x `size` pixels; the paddle is `wide` pixels. `ball` and `paddle`: their
    columns at the end."""

    name: str
    size: int
    wide: int
    actions: list[str]
    steps: list[GameStepAnswer]
    ball: int
    paddle: int
    caught: bool
