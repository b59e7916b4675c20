"""Captions with where the network looked for each word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table

_ROWS, _COLUMNS = ("top", "", "bottom"), ("left", "", "right")


@dataclass(frozen=True, eq=False)
class CaptionExplained:
    """A caption with the probability of each of its words given those before, and where the network looked for it.

    `weights[t, s]`: the attention of word t to place s; a row sums to 1. Places are counted row by row on `grid` (rows,
    columns), which covers `picture`, uint8 [height, width, 1 or 3], the pixels that the network saw. `weights` has no
    columns where the network has no attention, `picture` no pixels where it was given features.
    """

    name: str
    caption: str
    words: tuple[str, ...]
    probabilities: tuple[float, ...]
    weights: NDArray[np.float32]
    grid: tuple[int, int]
    picture: NDArray[np.uint8]

    @property
    def attends(self) -> bool:
        """Whether there is attention to show."""
        return bool(self.weights.shape[1])

    def looked(self, word: int) -> tuple[str, float]:
        """The ninth of the picture that a word looked at most, such as "top left", and the share it took."""
        weights_RC = self.weights[word].reshape(self.grid)
        shares = {
            (row, column): float(weights_RC[np.ix_(rows, columns)].sum())
            for row, rows in enumerate(_thirds(self.grid[0]))
            for column, columns in enumerate(_thirds(self.grid[1]))
        }
        row, column = max(shares, key=lambda place: shares[place])
        name = " ".join(part for part in (_ROWS[row], _COLUMNS[column]) if part)
        return name or "centre", shares[row, column]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        words: list[Table] = []
        for number, (word, p) in enumerate(zip(self.words, self.probabilities, strict=True)):
            one: Table = {"word": word, "probability": round(p, 6)}
            if self.attends:
                one["weights"] = [round(float(weight), 4) for weight in self.weights[number]]
            words.append(one)
        return {"name": self.name, "caption": self.caption, "grid": list(self.grid), "words": words}

    def __str__(self) -> str:
        width = max(map(len, self.words), default=0)
        lines = [self.caption]
        for number, (word, p) in enumerate(zip(self.words, self.probabilities, strict=True)):
            line = f"  {word:<{width}}  p {p:.3f}"
            if self.attends:
                place, share = self.looked(number)
                line += f"  {place} {100 * share:.0f} %"
            lines.append(line)
        return "\n".join(lines)


def _thirds(count: int) -> list[NDArray[np.int64]]:
    """The rows or columns of the first, middle and last third; all are in the middle where there is only one."""
    third_N = (6 * np.arange(count) + 3) // (2 * count)
    return [np.flatnonzero(third_N == number) for number in range(3)]
