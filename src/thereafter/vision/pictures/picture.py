"""One picture that is not decoded yet, the contract of what contains several, and files of pictures, one each.

Shapes: H rows of pixels, W columns, C channels (1 grey, 3 red green blue); of features made elsewhere S places, D
numbers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import SourceError
from thereafter.vision.pictures.decoding import decode, shape_of_file

PictureKind = Literal["pixels", "vectors", "maps"]
"""Pixels, or features that another program made of them: a vector a picture, or a map of places with a vector each."""


class PictureSource(Protocol):
    """A folder, an archive, an array: pictures by their number, decoded one at a time, when they are asked for."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def kind(self) -> PictureKind: ...

    def __len__(self) -> int: ...

    def names(self) -> Sequence[str]:
        """Names of files; "0", "1", ... of arrays."""

    def shape(self, row: int) -> tuple[int, ...]:
        """The shape of `read(row)`; of files by their first bytes alone."""

    def read(self, row: int) -> NDArray[np.generic]:
        """Pixels uint8 [H, W, C], a vector float32 [D] or a map float32 [S, D]."""


@runtime_checkable
class StackingSource(PictureSource, Protocol):
    """Pictures of one shape, of which several are read at once."""

    def stack(self, rows: Sequence[int]) -> NDArray[np.generic]:
        """uint8 [B, H, W, C], float32 [B, D] or [B, S, D]."""


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


class PictureFiles:
    """See `picture.PictureSource`. Names are those of the files, below `folder` where there is one."""

    kind: PictureKind = "pixels"

    def __init__(self, name: str, files: Sequence[Path], folder: Path | None = None) -> None:
        self.name = name
        self.files = tuple(files)
        self._names = [_below(file, folder) for file in self.files]

    def __len__(self) -> int:
        return len(self.files)

    def names(self) -> Sequence[str]:
        return self._names

    def shape(self, row: int) -> tuple[int, ...]:
        with open_binary(self.files[row]) as file:
            return shape_of_file(file, str(self.files[row]))

    def read(self, row: int) -> NDArray[np.uint8]:
        with open_binary(self.files[row]) as file:
            return decode(file, str(self.files[row]))


def _below(file: Path, folder: Path | None) -> str:
    whole, above = file.absolute(), None if folder is None else folder.absolute()
    return whole.relative_to(above).as_posix() if above is not None and whole.is_relative_to(above) else file.name


def open_binary(path: Path) -> BinaryIO:
    """A file to read bytes from; SourceError where there is none."""
    try:
        return open(path, "rb")
    except OSError as failed:
        raise SourceError(f"{os.fspath(path)} could not be read: {failed.strerror or failed}") from None
