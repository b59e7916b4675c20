"""The games of a task as numbers: their beginnings; see `data/codecs.py` for the contract. Shapes: B episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.images.catch_game import SIZE, Episode, Episodes, starts_of

_DAMAGED = "the games of this run are damaged; expected the size of the screen, 3 to 256; try training again"


@dataclass(frozen=True)
class CatchCodec:
    """What the games of a task have in common: the `side` of the screen, in pixels."""

    codec: ClassVar[str] = "catch"
    side: int

    @classmethod
    def fit(cls, episodes: Sequence[Episode]) -> Self:
        """The screen of the first episode; `check` says whether the others have it too."""
        if not episodes:
            raise OptionError("there are no episodes to learn from; expected at least one")
        return cls(episodes[0].size or SIZE)

    @property
    def size(self) -> int:
        return 0

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

    def batch(self, episodes: Sequence[Episode]) -> NDArray[np.int64]:
        """How episodes begin, [B, 3]: column and slant of the ball, left column of the paddle."""
        self.check(episodes, "an episode")
        starts = starts_of(episodes, self.side)
        return np.stack([starts.ball_B, starts.slant_B, starts.paddle_B], axis=1)

    def to_json(self) -> Table:
        return {"side": self.side}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        side = stored.get("side")
        if type(side) is not int or not 3 <= side <= 256:
            raise FormatError(_DAMAGED)
        return cls(side)
