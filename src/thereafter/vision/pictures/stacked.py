"""Pictures of one shape in one array, or the features that another program made of pictures.

Which is which follows from type and axes (N pictures, H rows, W columns, C channels, S places, D numbers):

uint8, bool   [N, H, W], [N, H, W, C] or [N, C, H, W]              pixels
floats        [N, H, W, C], [N, C, H, W] with 1 or 3 channels      pixels between 0 and 1
floats        [N, D]                                               a vector a picture
floats        [N, S, D], [N, H, W, D] or [N, D, H, W]              a map a picture: S = H W places
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import EmptyCorpusError, FormatError
from thereafter.vision.pictures.picture import PictureKind

_COLOURS = (1, 3)
_EXPECTED = "expected pixels as uint8 [N, height, width] or [N, height, width, 3], or features as floats [N, D]"


class StackedPictures:
    """See `picture.PictureSource`. `array` may be mapped from a file: rows are read when they are asked for."""

    def __init__(self, name: str, array: NDArray[np.generic], kind: PictureKind | None = None) -> None:
        self.name = name
        usual = kind_of(array, name)  # which refuses what is neither pixels nor features
        self.kind: PictureKind = kind or usual
        self._array = _arranged(array, self.kind, name)

    def __len__(self) -> int:
        return len(self._array)

    def names(self) -> Sequence[str]:
        return [str(row) for row in range(len(self))]

    def shape(self, row: int) -> tuple[int, ...]:
        return tuple(self._array.shape[1:])

    def read(self, row: int) -> NDArray[np.generic]:
        values: NDArray[np.generic] = self.stack([row])[0]
        return values

    def stack(self, rows: Sequence[int]) -> NDArray[np.generic]:
        """Several pictures at once: uint8 [B, H, W, C], float32 [B, D] or [B, S, D]."""
        values = self._array[np.asarray(rows, np.int64)]
        if self.kind != "pixels":
            features = values.astype(np.float32)
            if not np.isfinite(features).all():
                raise FormatError(f"{self.name} has an infinite value or NaN; expected numbers")
            return features
        return as_bytes(values, self.name)


def as_bytes(pixels: NDArray[np.generic], name: str) -> NDArray[np.uint8]:
    """Pixels as whole numbers from 0 to 255: floats are from 0 to 1."""
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels, np.uint8)
    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype.kind in "iu":
        if pixels.size and not 0 <= int(pixels.min()) <= int(pixels.max()) <= 255:
            raise FormatError(f"{name} has pixels from {pixels.min()} to {pixels.max()}; expected 0 to 255")
        return pixels.astype(np.uint8)
    numbers = pixels.astype(np.float64)
    if not np.isfinite(numbers).all() or (numbers.size and not 0.0 <= numbers.min() <= numbers.max() <= 1.0):
        bytes_already = 0.0 <= numbers.min() <= numbers.max() <= 255.0
        remedy = "pixels.astype('uint8')" if bytes_already else "dividing by their largest value"
        raise FormatError(
            f"{name} has pixels from {numbers.min():.4g} to {numbers.max():.4g}; expected 0 to 1 where they are "
            f"floats; try {remedy}"
        )
    return np.rint(numbers * 255.0).astype(np.uint8)


def kind_of(array: NDArray[np.generic], name: str) -> PictureKind:
    """What an array contains, by its type and axes."""
    if array.dtype.kind not in "biuf":
        raise FormatError(f"{name} has the type {array.dtype}; {_EXPECTED}")
    if array.dtype.kind != "f":
        if array.ndim == 2:
            raise FormatError(f"{name} has the shape {list(array.shape)} of whole numbers; {_EXPECTED}")
        return "pixels"
    if array.ndim == 2:
        return "vectors"
    if array.ndim == 4 and (array.shape[3] in _COLOURS or array.shape[1] in _COLOURS):
        return "pixels"
    return "maps"


def _arranged(array: NDArray[np.generic], kind: PictureKind, name: str) -> NDArray[np.generic]:
    """The axes in the order of `stack`, as a view."""
    shape = array.shape
    wrong = FormatError(f"{name} has the shape {list(shape)}; {_EXPECTED}")
    if not 2 <= array.ndim <= 4 or (kind == "vectors") != (array.ndim == 2):
        raise wrong
    if 0 in shape:
        raise EmptyCorpusError(
            f"{name} has the shape {list(shape)}: there are no pictures in it; expected at least one"
        )
    if kind == "vectors" or (kind == "maps" and array.ndim == 3):
        return array
    if kind == "maps":
        if shape[2] == shape[3] != shape[1]:  # channels first
            array = np.moveaxis(array, 1, 3)
        return array.reshape(len(array), -1, array.shape[3])
    if array.ndim == 3:
        return array[..., None]
    if shape[3] not in _COLOURS:
        if shape[1] not in _COLOURS:
            raise wrong
        return np.moveaxis(array, 1, 3)
    return array
