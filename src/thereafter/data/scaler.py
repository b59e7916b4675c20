"""Numbers scaled to mean 0 and standard deviation 1, as measured on the training data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import FormatError, OptionError


@dataclass(frozen=True)
class Scaler:
    """z = (x - mean) / deviation, and back: see `codecs.Codec`.

    >>> scaler = Scaler.fit([1.0, 3.0])
    >>> scaler.encode([2.0, 4.0]).tolist(), scaler.decode(np.array([0.0]))
    ([0.0, 2.0], [2.0])
    """

    codec: ClassVar[str] = "scaler"
    mean: float
    deviation: float

    @classmethod
    def fit(cls, values: Sequence[float] | NDArray[np.float64]) -> Self:
        """Mean and deviation of all values; a constant series is only shifted."""
        numbers = np.asarray(values, np.float64)
        if not numbers.size or not np.isfinite(numbers).all():
            raise OptionError(f"a scaler was given {numbers.size} numbers; expected at least one, all of them finite")
        deviation = float(numbers.std())
        return cls(float(numbers.mean()), deviation if deviation > 0.0 else 1.0)

    @property
    def size(self) -> int:
        return 0

    def encode(self, values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float32]:
        return ((np.asarray(values, np.float64) - self.mean) / self.deviation).astype(np.float32)

    def decode(self, numbers: NDArray[np.generic]) -> list[float]:
        scaled: list[float] = (np.asarray(numbers, np.float64) * self.deviation + self.mean).tolist()
        return scaled

    def to_json(self) -> Table:
        return {"mean": self.mean, "deviation": self.deviation}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        mean, deviation = stored.get("mean"), stored.get("deviation")
        if not isinstance(mean, float) or not isinstance(deviation, float):
            raise FormatError("a scaler of this run is damaged; expected mean and deviation; try training again")
        if not (math.isfinite(mean) and math.isfinite(deviation) and deviation > 0.0):
            raise FormatError(f"a scaler of this run says mean {mean} and deviation {deviation}; try training again")
        return cls(mean, deviation)
