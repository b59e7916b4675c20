"""Pictures that are not decoded yet, and what contains them: files of one picture each, arrays, what a user hands over.

Of an array, what it contains follows from type and axes (N pictures, H rows, W columns, C channels, S places, D
numbers):

uint8, bool   [N, H, W], [N, H, W, C] or [N, C, H, W]              pixels
floats        [N, H, W, C], [N, C, H, W] with 1 or 3 channels      pixels between 0 and 1
floats        [N, D]                                               a vector a picture
floats        [N, S, D], [N, H, W, D] or [N, D, H, W]              a map a picture: S = H W places

Shapes: C is 1 (grey) or 3 (red green blue); features are made elsewhere.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import EmptyCorpusError, FormatError, OptionError, SourceError, ThereafterError
from thereafter.vision.pictures.decoding import decode, shape_of_file
from thereafter.vision.rules import Pixels

PictureKind = Literal["pixels", "vectors", "maps"]
"""Pixels, or features that another program made of them: a vector a picture, or a map of places with a vector each."""


class PictureSource(ABC):
    """A folder, an archive, an array: pictures by their number, decoded one at a time, when they are asked for."""

    name: str
    """What errors call it."""
    kind: PictureKind = "pixels"

    @abstractmethod
    def __len__(self) -> int: ...

    def names(self) -> Sequence[str]:
        """Names of files; "0", "1", ... of arrays."""
        return [str(row) for row in range(len(self))]

    @abstractmethod
    def shape(self, row: int) -> tuple[int, ...]:
        """The shape of `read(row)`; of files by their first bytes alone."""

    @abstractmethod
    def read(self, row: int) -> NDArray[np.generic]:
        """Pixels uint8 [H, W, C], a vector float32 [D] or a map float32 [S, D]."""


class StackingSource(PictureSource):
    """Pictures of one shape, of which several are read at once."""

    @abstractmethod
    def stack(self, rows: Sequence[int]) -> NDArray[np.generic]:
        """uint8 [B, H, W, C], float32 [B, D] or [B, S, D]."""

    def read(self, row: int) -> NDArray[np.generic]:
        values: NDArray[np.generic] = self.stack([row])[0]
        return values


@dataclass(frozen=True)
class Picture:
    """A picture of a source. Two are equal if they are the same row of the same source."""

    source: PictureSource
    row: int
    name: str = field(default="", compare=False)

    def read(self) -> NDArray[np.generic]:
        """Pixels uint8 [H, W, C], a vector float32 [D] or a map float32 [S, D]."""
        return self.source.read(self.row)

    def shape(self) -> tuple[int, ...]:
        """The shape of `read`, without decoding the pixels."""
        return self.source.shape(self.row)


def pictures_of(source: PictureSource) -> list[Picture]:
    """All pictures of a source."""
    return [Picture(source, row, name) for row, name in enumerate(source.names())]


class PictureFiles(PictureSource):
    """Names are those of the files, below `folder` where there is one."""

    def __init__(self, name: str, files: Sequence[Path], folder: Path | None = None) -> None:
        self.name = name
        self.files = tuple(files)
        above = None if folder is None else folder.absolute()
        whole = [file.absolute() for file in self.files]
        self._names = [
            file.relative_to(above).as_posix() if above is not None and file.is_relative_to(above) else file.name
            for file in whole
        ]

    def __len__(self) -> int:
        return len(self.files)

    def names(self) -> Sequence[str]:
        return self._names

    def shape(self, row: int) -> tuple[int, ...]:
        with open_binary(self.files[row]) as file:
            return shape_of_file(file, str(self.files[row]))

    def read(self, row: int) -> Pixels:
        with open_binary(self.files[row]) as file:
            return decode(file, str(self.files[row]))


def open_binary(path: Path) -> BinaryIO:
    """A file to read bytes from; SourceError where there is none."""
    try:
        return open(path, "rb")
    except OSError as failed:
        raise SourceError(f"{os.fspath(path)} could not be read: {failed.strerror or failed}") from None


_COLOURS = (1, 3)
_EXPECTED = "expected pixels as uint8 [N, height, width] or [N, height, width, 3], or features as floats [N, D]"


class StackedPictures(StackingSource):
    """`array` may be mapped from a file: rows are read when they are asked for."""

    def __init__(
        self, name: str, array: NDArray[np.generic], kind: PictureKind | None = None, names: Sequence[str] | None = None
    ) -> None:
        self.name = name
        usual = kind_of(array, name)  # which refuses what is neither pixels nor features
        self.kind = kind or usual
        self._array = _arranged(array, self.kind, name)
        self._names = names
        if names is not None and len(names) != len(self):
            raise FormatError(f"{name} has {len(names):,} names for {len(self):,} pictures; expected one each")

    def __len__(self) -> int:
        return len(self._array)

    def names(self) -> Sequence[str]:
        return super().names() if self._names is None else self._names

    def shape(self, row: int) -> tuple[int, ...]:
        return tuple(self._array.shape[1:])

    def stack(self, rows: Sequence[int]) -> NDArray[np.generic]:
        """Several pictures at once: uint8 [B, H, W, C], float32 [B, D] or [B, S, D]."""
        values = self._array[np.asarray(rows, np.int64)]
        if self.kind != "pixels":
            features = values.astype(np.float32)
            if not np.isfinite(features).all():
                raise FormatError(f"{self.name} has an infinite value or NaN; expected numbers")
            return features
        return as_bytes(values, self.name)


def as_bytes(pixels: NDArray[np.generic], name: str) -> Pixels:
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


GIVEN_NAME = "the picture given"
_EXPECTED_GIVEN = "expected uint8 [height, width] or [height, width, 3], floats from 0 to 1, or a vector of features"


class GivenPicture(PictureSource):
    """A source of one picture. Those of equal content are equal.

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
        if not isinstance(other, GivenPicture) or self.kind != other.kind:
            return False
        return self._values.dtype == other._values.dtype and np.array_equal(self._values, other._values)

    def __hash__(self) -> int:
        return hash((self.kind, self._values.shape, self._values.tobytes()))


def given_array(values: NDArray[np.generic], kind: PictureKind | None = None) -> Picture:
    """An array as a picture: uint8 or floats from 0 to 1 [H, W], [H, W, 1], [H, W, 3]; a vector of features [D]."""
    if values.dtype.kind not in "biuf" or not 1 <= values.ndim <= 3 or not values.size:
        raise OptionError(f"{GIVEN_NAME} is an array {list(values.shape)} of {values.dtype}; {_EXPECTED_GIVEN}")
    if not np.isfinite(values.astype(np.float64)).all():
        raise OptionError(f"{GIVEN_NAME} has an infinite value or NaN; {_EXPECTED_GIVEN}")
    if values.ndim == 3 and values.shape[2] not in (1, 3, 4):
        raise OptionError(
            f"{GIVEN_NAME} is an array {list(values.shape)}; {_EXPECTED_GIVEN}; try np.moveaxis(array, 0, 2) if the "
            "channels come first, or list(array) for several pictures"
        )
    if values.ndim == 1 and values.dtype.kind != "f":
        raise OptionError(f"{GIVEN_NAME} is a row of {len(values):,} whole numbers; {_EXPECTED_GIVEN}")
    return Picture(GivenPicture(values, kind), 0, GIVEN_NAME)


def _pixels(values: NDArray[np.generic]) -> Pixels:
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
