"""Games of catch as they were played. Shapes: T steps, A actions, K scales, g pixels of a patch, 2 for x and y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.images.catch_game import ACTIONS, PADDLE
from thereafter.tabular import Row

Floats32 = NDArray[np.float32]
BALL, LOOKED, BOTH, BAR, BLACK = "o", "+", "*", "=", "."
"""What a screen is written with: where the ball was, where was looked, both, the paddle, nothing."""


@dataclass(frozen=True)
class Played:
    """How a game ended: whether the ball was caught, its `column`, and the left column of the `paddle`, from 0."""

    caught: bool
    column: int
    paddle: int

    def __str__(self) -> str:
        if self.caught:
            return "caught"
        left = self.column < self.paddle
        off = self.paddle - self.column if left else self.column - self.paddle - PADDLE + 1
        return f"missed by {off} pixel{'s' * (off != 1)} on the {'left' if left else 'right'}"


@dataclass(frozen=True)
class PlayedPrediction:
    """An episode by its name, with how it ended."""

    episode: str
    answer: Played

    def rows(self) -> list[Row]:
        answer = self.answer
        ended: Row = {"caught": int(answer.caught), "column": answer.column, "paddle": answer.paddle}
        return [{"episode": self.episode, **ended}]

    def __str__(self) -> str:
        return str(self.answer)


@dataclass(frozen=True, eq=False)
class PlayedExplained:
    """A game step by step, on a screen of `size` x `size` pixels.

    At step t the ball is in row t and `columns_T`, the paddle begins at `paddles_T`; both have one more, the end.
    `places_T2`: the middle of each glimpse, column and row in pixels from the upper left corner; `patches_TKgg`: how
    many lit pixels each of its cells covers. `actions_T`, numbers of `ACTIONS`; `chances_TA`: the probability of each.
    `expected_T`: the reward that is expected.
    """

    answer: Played
    size: int
    columns_T: tuple[int, ...]
    paddles_T: tuple[int, ...]
    actions_T: tuple[int, ...]
    places_T2: Floats32 = field(repr=False)
    patches_TKgg: Floats32 = field(repr=False)
    chances_TA: Floats32 = field(repr=False)
    expected_T: Floats32 = field(repr=False)

    def as_dict(self) -> Table:
        """Plain JSON values."""
        steps = []
        for step, action in enumerate(self.actions_T):
            column, row = (round(float(value), 3) for value in self.places_T2[step])
            steps.append(
                {
                    "ball": [step, self.columns_T[step]],
                    "paddle": self.paddles_T[step],
                    "column": column,
                    "row": row,
                    "action": ACTIONS[action],
                    "probabilities": dict(zip(ACTIONS, self.chances_TA[step].tolist(), strict=True)),
                    "expected": float(self.expected_T[step]),
                }
            )
        answer = self.answer
        return {"caught": answer.caught, "column": answer.column, "paddle": answer.paddle, "steps": steps}

    def drawn(self) -> list[str]:
        """The whole game on one screen, a line a row: the ball's way, the middles of all glimpses, the paddle at the
        end."""
        rows = [[BLACK] * self.size for _ in range(self.size)]
        rows[-1][self.answer.paddle : self.answer.paddle + PADDLE] = [BAR] * PADDLE
        for row, column in enumerate(self.columns_T):
            rows[row][column] = BALL
        for column, row in np.clip(self.places_T2.astype(int), 0, self.size - 1).tolist():
            rows[row][column] = BOTH if rows[row][column] in (BALL, BOTH) else LOOKED
        return ["".join(row) for row in rows]

    def __str__(self) -> str:
        lines = [f"{self.answer}; {BALL} the ball, {LOOKED} glimpses, {BOTH} both, {BAR} the paddle at the end"]
        lines += [f"  {line}" for line in self.drawn()]
        for step, action in enumerate(self.actions_T):
            column, row = self.places_T2[step].tolist()
            p = f"{self.chances_TA[step, action]:.1%}".replace("%", " %")
            lines.append(
                f"  step {step + 1:>3}  ball in column {self.columns_T[step]:>3}, paddle {self.paddles_T[step]:>3}, "
                f"looked at column {column:4.1f}, row {row:4.1f}: {ACTIONS[action]} {p}"
            )
        return "\n".join(lines)


def games_won(answers: Sequence[object]) -> list[bool]:
    """Which games were won."""
    return [one.caught for one in answers if isinstance(one, Played)]
