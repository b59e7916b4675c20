"""The game of catch: a ball falls, a paddle moves under it. Episodes are pure functions of (seed, number).

A screen of size x size pixels. The ball, one pixel, begins in the top row at a random column with a random slant,
falls a row a step and bounces off the walls; the paddle, two pixels of the bottom row, begins anywhere and goes left,
stays or goes right by one pixel a step. After size - 1 steps the ball is in the bottom row: the reward is 1 where the
paddle is under it, else 0 (Mnih, Heess, Graves and Kavukcuoglu 2014, section 4.2, with size 24).

    s_t = 64 column_0 + t slant                           slant: a whole number from -64 to 64, in 64ths of a pixel
    column_t = round((w - |s_t mod 2 w - w|) / 64)        w = 64 (size - 1)

Places are whole numbers, so that every machine plays the same game. `play` is the game as people play it, step by step;
`network.py` plays many episodes at once, from their beginnings as numbers. Shapes: B episodes, H and W of the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.data.finding import FileKind
from thereafter.errors import FormatError, OptionError
from thereafter.vision.rules import Integers, Pixels, Rule, uniforms

CATCH_FILES = FileKind("rules of catch", ((".json",),))
ACTIONS = ("left", "stay", "right")
SIZE, PADDLE = 24, 2
FINE = 64
"""Parts of a pixel in which slants are counted."""


@dataclass(frozen=True)
class CatchRule(Rule):
    """`count` episodes on a screen of size x size pixels."""

    format: ClassVar[str] = "catch"
    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {"size": (3, 256), "count": (1, 10**8), "seed": (0, 2**63 - 1)}
    size: int = SIZE
    count: int = 1000
    seed: int = 0


@dataclass(frozen=True)
class Episode:
    """One game: its `number` among those of a `seed`, on a screen of `size` (0: as large as that of the others)."""

    number: int
    seed: int = 0
    size: int = 0

    @property
    def name(self) -> str:
        """As it is asked for: the number, with the seed where that is not 0."""
        return f"{self.seed}:{self.number}" if self.seed else str(self.number)


class Episodes(Sequence[Episode]):
    """All episodes of rules, each made when it is asked for.

    >>> Episodes([CatchRule(count=3, seed=5), CatchRule(count=2, seed=6)])[3].name
    '6:0'
    """

    def __init__(self, rules: Sequence[CatchRule]) -> None:
        self.rules = tuple(rules)
        self._ends = np.cumsum([rule.count for rule in rules])

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.rules else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Episodes) and self.rules == other.rules

    def first(self, count: int) -> Episodes:
        """So many from the beginning; a rule may have 10^8, so none is made.

        >>> len(Episodes([CatchRule(count=10**8)]).first(10**7))
        10000000
        """
        begins = [int(end) - rule.count for end, rule in zip(self._ends, self.rules, strict=True)]
        pairs = zip(self.rules, begins, strict=True)
        return Episodes([replace(one, count=min(one.count, count - begin)) for one, begin in pairs if begin < count])

    @overload
    def __getitem__(self, at: int) -> Episode: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Episode]: ...

    def __getitem__(self, at: int | slice) -> Episode | Sequence[Episode]:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            if (begin, step) == (0, 1):
                return self.first(end)
            return [self[k] for k in range(begin, end, step)]
        k = range(len(self))[at]
        which = int(np.searchsorted(self._ends, k, side="right"))
        rule = self.rules[which]
        return Episode(k - int(self._ends[which]) + rule.count, rule.seed, rule.size)


def starts_of(episodes: Sequence[Episode], size: int) -> Integers:
    """How these episodes begin on a screen of `size`, [B, 3]: column and slant of the ball, the left column of the
    paddle. All columns and slants are equally likely."""
    drawn_B3 = np.zeros((len(episodes), 3))
    seeds_B = np.array([one.seed for one in episodes], np.uint64)
    numbers_B = np.array([one.number for one in episodes], np.uint64)
    for seed in np.unique(seeds_B).tolist():
        drawn_B3[seeds_B == seed] = uniforms(seed, numbers_B[seeds_B == seed], 3)
    ranges_3 = np.array([size, 2 * FINE + 1, size - PADDLE + 1])
    return np.asarray((drawn_B3 * ranges_3).astype(np.int64) - np.array([0, FINE, 0]))


@dataclass(frozen=True)
class Moment:
    """What the screen shows: row and column of the ball, and the left column of the paddle."""

    row: int
    column: int
    paddle: int


def play(episode: Episode, act: Callable[[Moment], int], size: int = SIZE) -> list[Moment]:
    """Play one game: every moment from the first to the last; `act` says 0 (left), 1 (stay) or 2 (right).

    >>> [moment.paddle for moment in play(Episode(7), lambda moment: 2, size=4)]
    [1, 2, 2, 2]
    """
    ball, speed, paddle = starts_of([episode], size)[0].tolist()
    fine, wide = FINE * ball, FINE * (size - 1)
    moments = [Moment(0, ball, paddle)]
    for row in range(1, size):
        paddle = min(max(paddle + act(moments[-1]) - 1, 0), size - PADDLE)
        fine += speed
        if fine < 0:
            fine, speed = -fine, -speed
        elif fine > wide:
            fine, speed = 2 * wide - fine, -speed
        moments.append(Moment(row, (fine + FINE // 2) // FINE, paddle))
    return moments


def caught(last: Moment) -> bool:
    """Whether the paddle is under the ball."""
    return last.paddle <= last.column < last.paddle + PADDLE


def screen(moment: Moment, size: int) -> Pixels:
    """The pixels of a moment, [H, W]: 255 where the ball or the paddle is."""
    pixels_HW = np.zeros((size, size), np.uint8)
    pixels_HW[moment.row, moment.column] = 255
    pixels_HW[-1, moment.paddle : moment.paddle + PADDLE] = 255
    return pixels_HW


def foreseeing(episode: Episode, size: int) -> Callable[[Moment], int]:
    """What one does who sees the whole screen and knows where the ball comes down: goes there by the nearer pixel."""
    aim = play(episode, lambda _: 1, size)[-1].column
    return lambda moment: 0 if aim < moment.paddle else 2 if aim >= moment.paddle + PADDLE else 1


_DAMAGED = "the games of this run are damaged; expected the size of the screen, 3 to 256; try training again"


@dataclass(frozen=True)
class CatchCodec:
    """What the games of a task have in common: the `side` of the screen, in pixels. See `data/codecs.py`."""

    codec: ClassVar[str] = "catch"
    size: ClassVar[int] = 0
    side: int

    @classmethod
    def fit(cls, episodes: Sequence[Episode]) -> Self:
        """The screen of the first episode; `check` says whether the others have it too."""
        if not episodes:
            raise OptionError("there are no episodes to learn from; expected at least one")
        return cls(episodes[0].size or SIZE)

    def check(self, episodes: Sequence[Episode], name: str) -> None:
        """Refuse a screen of another size."""
        rules = episodes.rules if isinstance(episodes, Episodes) else episodes
        for one in rules:
            if one.size not in (0, self.side):
                raise FormatError(
                    f"{name} is played on a screen of {one.size} x {one.size} pixels; expected {self.side} x "
                    f"{self.side}, as in training"
                )

    def encode(self, numbers: Sequence[int]) -> NDArray[np.uint64]:
        """The numbers of episodes."""
        return np.array(numbers, np.uint64)

    def decode(self, numbers: NDArray[np.generic]) -> list[int]:
        """The numbers as they are."""
        return [int(number) for number in np.asarray(numbers, np.uint64).tolist()]

    def batch(self, episodes: Sequence[Episode]) -> Integers:
        """How episodes begin (`starts_of`)."""
        self.check(episodes, "an episode")
        return starts_of(episodes, self.side)

    def to_json(self) -> Table:
        return {"side": self.side}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        side = stored.get("side")
        if type(side) is not int or not 3 <= side <= 256:
            raise FormatError(_DAMAGED)
        return cls(side)
