"""A label with the path of glimpses that led to it. Shapes: T glimpses, L labels, C channels, H rows, W columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table


@dataclass(frozen=True, eq=False)
class GlimpsesExplained:
    """A label, the probability of all labels (the likeliest first), and each glimpse: where, and what was believed.

    `places_T2`: column and row of the middle of each glimpse, in pixels from the upper left corner. `beliefs_TL`:
    p(label | the glimpses so far), the labels in the order of `names`. `pixels_CHW`: the picture.
    """

    label: str
    probabilities: dict[str, float]
    names: tuple[str, ...]
    places_T2: NDArray[np.float32]
    beliefs_TL: NDArray[np.float32]
    pixels_CHW: NDArray[np.uint8]

    def best(self, glimpse: int) -> tuple[str, float]:
        """The likeliest label after a glimpse, counted from 0, and its probability."""
        at = int(self.beliefs_TL[glimpse].argmax())
        return self.names[at], float(self.beliefs_TL[glimpse, at])

    def as_dict(self) -> Table:
        """Plain JSON values."""
        glimpses = [
            {
                "column": round(float(column), 3),
                "row": round(float(row), 3),
                "probabilities": dict(zip(self.names, belief_L.tolist(), strict=True)),
            }
            for (column, row), belief_L in zip(self.places_T2, self.beliefs_TL, strict=True)
        ]
        return {"label": self.label, "probabilities": self.probabilities, "glimpses": glimpses}

    def __str__(self) -> str:
        lines = [", ".join(f"{label} {_percent(p)}" for label, p in self.probabilities.items())]
        for glimpse, (column, row) in enumerate(self.places_T2):
            label, p = self.best(glimpse)
            lines.append(f"  glimpse {glimpse + 1} at column {column:.1f}, row {row:.1f}: {label} {_percent(p)}")
        return "\n".join(lines)


def _percent(p: float) -> str:
    return f"{p:.1%}".replace("%", " %")
