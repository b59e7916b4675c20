"""Files of pictures, one each: a folder, or those that a user names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import SourceError
from thereafter.images.decoding import decode, shape_of_file
from thereafter.images.picture import PictureKind


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
