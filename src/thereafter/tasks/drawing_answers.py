"""Answers of a network that draws: a picture as it would draw it, and what the picture costs.

Shapes: N pictures, T strokes, C channels, H rows, W columns; V = 2 windows, of reading and of writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.tabular import Row

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Redrawn:
    """A picture as it was drawn again: the chance of each pixel to be lit, [C, H, W]; the nats of its pixels, and of z
    by stroke."""

    chances_CHW: Floats32 = field(repr=False)
    pixels: float
    latent_T: tuple[float, ...]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Redrawn) and (self.pixels, self.latent_T) == (other.pixels, other.latent_T)
        return same and isinstance(other, Redrawn) and np.array_equal(self.chances_CHW, other.chances_CHW)

    @property
    def nats(self) -> float:
        """The bound on -log p of the picture."""
        return self.pixels + sum(self.latent_T)

    @property
    def pixels_HWC(self) -> NDArray[np.uint8]:
        """The picture itself, 0 to 255."""
        return np.rint(255 * np.moveaxis(self.chances_CHW, 0, 2)).astype(np.uint8)

    def __str__(self) -> str:
        if not self.latent_T:
            return f"{self.nats:.2f} nats"
        strokes = f"{len(self.latent_T):,} strokes {sum(self.latent_T):.2f}"
        return f"{self.nats:.2f} nats: pixels {self.pixels:.2f}, {strokes}"


@dataclass(frozen=True)
class RedrawnPrediction:
    """A picture by its name, with what it costs."""

    picture: str
    answer: Redrawn

    def rows(self) -> list[Row]:
        answer = self.answer
        figures: Row = {"nats": answer.nats, "pixels": answer.pixels, "latent": sum(answer.latent_T)}
        return [{"picture": self.picture, **figures}]

    def __str__(self) -> str:
        return str(self.answer)


@dataclass(frozen=True, eq=False)
class RedrawnExplained:
    """How a picture was drawn: the canvas after every stroke, and the windows (none without attention), in pixels.

    `places_TV3`: row, column and stride of the window of reading, and of that of writing.
    """

    answer: Redrawn
    canvases_TCHW: Floats32 = field(repr=False)
    places_TV3: Floats32 = field(repr=False)

    def as_dict(self) -> Table:
        """Plain JSON values: what each stroke cost, and where it read and wrote."""
        names = ("row", "column", "stride")
        strokes: list[Table] = []
        for stroke, latent in enumerate(self.answer.latent_T):
            places = self.places_TV3[stroke].tolist() if len(self.places_TV3) else []
            windows = zip(("read", "write"), places, strict=False)
            own: Table = {name: dict(zip(names, place, strict=True)) for name, place in windows}
            strokes.append({"latent": latent, **own})
        return {"nats": self.answer.nats, "pixels": self.answer.pixels, "strokes": strokes}

    def __str__(self) -> str:
        lines = [str(self.answer)]
        for stroke, latent in enumerate(self.answer.latent_T):
            line = f"  stroke {stroke + 1:>3}  {latent:6.2f} nats"
            if len(self.places_TV3):
                (y, x, wide), (down, right, stride) = self.places_TV3[stroke].tolist()
                line += f"  reads at {y:5.1f}, {x:5.1f} (stride {wide:4.1f})"
                line += f"  writes at {down:5.1f}, {right:5.1f} (stride {stride:4.1f})"
            lines.append(line)
        return "\n".join(lines)


def drawing_figures(answers: Sequence[object]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nats of the pixels of pictures, [N], and of z by stroke, [N, T]."""
    drawn = [one for one in answers if isinstance(one, Redrawn)]
    latent_NT = np.array([one.latent_T for one in drawn], np.float64).reshape(len(drawn), -1)
    return np.array([one.pixels for one in drawn], np.float64), latent_NT
