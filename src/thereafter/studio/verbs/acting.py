"""The verb of the panel Catch: a game as a network plays it, step by step. Shapes: K scales, g pixels of a patch."""

from __future__ import annotations

import numpy as np

from thereafter.errors import OptionError
from thereafter.studio.answers.acting import GameAnswer, GameStepAnswer
from thereafter.studio.verbs.glimpsing import squares
from thereafter.studio.verbs.numbers import numbers
from thereafter.studio.verbs.pictures import packed
from thereafter.task_model import TaskModel
from thereafter.vision.acting.game import ACTIONS, PADDLE, Episode
from thereafter.vision.acting.network import Catcher
from thereafter.vision.acting.task import PlayedExplained

SEED = 20_261_119
"""Of the episodes that are played: those of the test part of `catch`."""


def play(model: TaskModel, number: int) -> GameAnswer:
    """The game of a number as the network plays it, always choosing what it finds best."""
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
