"""What is left of a signal by distance, in one word and in the figures it rests on.

The word says what was measured at the farthest distance, as a share of the value at distance 1, and nothing beyond it:

    exploding    10 times or more
    kept         10 % or more
    fading       1 % or more
    vanishing    under 1 %
    cut off      exactly 0

Distance 0 counts for nothing: there the signal has not been carried yet (a loss looks straight at its own state or its
own residual stream), and no step of time has been gone yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError

SHARE = 0.01
"""The share of the signal at distance 1 below which it has vanished."""
KEPT = 0.1
"""The share from which on it is kept; ten times as much as there was at distance 1 has exploded."""
Verdict = Literal["vanishing", "fading", "kept", "exploding", "cut off"]
VERDICTS: tuple[Verdict, ...] = ("vanishing", "fading", "kept", "exploding", "cut off")


@dataclass(frozen=True)
class Decay:
    """`share`: what is left at `distance`, the farthest that was measured, of the value at distance 1.

    `verdict` is the word for that share. `under`: the distance from which on every measured value is under 1 %, None
    where that was not seen. `rate`: the factor a step of the power that fits all distances best. It describes a curve
    that is a power and no other, so that no word and no distance is drawn from it.
    """

    verdict: Verdict
    share: float
    distance: int
    under: int | None
    rate: float

    def __str__(self) -> str:
        return f"{self.verdict}, {self.measured()}"

    def measured(self) -> str:
        """What the verdict rests on.

        >>> fit_decay(0.5 ** np.arange(12)).measured(), fit_decay(0.95 ** np.arange(12)).measured()
        ('0.098 % at 11 steps, under 1 % from 8 on', '60 % at 11 steps')
        """
        last = f"{in_words(self.share)} at {self.distance} steps"
        return last if self.under is None else f"{last}, under 1 % from {self.under} on"


def fit_decay(norm_D: NDArray[np.number], distance_D: NDArray[np.number] | None = None) -> Decay:
    """The decay of a norm by distance; the distances are 0, 1, 2, ... unless they are given.

    >>> fit_decay(np.array([5.0, 1.0, 0.4, 0.2, 0.2, 0.2])).verdict
    'kept'
    """
    norm = np.asarray(norm_D, dtype=np.float64)
    distance = np.arange(len(norm)) if distance_D is None else np.asarray(distance_D)
    later = distance >= 1
    norm, distance = norm[later], distance[later].astype(np.int64)
    if len(norm) < 2 or not np.isfinite(norm).all():
        raise OptionError(
            f"the signal is known at {len(norm)} distances of 1 or more, finite at {int(np.isfinite(norm).sum())}; "
            "expected at least 2, all finite; try a longer text or a larger distance"
        )
    there = norm > 0
    rate = math.exp(np.polyfit(distance[there], np.log(norm[there]), 1)[0]) if there.sum() >= 2 else 0.0
    share_D = norm / norm[0] if norm[0] > 0 else np.where(there, np.inf, 0.0)
    above = np.flatnonzero(share_D >= SHARE)
    first_under = int(above[-1]) + 1 if len(above) else 0
    under = int(distance[first_under]) if first_under < len(distance) else None
    share = float(share_D[-1])
    return Decay(_verdict(share), share, int(distance[-1]), under, rate)


def in_words(share: float) -> str:
    """A share as people write it.

    >>> [in_words(share) for share in (0.00042, 0.012, 0.98, 1.0, 3.4, 1234.5)]
    ['0.042 %', '1.2 %', '98 %', '100 %', '3.4 times', '1,234 times']
    """
    if share >= 2:
        return f"{share:,.0f} times" if share >= 10 else f"{share:.1f} times"
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _verdict(share: float) -> Verdict:
    if share == 0:
        return "cut off"
    if share < SHARE:
        return "vanishing"
    if share < KEPT:
        return "fading"
    return "kept" if share < 1 / KEPT else "exploding"
