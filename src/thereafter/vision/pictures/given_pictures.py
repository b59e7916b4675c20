"""A picture as Python has it: an array or an image of Pillow.

Shapes: H rows, W columns, C channels; of features S places, D numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError, ThereafterError
from thereafter.vision.pictures.picture import Picture, PictureKind
from thereafter.vision.pictures.stacked import as_bytes

GIVEN_NAME = "the picture given"
_EXPECTED = "expected uint8 [height, width] or [height, width, 3], floats from 0 to 1, or a vector of features"


class GivenPicture:
    """See `picture.PictureSource`: a source of one picture. Those of equal content are equal.

    Floats of two axes are grey pixels from 0 to 1, or a map of features: whoever reads them knows which (`read_as`).
    """

    def __init__(self, values: NDArray[np.generic], kind: PictureKind | None = None) -> None:
        self.name = GIVEN_NAME
        self._values = values
        self.kind: PictureKind = kind or ("vectors" if values.ndim == 1 else "pixels")

    def __len__(self) -> int:
        return 1

    def names(self) -> Sequence[str]:
        return [GIVEN_NAME]

    def shape(self, row: int) -> tuple[int, ...]:
        return self.read(row).shape

    def read(self, row: int) -> NDArray[np.generic]:
        return self.read_as(self.kind)

    def read_as(self, kind: PictureKind) -> NDArray[np.generic]:
        """The same as pixels, as a vector or as a map; OptionError where it cannot be that."""
        values = self._values
        if kind == "pixels":
            return _pixels(values)
        axes = 1 if kind == "vectors" else 2
        if values.ndim != axes or values.dtype.kind != "f":
            raise OptionError(
                f"{self.name} is an array {list(values.shape)} of {values.dtype}; expected "
                f"{'a vector' if axes == 1 else 'a map [places, numbers]'} of features as floats, as in training"
            )
        return values.astype(np.float32)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GivenPicture)
            and self.kind == other.kind
            and self._values.dtype == other._values.dtype
            and np.array_equal(self._values, other._values)
        )

    def __hash__(self) -> int:
        return hash((self.kind, self._values.shape, self._values.tobytes()))


def given_array(values: NDArray[np.generic], kind: PictureKind | None = None) -> Picture:
    """An array as a picture: uint8 or floats from 0 to 1 [H, W], [H, W, 1], [H, W, 3]; a vector of features [D]."""
    if values.dtype.kind not in "biuf" or not 1 <= values.ndim <= 3 or not values.size:
        raise OptionError(f"{GIVEN_NAME} is an array {list(values.shape)} of {values.dtype}; {_EXPECTED}")
    if not np.isfinite(values.astype(np.float64)).all():
        raise OptionError(f"{GIVEN_NAME} has an infinite value or NaN; {_EXPECTED}")
    if values.ndim == 3 and values.shape[2] not in (1, 3, 4):
        raise OptionError(
            f"{GIVEN_NAME} is an array {list(values.shape)}; {_EXPECTED}; try np.moveaxis(array, 0, 2) if the channels "
            "come first, or list(array) for several pictures"
        )
    if values.ndim == 1 and values.dtype.kind != "f":
        raise OptionError(f"{GIVEN_NAME} is a row of {len(values):,} whole numbers; {_EXPECTED}")
    return Picture(GivenPicture(values, kind), 0, GIVEN_NAME)


def _pixels(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Pixels [H, W, C]; what is transparent is over white."""
    if values.ndim == 1:
        raise OptionError(f"{GIVEN_NAME} is a vector of {len(values):,} numbers; expected pixels [height, width]")
    try:
        pixels = as_bytes(values, GIVEN_NAME)
    except ThereafterError as wrong:
        raise OptionError(str(wrong)) from None
    if pixels.ndim == 2:
        return pixels[:, :, None]
    if pixels.shape[2] == 4:
        alpha = pixels[:, :, 3:].astype(np.float64) / 255.0
        return np.rint(pixels[:, :, :3] * alpha + 255.0 * (1.0 - alpha)).astype(np.uint8)
    return pixels
