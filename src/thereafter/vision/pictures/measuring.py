"""What pictures have in common: their kind, their shape, their mean and deviation.

Shapes: B pictures, C channels, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import FormatError
from thereafter.vision.pictures.picture import Picture, PictureKind, PictureSource
from thereafter.vision.pictures.stacked import StackedPictures

USUAL_SIZE = 64
"""Of pictures that have different sizes, or are large."""
LARGE = 256
"""Equal pictures of a longer side are read at the usual size, unless another is asked for."""


def common_kind(pictures: Sequence[Picture]) -> PictureKind:
    """Pixels, vectors or maps; FormatError where there are several kinds."""
    by_kind: dict[PictureKind, Picture] = {}
    for picture in pictures:
        by_kind.setdefault(picture.source.kind, picture)
    if len(by_kind) > 1:
        listed = " and ".join(f"{kind} ({named(one)})" for kind, one in by_kind.items())
        raise FormatError(f"the pictures are {listed}; expected one kind; try training on one of them")
    return next(iter(by_kind))


def pixel_shape(pictures: Sequence[Picture], size: int) -> tuple[int, int, int]:
    """Height, width and channels; size 0 is that of the pictures where all are equal and none is large."""
    shapes = _shapes(pictures)
    sizes = {shape[:2] for shape in shapes}
    grey = sum(shape[2] == 1 for shape in shapes)
    channels = 1 if grey == len(shapes) else 3
    if 0 < grey < len(shapes):
        progress.note(f"{grey:,} of {len(shapes):,} pictures {'is' if grey == 1 else 'are'} grey, read as colours")
    if size:
        return size, size, channels
    if len(sizes) == 1:
        height, width = sizes.pop()
        if max(height, width) <= LARGE:
            return height, width, channels
        progress.note(
            f"the pictures have {height:,} x {width:,} pixels, more than {LARGE} a side; their middles are read as "
            f"{USUAL_SIZE} x {USUAL_SIZE}; for more of them try size={LARGE} (--set size={LARGE})"
        )
        return USUAL_SIZE, USUAL_SIZE, channels
    progress.note(f"the pictures have {len(sizes):,} sizes; their middles are read as {USUAL_SIZE} x {USUAL_SIZE}")
    return USUAL_SIZE, USUAL_SIZE, channels


def feature_shape(pictures: Sequence[Picture]) -> tuple[int, int, int]:
    """Places, numbers of a place and 1; FormatError where features have different shapes."""
    first, kind = pictures[0], pictures[0].source.kind
    for picture, shape in zip(pictures, _shapes(pictures), strict=True):
        if shape != first.shape():
            raise FormatError(
                f"{named(picture)} is {described(kind, shape)} and {named(first)} is "
                f"{described(kind, first.shape())}; expected the same of all"
            )
    shape = first.shape()
    return (1, shape[0], 1) if kind == "vectors" else (shape[0], shape[1], 1)


def moments(batches: Iterable[NDArray[np.generic]], kind: PictureKind) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation by channel of pixels / 255, or of all numbers of features; a constant has deviation 1."""
    count = 0
    total = squares = np.zeros(1)
    for batch in batches:
        if kind == "pixels":
            values = np.asarray(batch, np.float64) / 255.0
            axes: tuple[int, ...] | None = (0, 2, 3)
            count += values.size // values.shape[1]
        else:
            values, axes = np.asarray(batch, np.float64), None
            count += values.size
        total = total + values.sum(axis=axes)
        squares = squares + np.square(values).sum(axis=axes)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - np.square(mean), 0.0))
    deviation = np.where(deviation > 1e-6 * np.maximum(1.0, np.abs(mean)), deviation, 1.0)
    return tuple(map(float, mean)), tuple(map(float, deviation))


def named(picture: Picture) -> str:
    """A picture in errors."""
    return f"the picture {picture.name!r} of {picture.source.name}" if picture.name else picture.source.name


def described(kind: PictureKind, shape: tuple[int, ...]) -> str:
    """A kind and a shape in words.

    >>> described("maps", (49, 512)), described("pixels", (28, 28, 1))
    ('a map of 49 places with 512 numbers each', 'pixels 28 x 28')
    """
    if kind == "pixels":
        return f"pixels {shape[0]} x {shape[1]}"
    if kind == "vectors":
        return f"a vector of {shape[0]:,} numbers"
    return f"a map of {shape[0]} places with {shape[1]:,} numbers each"


def _shapes(pictures: Sequence[Picture]) -> list[tuple[int, ...]]:
    """The shape of every picture; of files by their first bytes."""
    stacked: dict[PictureSource, tuple[int, ...]] = {}
    shapes = []
    with progress.task("looking at pictures", total=len(pictures), unit="pictures") as advance:
        for number, picture in enumerate(pictures, start=1):
            shape = stacked.get(picture.source)
            if shape is None:
                shape = picture.shape()
                if isinstance(picture.source, StackedPictures):
                    stacked[picture.source] = shape
            shapes.append(shape)
            if number % 256 == 0 or number == len(pictures):
                advance((number - 1) % 256 + 1)
    return shapes
