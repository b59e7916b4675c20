"""How surprising each point of a series was: -log p of it, given the rows before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.inspection.drawing import DrawnFigure, draw
from thereafter.series.table import Times
from thereafter.tabular import Row, Tabular
from thereafter.tasks.forecast_answers import shown_number, spelled_times

COVERAGE = 0.95
"""Of the band that a point is held against."""
FAR = 2.0
"""A point is unusual where it lies this many times as far from the median as the end of the band does."""


@dataclass(frozen=True, eq=False)
class PointTable(Tabular):
    """The points of all series, in their order: what came, what was expected one step ahead, and -log p in nats.

    Shapes: N points, a row each; of several targets each is a point. `nats_N` is in the units of the data: the density
    of a value, so it may be negative. `low_N`, `high_N`: the calibrated 95 % band. `unusual_N`: farther from the median
    than twice that band reaches.
    """

    series_N: NDArray[np.int32]
    times_N: Times
    target_N: NDArray[np.int32]
    value_N: NDArray[np.float64]
    expected_N: NDArray[np.float64]
    low_N: NDArray[np.float64]
    high_N: NDArray[np.float64]
    nats_N: NDArray[np.float64]
    unusual_N: NDArray[np.bool_]
    names: tuple[str, ...]
    targets: tuple[str, ...]
    left_out: int = field(default=0)
    """Values before the first whole window of their series."""

    def figure(self) -> DrawnFigure:
        """The series with their unusual points: see `figures.unusual_points`."""
        return draw("points", self, None)

    def __len__(self) -> int:
        return len(self.value_N)

    def to_rows(self) -> list[Row]:
        """A row a point, in the order of series and time."""
        return list(self._rows(np.arange(len(self))))

    def most_unusual(self, count: int = 10) -> list[Row]:
        """The points with the largest -log p, the largest first."""
        return list(self._rows(np.argsort(-self.nats_N, kind="stable")[:count]))

    @property
    def nats(self) -> float:
        """The mean over all points."""
        return float(self.nats_N.mean())

    @property
    def covered(self) -> float:
        """The share of the points within the band."""
        return float(((self.value_N >= self.low_N) & (self.value_N <= self.high_N)).mean())

    def _rows(self, at_R: NDArray[np.int64]) -> Iterator[Row]:
        times, several = spelled_times(self.times_N), len(self.targets) > 1
        for at in at_R.tolist():
            row: Row = {"series": self.names[self.series_N[at]], "time": times[at]}
            if several:
                row["target"] = self.targets[self.target_N[at]]
            row |= {"value": float(self.value_N[at]), "expected": float(self.expected_N[at])}
            row |= {"low": float(self.low_N[at]), "high": float(self.high_N[at])}
            yield row | {"nats": float(self.nats_N[at]), "unusual": bool(self.unusual_N[at])}

    def __str__(self) -> str:
        before = f"; {self.left_out:,} values before the first whole window are left out" if self.left_out else ""
        band = f"the 95 % band one step ahead covers {100 * self.covered:.1f} %"
        unusual = f"unusual: {int(self.unusual_N.sum()):,}"
        lines = [f"{len(self):,} points, {self.nats:.4g} nats each in the units of the data; {band}; {unusual}{before}"]
        named = len(self.names) > 1
        for row in self.most_unusual():
            numbers = {key: shown_number(value) for key, value in row.items() if isinstance(value, float)}
            who = "  ".join(str(row[key]) for key in ("series", "target") if key in row and (named or key == "target"))
            lines.append(
                f"{row['time']}  {who + '  ' if who else ''}{numbers['value']}, expected {numbers['expected']} "
                f"({numbers['low']} to {numbers['high']}), {row['nats']:.4g} nats"
                + (", unusual" if row["unusual"] else "")
            )
        return "\n".join(lines)
