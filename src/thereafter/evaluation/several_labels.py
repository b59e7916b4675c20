"""How often several labels of one example are right: each of them, and all of them together.

A clip of a moving digit has two labels, the digit and the direction. For N examples with R of them right,

    accuracy = R / N        its 95 % interval is Wilson's (`intervals.py`)

An example counts as right in `together` where every label is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.evaluation.classes import Classes, ClassScore, measure_classes
from thereafter.evaluation.intervals import wilson
from thereafter.tabular import Row, Tabular

TOGETHER = "together"
"""The figure of all labels at once."""
Labels = Mapping[str, str]
"""A label for each column."""


@dataclass(frozen=True)
class SeveralLabels(Tabular):
    """The verdicts over many examples: those of each column, and in how many examples all columns are right."""

    columns: Mapping[str, Classes]
    all_right: int
    total: int

    @property
    def together(self) -> float:
        """The share of examples that are right in every column."""
        return self.all_right / self.total

    @property
    def shares(self) -> dict[str, tuple[int, int]]:
        """How many are right of how many, by column; all columns at once, where there are several, last."""
        counted = {name: (classes.right, classes.total) for name, classes in self.columns.items()}
        return counted | ({TOGETHER: (self.all_right, self.total)} if len(self.columns) > 1 else {})

    def interval(self, name: str) -> tuple[float, float]:
        """The 95 % interval of a share of `shares`."""
        right, total = self.shares[name]
        low, high = wilson(right / total, total)
        return max(0.0, float(low)), min(1.0, float(high))

    def confusions(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent mistakes over all columns: the right label, the predicted one, how often."""
        named = len(self.columns) > 1
        wrong = [
            (f"{name} {gold}" if named else gold, given, count)
            for name, classes in self.columns.items()
            for gold, given, count in classes.confusions(most)
        ]
        return sorted(wrong, key=lambda mistake: (-mistake[2], mistake[:2]))[:most]

    def as_dict(self) -> Table:
        """All figures, for JSON: the accuracy of each column by its name."""
        figures: Table = {name: right / total for name, (right, total) in self.shares.items()}
        figures |= {"total": self.total}
        figures["intervals"] = {name: list(self.interval(name)) for name in self.shares}
        return figures | {"columns": {name: classes.as_dict() for name, classes in self.columns.items()}}

    def to_rows(self) -> list[Row]:
        """A row for each column and all of them, and one for each label."""
        rows = [ClassScore(right, total, total).row("column", name) for name, (right, total) in self.shares.items()]
        return rows + [
            score.row(name, label)
            for name, classes in self.columns.items()
            for label, score in classes.per_class.items()
        ]

    def __str__(self) -> str:
        parts = []
        for name, counted in self.shares.items():
            low, high = self.interval(name)
            parts.append(f"{name} {counted[0] / counted[1]:.2%} ({100 * low:.2f} to {100 * high:.2f})")
        return f"{', '.join(parts)} of {self.total:,} right".replace("%", " %")


def measure_labels(
    gold: Sequence[Labels], predicted: Sequence[Labels], names: Mapping[str, Sequence[str]]
) -> SeveralLabels:
    """Predicted labels against the right ones, a mapping for each example; `names` has all labels of each column.

    >>> gold, given = ([{"digit": "7", "way": way} for way in several] for several in ("EW", "EE"))
    >>> print(measure_labels(gold, given, {"digit": ["7"], "way": ["E", "W"]}))
    digit 100.00 % (34.24 to 100.00), way 50.00 % (9.45 to 90.55), together 50.00 % (9.45 to 90.55) of 2 right
    """
    if len(gold) != len(predicted):
        raise OptionError(f"there are {len(gold):,} examples and {len(predicted):,} predictions; expected one for each")
    if not gold or not names:
        raise EmptyCorpusError("there are no labels to judge predictions by; expected at least one")
    columns = {
        name: measure_classes([one[name] for one in gold], [one[name] for one in predicted], known)
        for name, known in names.items()
    }
    right = sum(all(one[name] == other[name] for name in names) for one, other in zip(gold, predicted, strict=True))
    return SeveralLabels(columns, right, len(gold))


@dataclass(frozen=True, eq=False)
class ResampledLabels:
    """The accuracy of each column and of all together; statistics of an example: whether it is right in each, and 1.
    See `resampled.Resampled`."""

    statistics_NS: NDArray[np.float64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, gold: Sequence[Labels], predicted: Sequence[Labels], names: Sequence[str]) -> ResampledLabels:
        """Predicted labels against the right ones."""
        right_NC = np.array(
            [[one[name] == other[name] for name in names] for one, other in zip(gold, predicted, strict=True)], bool
        )
        columns = [right_NC] + ([right_NC.all(1, keepdims=True)] if len(names) > 1 else [])
        statistics = np.hstack([*columns, np.ones((len(right_NC), 1), bool)]).astype(np.float64)
        return cls(statistics, (*names, TOGETHER) if len(names) > 1 else tuple(names))

    def figures(self, sums_RS: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        total_R = sums_RS[:, -1]
        return {name: sums_RS[:, at] / total_R for at, name in enumerate(self.names)}
