"""How well pictures are modelled: nats a picture, of its pixels and of what was drawn by stroke.

Of a network with hidden numbers z it is a bound on -log p(x) with one draw of z (Kingma and Welling 2014),

    nats = -log p(x | z) + sum over strokes of KL(q(z_t | x) || p(z_t))  >=  -log p(x) on average

Shapes: N pictures, T strokes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError
from thereafter.evaluation.bootstrap import Z_95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DrawingScore(Tabular):
    """Figures of `pictures` pictures, each the mean of a picture: `nats` = `pixels` + `latent`.

    `error` is the standard error of `nats` over pictures; `strokes` the nats of z by stroke, none where nothing is
    hidden and `nats` is exact.
    """

    pictures: int
    nats: float
    error: float
    pixels: float
    latent: float
    strokes: tuple[float, ...] = field(default=(), repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `nats`, pictures being drawn anew."""
        return self.nats - Z_95 * self.error, self.nats + Z_95 * self.error

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        figures: Table = {"nats": self.nats, "pixels": self.pixels, "latent": self.latent, "pictures": self.pictures}
        return figures | {"interval": list(self.interval), "strokes": list(self.strokes)}

    def to_rows(self) -> list[Row]:
        """A row a stroke."""
        return [{"stroke": stroke, "latent": nats} for stroke, nats in enumerate(self.strokes, start=1)]

    def __str__(self) -> str:
        low, high = self.interval
        first = f"{self.nats:.2f} nats a picture ({low:.2f} to {high:.2f})"
        parts = f"a bound: pixels {self.pixels:.2f}, {len(self.strokes):,} strokes {self.latent:.2f}"
        return f"{first}, {parts if self.strokes else 'exact'}; {self.pictures:,} pictures"


def score_drawings(pixels_N: Floats, latent_NT: Floats) -> DrawingScore:
    """The score of pictures whose figures are given one by one."""
    if not len(pixels_N):
        raise EmptyCorpusError("there are no pictures to score; expected at least one")
    nats_N = pixels_N + latent_NT.sum(1)
    error = float(nats_N.std(ddof=1) / math.sqrt(len(nats_N))) if len(nats_N) > 1 else 0.0
    return DrawingScore(
        pictures=len(nats_N),
        nats=float(nats_N.mean()),
        error=error,
        pixels=float(pixels_N.mean()),
        latent=float(latent_NT.sum(1).mean()),
        strokes=tuple(latent_NT.mean(0).tolist()),
    )


@dataclass(frozen=True, eq=False)
class ResampledDrawings:
    """Nats a picture, negative, since more is better; of their pixels and strokes too. See `resampled.Resampled`."""

    statistics_NS: Floats

    @classmethod
    def of(cls, pixels_N: Floats, latent_NT: Floats) -> ResampledDrawings:
        """From the figures picture by picture."""
        return cls(np.stack([pixels_N, latent_NT.sum(1), np.ones(len(pixels_N))], axis=1))

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        pixels_R, latent_R, count_R = sums_RS.T
        return {"nats": -(pixels_R + latent_R) / count_R}
