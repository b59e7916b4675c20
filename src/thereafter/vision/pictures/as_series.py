"""A picture as a series of steps: row by row, pixel by pixel, or pixel by pixel in one fixed random order.

    rows        x_t = row t of the picture              T = H,    K = W C
    pixels      x_t = pixel t, row by row               T = H W,  K = C        (Le, Jaitly and Hinton 2015)
    permuted    x_t = pixel order[t]                    the same, neighbours torn apart

The order is drawn once from a seed and kept with its run. A map of features is read place by place, a vector in one
step; both are `rows`.

Shapes: B pictures, C channels, H rows, W columns, T steps, K numbers of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.vision.pictures.codec import PictureCodec

READINGS = ("rows", "pixels", "permuted")
PERMUTATION = 92916
"""The seed by which the literature permutes the pixels of MNIST (Wisdom et al. 2016)."""
_DAMAGED = "the order of the pixels of this run is damaged; expected each pixel once; try training again"
_MOST_PIXELS = 1 << 24


@dataclass(frozen=True)
class PixelOrder:
    """How a picture becomes steps, and steps a picture; see `data/codecs.py` for the contract.

    `order`: which pixel each step of "permuted" reads, counted row by row; empty for the others.

    >>> order = PixelOrder("pixels", 2, 2, 1)
    >>> order.encode(np.array([[[1, 2], [3, 4]]])).tolist()
    [[1], [2], [3], [4]]
    """

    codec: ClassVar[str] = "pixel-order"
    read: str
    height: int
    width: int
    channels: int
    seed: int = PERMUTATION
    order: tuple[int, ...] = ()

    @classmethod
    def fit(cls, pictures: PictureCodec, read: str = "rows", seed: int = PERMUTATION) -> Self:
        """The order in which pictures of that shape are read."""
        if read not in READINGS:
            raise OptionError(f"read is {read!r}; expected one of {', '.join(READINGS)}")
        if pictures.kind != "pixels" and read != "rows":
            raise OptionError(f"read is {read!r}, and the pictures are {pictures.kind} of features; try read=rows")
        height, width, channels = pictures.height, pictures.width, pictures.channels
        order: tuple[int, ...] = ()
        if read == "permuted":
            # the stream of RandomState is frozen, so that a seed means the same order for everybody, for ever
            order = tuple(np.random.RandomState(seed).permutation(height * width).tolist())
        return cls(read, height, width, channels, seed, order)

    @property
    def size(self) -> int:
        return 0

    @property
    def steps(self) -> int:
        """T."""
        return self.height if self.read == "rows" else self.height * self.width

    @property
    def numbers(self) -> int:
        """K: those of a step."""
        return self.channels * self.width if self.read == "rows" else self.channels

    def encode(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """One picture [C, H, W] as steps [T, K]."""
        steps_TK: NDArray[np.generic] = self.encode_batch(np.asarray(values)[None])[0]
        return steps_TK

    def encode_batch(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Pictures [B, C, H, W] as steps [B, T, K]; features as `PictureCodec` has them."""
        values_BHWC = np.moveaxis(values.reshape(len(values), self.channels, self.height, self.width), 1, 3)
        steps_BTK = values_BHWC.reshape(len(values), self.steps, self.numbers)
        return steps_BTK[:, list(self.order)] if self.order else steps_BTK

    def decode(self, numbers: NDArray[np.generic]) -> NDArray[np.generic]:
        """Steps [T, K] as a picture [C, H, W]."""
        steps_TK = np.asarray(numbers).reshape(self.steps, self.numbers)
        if self.order:
            steps_TK = steps_TK[np.argsort(self.order)]
        return np.moveaxis(steps_TK.reshape(self.height, self.width, self.channels), 2, 0)

    def name_of(self, step: int) -> str:
        """Which place of the picture a step reads.

        >>> PixelOrder("pixels", 28, 28, 1).name_of(30)
        'row 1, column 2'
        """
        if self.read == "rows":
            return f"row {step}"
        place = self.order[step] if self.order else step
        return f"row {place // self.width}, column {place % self.width}"

    def describe(self) -> str:
        """How pictures are read, in a sentence."""
        steps = f"{self.steps:,} step{'s' * (self.steps > 1)} of {self.numbers:,} number{'s' * (self.numbers > 1)}"
        if not self.order:
            return f"a picture is read in {steps} ({self.read})"
        first = ", ".join(map(str, self.order[:4]))
        return f"a picture is read in {steps}: its pixels in the order of seed {self.seed} ({first}, ...)"

    def to_json(self) -> Table:
        return vars(self) | {"order": list(self.order)}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        sizes = [stored.get(name) for name in ("height", "width", "channels")]
        read, seed, order = stored.get("read"), stored.get("seed"), stored.get("order")
        if not all(type(size) is int and 0 < size <= _MOST_PIXELS for size in sizes) or type(seed) is not int:
            raise FormatError(_DAMAGED)
        if read not in READINGS or not isinstance(order, list) or not all(type(place) is int for place in order):
            raise FormatError(_DAMAGED)
        height, width, channels = (int(size) for size in sizes if size is not None)
        expected = height * width if read == "permuted" else 0
        if len(order) != expected or set(order) != set(range(expected)):
            raise FormatError(_DAMAGED)
        return cls(str(read), height, width, channels, seed, tuple(order))
