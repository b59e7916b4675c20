"""The mean over seeds, and how far seeds lie apart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class MeanSpread:
    """The mean over seeds and the standard deviation between them, None where there is one seed."""

    mean: float
    spread: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> MeanSpread:
        """Of one figure, a value for each seed."""
        samples = list(values)
        if not samples:
            return cls(math.nan)
        has_spread = len(samples) > 1 and all(map(math.isfinite, samples))
        return cls(sum(samples) / len(samples), statistics.stdev(samples) if has_spread else None)
