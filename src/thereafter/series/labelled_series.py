"""One series of numbers with its label. Shapes: T steps, C channels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class LabelledSeries:
    """The values of every step, NaN where one is missing; `label` is empty where it is asked for.

    >>> LabelledSeries(np.array([[1.0], [2.0]]), "up", "a") == LabelledSeries(np.array([[1.0], [2.0]]), "up", "b")
    True
    """

    values_TC: NDArray[np.float64]
    label: str = ""
    name: str = ""
    channels: tuple[str, ...] = ("value",)
    line: int = 0
    """Where it begins in its file; 0 where it is a file of its own."""

    def __len__(self) -> int:
        return len(self.values_TC)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LabelledSeries)
            and self.label == other.label
            and self.channels == other.channels
            and np.array_equal(self.values_TC, other.values_TC, equal_nan=True)
        )

    def __hash__(self) -> int:
        return hash((self.label, self.values_TC.tobytes()))

    def asked(self) -> LabelledSeries:
        """The same without its label."""
        return replace(self, label="")

    def flat(self) -> LabelledSeries:
        """One row of many columns as the steps of one channel, up to the last value."""
        values_T = self.values_TC.reshape(-1)
        seen = np.flatnonzero(~np.isnan(values_T))
        end = int(seen[-1]) + 1 if len(seen) else len(values_T)
        return replace(self, values_TC=values_T[:end, None], channels=("value",))
