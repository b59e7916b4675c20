"""Answers of a classifier of pictures: as a row of a table, and with the evidence of each pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.tabular import Row

_WIDEST = 56  # characters of the map that is printed
_FAINT = 0.1  # of the largest evidence: what is printed as nothing


@dataclass(frozen=True)
class PicturePrediction:
    """A picture by its name, with its label and the probability of every label, in the order of the labels."""

    picture: str
    label: str
    probabilities: dict[str, float]

    def rows(self) -> list[Row]:
        row: Row = {"picture": self.picture, "label": self.label, "probability": self.probabilities[self.label]}
        return [row | {f"p_{label}": p for label, p in self.probabilities.items()}]

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class PictureExplained:
    """A label, the probability of all labels (the likeliest first), and how much each pixel supports the label.

    `evidence_HW` is the gradient of the label's score in the scaled pixels, times these: above 0 a pixel supports the
    label, below 0 it speaks against it. `values_CHW`: the picture as the network saw it, before scaling. `weights`: the
    share of each step in the pooled vector.
    """

    label: str
    probabilities: dict[str, float]
    values_CHW: NDArray[np.generic]
    evidence_HW: NDArray[np.float32]
    weights: tuple[float, ...]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        evidence = [[round(float(value), 6) for value in row] for row in self.evidence_HW]
        return {"label": self.label, "probabilities": self.probabilities, "evidence": evidence}

    def __str__(self) -> str:
        lines = [", ".join(f"{label} {p:.1%}".replace("%", " %") for label, p in self.probabilities.items())]
        height, width = self.evidence_HW.shape
        every = -(-width // _WIDEST)
        tall, wide = -(-height // every), -(-width // every)
        padded = np.zeros((tall * every, wide * every))
        padded[:height, :width] = self.evidence_HW
        shown = padded.reshape(tall, every, wide, every).sum((1, 3))
        most = float(np.abs(shown).max()) or 1.0
        for row in shown:
            signs = ("+" if value > _FAINT * most else "-" if value < -_FAINT * most else "." for value in row)
            lines.append("  " + "".join(signs))
        return "\n".join(lines)
