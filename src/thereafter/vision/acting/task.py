"""The task `act`: a network plays catch and sees glimpses of the screen alone; it learns from winning and losing.

An example is an episode, which is a number. There are no answers to learn from: the network plays, and its reward is 1
where the ball is caught. The loss is 1 - reward, the measure the share of balls that are caught.

Shapes: B episodes, T steps, A actions, K scales, g pixels of a patch, 2 for x and y.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row
from thereafter.data.finding import FileKind, find_files
from thereafter.errors import OptionError
from thereafter.evaluation.bootstrap import ResampledMeans
from thereafter.tasks.answers import Fields, Shown, percent
from thereafter.vision.acting import game as catch
from thereafter.vision.acting.game import Episode, Episodes, Moment
from thereafter.vision.acting.network import GAZES, CatchBatch, Catcher, CatcherSettings, Game
from thereafter.vision.measures import CatchScore, resampled_catches, score_catches
from thereafter.vision.rules import uniforms
from thereafter.vision.task import VisionTask

Floats32 = NDArray[np.float32]
BALL, LOOKED, BOTH, BAR, BLACK = "o", "+", "*", "=", "."
"""What a screen is written with: where the ball was, where was looked, both, the paddle, nothing."""


@dataclass(frozen=True)
class Played:
    """How a game ended: whether the ball was caught, its `column`, and the left column of the `paddle`, from 0."""

    caught: bool
    column: int
    paddle: int

    def row(self) -> Row:
        """How the game ended, caught as 1 and missed as 0."""
        return {"caught": int(self.caught), "column": self.column, "paddle": self.paddle}

    def __str__(self) -> str:
        if self.caught:
            return "caught"
        left = self.column < self.paddle
        off = self.paddle - self.column if left else self.column - self.paddle - catch.PADDLE + 1
        return f"missed by {off} pixel{'s' * (off != 1)} on the {'left' if left else 'right'}"


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
        steps = [
            {
                "ball": [step, self.columns_T[step]],
                "paddle": self.paddles_T[step],
                "column": round(float(self.places_T2[step, 0]), 3),
                "row": round(float(self.places_T2[step, 1]), 3),
                "action": catch.ACTIONS[action],
                "probabilities": dict(zip(catch.ACTIONS, self.chances_TA[step].tolist(), strict=True)),
                "expected": float(self.expected_T[step]),
            }
            for step, action in enumerate(self.actions_T)
        ]
        answer = self.answer
        return {"caught": answer.caught, "column": answer.column, "paddle": answer.paddle, "steps": steps}

    def drawn(self) -> list[str]:
        """The whole game on one screen, a line a row: the ball's way, the middles of all glimpses, the paddle at the
        end."""
        rows = [[BLACK] * self.size for _ in range(self.size)]
        rows[-1][self.answer.paddle : self.answer.paddle + catch.PADDLE] = [BAR] * catch.PADDLE
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
            p = percent(float(self.chances_TA[step, action]))
            lines.append(
                f"  step {step + 1:>3}  ball in column {self.columns_T[step]:>3}, paddle {self.paddles_T[step]:>3}, "
                f"looked at column {column:4.1f}, row {row:4.1f}: {catch.ACTIONS[action]} {p}"
            )
        return "\n".join(lines)


_DIGITS = 16  # of 2^53
_EXPECTED = "expected the number of an episode, such as 17, seed and number, such as 3:17, or a rule in a .json file"


class ActingCodecs(TypedDict):
    """What a run keeps of its games."""

    games: catch.CatchCodec


class Acting(VisionTask[CatcherSettings, Episode, CatchBatch, Catcher, Played, ActingCodecs]):
    """See `task.Task`."""

    name = "act"
    kind = "games"
    unit = "episode"
    typed = "17"
    printed_by = ("score",)
    settings = CatcherSettings
    defaults: ClassVar[Mapping[str, object]] = {
        "epochs": 10.0, "batch": 256, "rate": 3e-3, "steps": 1024, "weight_decay": 0.0, "clip": 1.0,
        "precision": "float32",
    }  # fmt: skip
    file_kind: ClassVar[FileKind] = catch.CATCH_FILES
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "step")}
    chooses = "places"
    most_held_out = 2_000

    def kinds(self) -> Sequence[str]:
        return GAZES

    def read(self, files: Sequence[Path]) -> Episodes:
        return Episodes([catch.CatchRule.read(path) for path in files])

    def codecs(self, examples: Sequence[Episode]) -> ActingCodecs:
        return {"games": catch.CatchCodec.fit(examples)}

    def check(self, examples: Sequence[Episode], codecs: ActingCodecs, name: str) -> None:
        codecs["games"].check(examples, name)

    def build(self, settings: CatcherSettings, codecs: ActingCodecs) -> Catcher:
        return Catcher(settings, size=codecs["games"].side)

    def batch(self, examples: Sequence[Episode], codecs: ActingCodecs) -> CatchBatch:
        return CatchBatch(torch.from_numpy(codecs["games"].batch(examples)))

    def answers(self, net: Catcher, batch: CatchBatch, codecs: ActingCodecs) -> list[Played]:
        with net.quietly():
            return _ends(net.play(batch))

    def columns(self, answer: Played) -> list[Row]:
        return [answer.row()]

    def explain(
        self, net: Catcher, batch: CatchBatch, examples: Sequence[Episode], codecs: ActingCodecs
    ) -> list[PlayedExplained]:
        """Every game step by step, as the network plays it without chance, with what it chose by; the recurrent layer
        is called once."""
        with net.quietly():
            game = net.play(batch)
            _, h_BTU = net.read(game)
            chosen = net.choose(h_BTU)
        middles = (game.places_BT2.clamp(-1, 1) + 1) / 2 * net.size
        numbers = (map(tuple, one.tolist()) for one in (game.columns_BT, game.paddles_BT, game.actions_BT))
        arrays = (middles, game.patches_BTKgg, chosen.z_A.softmax(-1), chosen.expected)
        rows = zip(_ends(game), *numbers, *(one.float().cpu().numpy() for one in arrays), strict=True)
        return [PlayedExplained(end, net.size, *row) for end, *row in rows]

    def shown(self, net: Catcher, batch: CatchBatch, example: Episode, codecs: ActingCodecs) -> Shown:
        (game,) = self.explain(net, batch, [example], codecs)
        fields: Fields = {
            "place": (("step", "coordinate"), game.places_T2),
            "patches": (("step", "scale", "row", "column"), game.patches_TKgg),
            "policy": (("step", "action"), game.chances_TA),
            "expected": (("step",), game.expected_T),
            "action": (("step",), np.array(game.actions_T, np.int64)),
            "ball": (("step",), np.array(game.columns_T[:-1], np.int64)),
            "paddle": (("step",), np.array(game.paddles_T[:-1], np.int64)),
        }
        about = {"answer": str(game.answer), "actions": list(catch.ACTIONS), "size": game.size}
        return Shown([f"step {step + 1}" for step in range(len(game.actions_T))], list(catch.ACTIONS), fields, about)

    def example(self, given: object) -> Episode:
        """An `Episode`; or its number, or its seed and number as a text such as 3:17, on a screen as in training."""
        if isinstance(given, Episode):
            return given
        seed, _, number = str(given).strip().rpartition(":")
        if isinstance(given, bool) or not isinstance(given, int | str) or not number.isdecimal():
            raise OptionError(f"the episode is {repr(given)[:80]}; {_EXPECTED}")
        long = max(len(seed), len(number)) > _DIGITS
        if long or not (seed or "0").isdecimal() or max(int(seed or 0), int(number)) >= 2**53:
            raise OptionError(f"the episode is {repr(given)[:80]}; {_EXPECTED}, each below 2^53")
        return Episode(int(number), int(seed or 0))

    def prepare(self, given: object, codecs: ActingCodecs) -> Episode:
        one = self.example(given)
        codecs["games"].check([one], f"the episode {one.name}")
        return one

    def spelled(self, text: str) -> Sequence[object]:
        """All episodes of a rule, where a file is named; else the one that the text names."""
        files = find_files(text.strip(), catch.CATCH_FILES) if text.strip().endswith(".json") else []
        return self.read(files) if files else [self.example(text)]

    def measure(self, examples: Sequence[Episode], answers: Sequence[Played], codecs: ActingCodecs) -> CatchScore:
        return score_catches([one.caught for one in answers])

    def resampled(self, examples: Sequence[Episode], answers: Sequence[Played], codecs: ActingCodecs) -> ResampledMeans:
        return resampled_catches([one.caught for one in answers])

    def beside(self, learned: Sequence[Episode], asked: Sequence[Episode]) -> Mapping[str, Callable[[], list[Played]]]:
        """Other players: one without a plan, one that does nothing, one that foresees where the ball comes down."""
        players: Mapping[str, Callable[[Episode], Player]] = {
            "random actions": at_random,
            "standing still": lambda episode: lambda moment: catch.ACTIONS.index("stay"),
            "sees the whole screen": lambda episode: catch.foreseeing(episode, episode.size or catch.SIZE),
        }
        return {name: partial(_played, player, asked) for name, player in players.items()}

    def variants(self, learned: Sequence[Episode]) -> Mapping[str, Mapping[str, object]]:
        """The same network that looks at the centre."""
        return {"looks at the centre": {"places": "centre"}}


def _ends(game: Game) -> list[Played]:
    last = (game.caught_B.tolist(), game.columns_BT[:, -1].tolist(), game.paddles_BT[:, -1].tolist())
    return [Played(*one) for one in zip(*last, strict=True)]


_SEED = 20_261_117
Player = Callable[[Moment], int]
"""What to do, from all that can be seen."""


def at_random(episode: Episode) -> Player:
    """Every action is as likely as any other; drawn from the number of the episode."""
    drawn_T = uniforms(_SEED + episode.seed, [episode.number], episode.size or catch.SIZE)[0].tolist()
    return lambda moment: int(drawn_T[moment.row] * len(catch.ACTIONS))


def _played(player: Callable[[Episode], Player], episodes: Sequence[Episode]) -> list[Played]:
    ends = [catch.play(one, player(one), one.size or catch.SIZE)[-1] for one in episodes]
    return [Played(catch.caught(last), last.column, last.paddle) for last in ends]


ACTING = Acting()
