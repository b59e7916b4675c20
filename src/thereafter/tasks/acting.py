"""The task `act`: a network plays catch and sees glimpses of the screen alone; it learns from winning and losing.

An example is an episode, which is a number. There are no answers to learn from: the network plays, and its reward is 1
where the ball is caught. The loss is 1 - reward, the measure the share of balls that are caught. Shapes: B episodes, T
steps, A actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.data.finding import FileKind, find_files
from thereafter.errors import OptionError
from thereafter.evaluation.catch_measures import CatchScore, score_catches
from thereafter.images.catch_codec import CatchCodec
from thereafter.images.catch_game import ACTIONS, CATCH_FILES, Episode, Episodes, read_catch_rule
from thereafter.models.catch_settings import GAZES, CatchBatch, CatcherSettings, Game
from thereafter.models.catcher import Catcher
from thereafter.tasks.acting_answers import Played, PlayedExplained, PlayedPrediction, games_won
from thereafter.tasks.shown import Fields, Shown
from thereafter.tasks.task import Task
from thereafter.text.lines import lines_of

_MOST_HELD_OUT = 2_000
_DIGITS = 16  # of 2^53
_EXPECTED = "expected the number of an episode, such as 17, seed and number, such as 3:17, or a rule in a .json file"


class ActingCodecs(TypedDict):
    """What a run keeps of its games."""

    games: CatchCodec


class Acting(Task[CatcherSettings, Episode, CatchBatch, Catcher, Played, ActingCodecs]):
    """See `task.Task`."""

    name = "act"
    kind = "games"
    settings = CatcherSettings
    defaults: ClassVar[Mapping[str, object]] = {
        "epochs": 10.0,
        "batch": 256,
        "rate": 3e-3,
        "steps": 1024,
        "weight_decay": 0.0,
        "clip": 1.0,
        "precision": "float32",
    }
    file_kind: ClassVar[FileKind] = CATCH_FILES
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "step")}
    asks_files = True
    chooses = "places"

    def kinds(self) -> Sequence[str]:
        return GAZES

    def peers(self) -> Sequence[str]:
        return GAZES

    def read(self, files: Sequence[Path]) -> Episodes:
        return Episodes([read_catch_rule(path) for path in files])

    def hold_out(self, examples: Sequence[Episode], share: float) -> tuple[Sequence[Episode], list[Episode], str]:
        """The last episodes, at most 2,000; those of rules are not made before they are played."""
        cut = len(examples) - min(_MOST_HELD_OUT, max(1, round(share * len(examples))))
        learned = examples.first(cut) if isinstance(examples, Episodes) else list(examples[:cut])
        return learned, list(examples[cut:]), ""

    def codecs(self, examples: Sequence[Episode]) -> ActingCodecs:
        return {"games": CatchCodec.fit(examples)}

    def check(self, examples: Sequence[Episode], codecs: ActingCodecs, name: str) -> None:
        codecs["games"].check(examples, name)

    def build(self, settings: CatcherSettings, codecs: ActingCodecs) -> Catcher:
        return Catcher(settings, size=codecs["games"].side)

    def lengths(self, examples: Sequence[Episode], codecs: ActingCodecs) -> NDArray[np.int64]:
        return np.ones(len(examples), np.int64)

    def targets(self, examples: Sequence[Episode], codecs: ActingCodecs) -> int:
        return len(examples)

    def batch(self, examples: Sequence[Episode], codecs: ActingCodecs) -> CatchBatch:
        return CatchBatch(torch.from_numpy(codecs["games"].batch(examples)))

    def answers(self, net: Catcher, batch: CatchBatch, codecs: ActingCodecs) -> list[Played]:
        with net.quietly():
            return _ends(net.play(batch))

    def tabulate(
        self,
        net: Catcher,
        batch: CatchBatch,
        texts: Sequence[str],
        examples: Sequence[Episode],
        codecs: ActingCodecs,
        options: Mapping[str, object],
    ) -> list[PlayedPrediction]:
        """How every episode ended."""
        return [PlayedPrediction(*pair) for pair in zip(texts, self.answers(net, batch, codecs), strict=True)]

    def explain(
        self, net: Catcher, batch: CatchBatch, examples: Sequence[Episode], codecs: ActingCodecs
    ) -> list[PlayedExplained]:
        """Every game step by step: where was looked, and what was done."""
        return explain_games(net, batch)

    def shown(self, net: Catcher, batch: CatchBatch, example: Episode, codecs: ActingCodecs) -> Shown:
        (game,) = explain_games(net, batch)
        fields: Fields = {
            "place": (("step", "coordinate"), game.places_T2),
            "patches": (("step", "scale", "row", "column"), game.patches_TKgg),
            "policy": (("step", "action"), game.chances_TA),
            "expected": (("step",), game.expected_T),
            "action": (("step",), np.array(game.actions_T, np.int64)),
            "ball": (("step",), np.array(game.columns_T[:-1], np.int64)),
            "paddle": (("step",), np.array(game.paddles_T[:-1], np.int64)),
        }
        about = {"answer": str(game.answer), "actions": list(ACTIONS), "size": game.size}
        return Shown([f"step {step + 1}" for step in range(len(game.actions_T))], list(ACTIONS), fields, about)

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
        """All episodes of a rule, where a file is named; else the text itself."""
        files = find_files(text.strip(), CATCH_FILES) if text.strip().endswith(".json") else []
        return self.read(files) if files else [text]

    def cut(
        self, chunks: Iterable[str], codecs: ActingCodecs, *, pretokenised: bool = False
    ) -> Iterator[tuple[int, str, Episode]]:
        for number, line in enumerate(lines_of(chunks), start=1):
            for one in self.spelled(line) if line.strip() else ():
                episode = self.prepare(one, codecs)
                yield number, episode.name, episode

    def ask(self, files: Sequence[Path], codecs: ActingCodecs) -> Iterator[tuple[int, str, Episode]]:
        for number, one in enumerate(self.read(files), start=1):
            yield number, one.name, self.prepare(one, codecs)

    def measure(self, examples: Sequence[Episode], answers: Sequence[Played], codecs: ActingCodecs) -> CatchScore:
        return score_catches(games_won(answers))


def explain_games(net: Catcher, batch: CatchBatch) -> list[PlayedExplained]:
    """Games as the network plays them without chance, with what it chose by; the recurrent layer is called once."""
    with net.quietly():
        game = net.play(batch)
        _, h_BTU = net.read(game)
        chosen = net.choose(h_BTU)
    middles = (game.places_BT2.clamp(-1, 1) + 1) / 2 * net.size
    columns, paddles, actions = (one.tolist() for one in (game.columns_BT, game.paddles_BT, game.actions_BT))
    places, patches, chances, expected = (
        one.float().cpu().numpy() for one in (middles, game.patches_BTKgg, chosen.z_A.softmax(-1), chosen.expected)
    )
    return [
        PlayedExplained(
            end,
            net.size,
            tuple(columns[row]),
            tuple(paddles[row]),
            tuple(actions[row]),
            places[row],
            patches[row],
            chances[row],
            expected[row],
        )
        for row, end in enumerate(_ends(game))
    ]


def _ends(game: Game) -> list[Played]:
    last = (game.caught_B.tolist(), game.columns_BT[:, -1].tolist(), game.paddles_BT[:, -1].tolist())
    return [Played(*one) for one in zip(*last, strict=True)]


ACTING = Acting()
