"""How well catch is played: the share of balls that are caught. Shapes: N games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError
from thereafter.evaluation.bootstrap import wilson

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CatchScore(Tabular):
    """So many of `games` were `won`."""

    games: int
    won: int

    @property
    def caught(self) -> float:
        """The share of games that were won."""
        return self.won / self.games

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share (Wilson 1927), games being drawn anew."""
        low, high = wilson(self.caught, self.games)
        return float(low), float(high)

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        return {"caught": self.caught, "games": self.games, "won": self.won, "interval": list(self.interval)}

    def to_rows(self) -> list[Row]:
        """One row."""
        low, high = self.interval
        return [{"games": self.games, "caught": self.caught, "low": low, "high": high}]

    def __str__(self) -> str:
        low, high = self.interval
        return f"caught {100 * self.caught:.1f} % ({100 * low:.1f} to {100 * high:.1f}) of {self.games:,} games"


def score_catches(won: Sequence[bool]) -> CatchScore:
    """The score of games, each won or lost.

    >>> str(score_catches([True, True, False, True]))
    'caught 75.0 % (30.1 to 95.4) of 4 games'
    """
    if not won:
        raise EmptyCorpusError("there are no games to score; expected at least one")
    return CatchScore(len(won), sum(won))


@dataclass(frozen=True, eq=False)
class ResampledCatches:
    """The share of games that were won; see `resampled.Resampled`."""

    statistics_NS: Floats

    @classmethod
    def of(cls, won: Sequence[bool]) -> ResampledCatches:
        """From games, each won or lost."""
        won_N = np.array(won, np.float64)
        return cls(np.stack([won_N, np.ones_like(won_N)], axis=1))

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        won_R, games_R = sums_RS.T
        return {"caught": won_R / games_R}
