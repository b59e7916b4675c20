"""The panel Catch: a game as a network plays it, step by step. Shapes: K scales, g pixels of a patch."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from thereafter.errors import OptionError
from thereafter.serving.schema import Answer, Asked, ModelName
from thereafter.studio.asking import of_task_model
from thereafter.studio.panels.glimpsing import SquareAnswer, squares
from thereafter.studio.panels.numbers import numbers
from thereafter.studio.panels.pictures import PixelsAnswer, packed
from thereafter.task_model import TaskModel
from thereafter.vision.acting.game import ACTIONS, PADDLE, Episode
from thereafter.vision.acting.network import Catcher
from thereafter.vision.acting.task import PlayedExplained

SEED = 20_261_119
"""Of the episodes that are played: those of the test part of `catch`."""


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


class GameAsked(Asked):
    """Which game to play."""

    model: ModelName
    number: Annotated[int, Field(ge=0, le=1_000_000, description="Of the episode.")] = 0


@of_task_model(GameAsked)
def play(model: TaskModel, number: int) -> GameAnswer:
    """A game of catch: where the network looked, what it saw there, and what it did.

    It is the game of that number, in which the network always chooses what it finds best.
    """
    if not isinstance(model.net, Catcher):
        raise OptionError(f"this model was trained to {model.task.name}; expected one trained to act; pick another")
    game = model.explain(Episode(number, SEED))
    assert isinstance(game, PlayedExplained)
    steps = []
    for step, action in enumerate(game.actions_T):
        column, row = (float(value) for value in game.places_T2[step])
        steps.append(
            GameStepAnswer(
                ball=game.columns_T[step],
                paddle=game.paddles_T[step],
                column=round(column, 3),
                row=round(row, 3),
                squares=squares(model, column, row),
                patches=packed((255 * np.minimum(game.patches_TKgg[step], 1)).astype(np.uint8)),
                chances=numbers(game.chances_TA[step].astype(np.float64).round(6)),
                expected=round(float(game.expected_T[step]), 6),
                action=action,
            )
        )
    return GameAnswer(
        name=f"game {number}",
        size=game.size,
        wide=PADDLE,
        actions=list(ACTIONS),
        steps=steps,
        ball=game.answer.column,
        paddle=game.answer.paddle,
        caught=game.answer.caught,
    )
