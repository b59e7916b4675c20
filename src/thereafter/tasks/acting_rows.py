"""What a player of catch has to beat, and what nobody beats: players without a network."""

from __future__ import annotations

from collections.abc import Callable

from thereafter.images.catch_game import ACTIONS, SIZE, Episode, Moment, caught, foreseeing, play
from thereafter.images.draws import uniforms
from thereafter.tasks.acting_answers import Played
from thereafter.tasks.finding import Part

_SEED = 20_261_117
Player = Callable[[Moment], int]
"""What to do, from all that can be seen."""


def at_random(train: Part, test: Part) -> list[Played]:
    """Every action is as likely as any other; drawn from the number of the episode."""

    def player(episode: Episode) -> Player:
        drawn_T = uniforms(_SEED + episode.seed, [episode.number], episode.size or SIZE)[0].tolist()
        return lambda moment: int(drawn_T[moment.row] * len(ACTIONS))

    return _played(player, test)


def standing_still(train: Part, test: Part) -> list[Played]:
    """The paddle stays where it is."""
    return _played(lambda _: lambda _: ACTIONS.index("stay"), test)


def seeing_all(train: Part, test: Part) -> list[Played]:
    """Sees the whole screen, and knows where the ball comes down."""
    return _played(lambda episode: foreseeing(episode, episode.size or SIZE), test)


def _played(player: Callable[[Episode], Player], test: Part) -> list[Played]:
    ends = [play(one, player(one), one.size or SIZE)[-1] for one in test.examples if isinstance(one, Episode)]
    return [Played(caught(last), last.column, last.paddle) for last in ends]
