"""Answers of a classifier of series: as a row of a table, and with the evidence of each step."""

from __future__ import annotations

from dataclasses import dataclass

from thereafter.base.config import Table
from thereafter.base.tabular import Row

_SHOWN, _BAR = 10, 20  # steps that are printed, characters of the longest bar


@dataclass(frozen=True)
class SeriesPrediction:
    """A series by its name, with its label and the probability of every label, in the order of the labels."""

    series: str
    label: str
    probabilities: dict[str, float]

    def rows(self) -> list[Row]:
        row: Row = {"series": self.series, "label": self.label, "probability": self.probabilities[self.label]}
        return [row | {f"p_{label}": p for label, p in self.probabilities.items()}]

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True)
class SeriesExplained:
    """A label, the probability of all labels (the likeliest first), and how much each step supports the label.

    `evidence` is the gradient of the label's score in the scaled values of a step, times these: above 0 the step
    supports the label, below 0 it speaks against it. `weights`: the share of each step in the pooled vector.
    """

    label: str
    probabilities: dict[str, float]
    values: tuple[tuple[float, ...], ...]
    evidence: tuple[float, ...]
    weights: tuple[float, ...]

    def as_dict(self) -> Table:
        """Plain JSON values; a missing value is None."""
        listed = zip(self.values, self.evidence, self.weights, strict=True)
        steps = [
            {"values": [x if x == x else None for x in values], "evidence": evidence, "weight": weight}
            for values, evidence, weight in listed
        ]
        return {"label": self.label, "probabilities": self.probabilities, "steps": steps}

    def __str__(self) -> str:
        lines = [", ".join(f"{label} {p:.1%}".replace("%", " %") for label, p in self.probabilities.items())]
        order = sorted(range(len(self.evidence)), key=lambda step: -abs(self.evidence[step]))[:_SHOWN]
        most = max((abs(self.evidence[step]) for step in order), default=0.0)
        for step in sorted(order):
            value, evidence = ", ".join(f"{x:.4g}" for x in self.values[step]), self.evidence[step]
            bar = ("+" if evidence > 0 else "-") * (round(_BAR * abs(evidence) / most) if most else 0)
            lines.append(f"  step {step + 1:>5}  {value:>10} {evidence:+8.3f} {bar}".rstrip())
        return "\n".join(lines)
