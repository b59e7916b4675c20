"""How fast a signal fades with distance, in one number, one word and one horizon.

    log norm(d) = a + d log(rate)        least squares over d >= 1

Distance 0 is left out: there the loss reaches the state through the head alone (in a Transformer through the token's
own residual stream), and no step of time has been gone yet. The horizon, too, is told from the value at distance 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError

BAND = 0.02
"""Stable is a factor a step within 1 +- BAND: 0.98 takes 228 steps to 1 %."""
SHARE = 0.01
"""The share of the signal at distance 1 below which nothing is left to learn from."""


@dataclass(frozen=True)
class Decay:
    """`rate`: the fitted factor a step. `verdict`: vanishing, stable, exploding, or "cut off" where it is exactly 0.

    `horizon`: the distance from which on the signal is under 1 % of its value at distance 1; infinity where it never
    falls so low. `measured`: whether that was seen, or follows from the rate.
    """

    rate: float
    verdict: str
    horizon: float
    measured: bool

    def __str__(self) -> str:
        return f"{self.verdict}, {self.rate:.3f} a step, under 1 % {self.when()}"

    def when(self) -> str:
        """The horizon in words.

        >>> fit_decay(0.5 ** np.arange(20)).when()
        'at 8 steps'
        """
        if math.isinf(self.horizon):
            return "never"
        return f"at {self.horizon:.0f} steps" if self.measured else f"at about {self.horizon:,.0f} steps (extrapolated)"


def fit_decay(norm_D: NDArray[Any], distance_D: NDArray[Any] | None = None) -> Decay:
    """The decay of a norm by distance; the distances are 0, 1, 2, ... unless they are given.

    >>> round(fit_decay(3.0 * 0.9 ** np.arange(40)).rate, 6)
    0.9
    """
    norm = np.asarray(norm_D, dtype=np.float64)
    distance = np.arange(len(norm)) if distance_D is None else np.asarray(distance_D)
    later = distance >= 1
    norm, distance = norm[later], distance[later].astype(np.float64)
    if len(norm) < 2 or not np.isfinite(norm).all():
        raise OptionError(
            f"the signal is known at {len(norm)} distances of 1 or more, finite at {int(np.isfinite(norm).sum())}; "
            "expected at least 2, all finite; try a longer text or a larger distance"
        )
    there = norm > 0
    cut = not there.all() and not there[np.argmin(there) :].any()
    rate = math.exp(np.polyfit(distance[there], np.log(norm[there]), 1)[0]) if there.sum() >= 2 else 0.0
    under = np.flatnonzero(norm < SHARE * norm[0]) if norm[0] > 0 else np.array([0])
    if cut:
        return Decay(rate, "cut off", float(distance[under[0]]), True)
    verdict = "vanishing" if rate < 1 - BAND else "exploding" if rate > 1 + BAND else "stable"
    if len(under):
        return Decay(rate, verdict, float(distance[under[0]]), True)
    # a signal that neither grows nor fades in the sixth digit does not fade
    fades = rate < 1 - 1e-6
    return Decay(rate, verdict, distance[0] + math.log(SHARE) / math.log(rate) if fades else math.inf, False)
