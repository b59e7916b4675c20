"""Large arrays in a temporary file mapped into memory, and pictures by the names that captions and labels give them.

The file is gone with its object, however the process ends. Names may lack folder and ending.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import IO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thereafter.errors import FormatError, StorageError
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS
from thereafter.vision.pictures.picture import Picture


class MappedArray:
    """Rows of one shape, written row by row and read as an array.

    Plain writes: the pages of a writable map would count as memory. Rows that were never written take no room on most
    file systems.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike, purpose: str) -> None:
        self._purpose = purpose
        self._dtype = np.dtype(dtype)
        self._row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * self._dtype.itemsize
        self._writing = threading.Lock()
        self._check_room(shape[0] * self._row_bytes)
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="thereafter-", buffering=0)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
            self._file.truncate(max(1, shape[0] * self._row_bytes))
            mapped: NDArray[np.generic] = np.memmap(self._file, dtype=self._dtype, mode="r", shape=shape)
        except OSError as failed:
            raise self._no_room(failed) from None
        self.array = mapped

    def write(self, row: int, values: NDArray[np.generic]) -> None:
        """Write one row."""
        self.write_bytes(row * self._row_bytes, [np.ascontiguousarray(values, self._dtype).tobytes()])

    def write_bytes(self, at: int, blocks: Iterable[bytes]) -> int:
        """Write bytes from a place on; returns how many there were."""
        with self._writing:
            self._file.seek(at)
            total = 0
            for block in blocks:
                rest = memoryview(block)
                while rest:  # an unbuffered file may take a part of it
                    try:
                        rest = rest[self._file.write(rest) :]
                    except OSError as failed:
                        raise self._no_room(failed) from None
                total += len(block)
        return total

    def _check_room(self, size: int) -> None:
        """Refuse what the file system has no room for, before any of it is written."""
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        if size > free:
            raise StorageError(
                f"{self._purpose} need {size:,} bytes in a temporary file in {folder}, where {free:,} are free; try "
                "TMPDIR=FOLDER with room in it"
            )

    def _no_room(self, failed: OSError) -> StorageError:
        return StorageError(
            f"{self._purpose} need a temporary file in {tempfile.gettempdir()}, which failed: "
            f"{failed.strerror or failed}; try TMPDIR=FOLDER with room in it"
        )


_NUMBERED = re.compile(rf"({'|'.join(map(re.escape, PICTURE_ENDINGS))})\.\d+$", re.IGNORECASE)


def plain_name(name: str) -> str:
    """A name as the file has it; some captions of Flickr8k are those of `name.jpg.1`.

    >>> plain_name("photos\\\\2258277193_586949ec62.jpg.1")
    'photos/2258277193_586949ec62.jpg'
    """
    return _NUMBERED.sub(r"\1", name.strip().replace("\\", "/"))


class PicturesByName:
    """Pictures by their full name, their file name, or that without its ending."""

    def __init__(self, pictures: Iterable[Picture]) -> None:
        self.pictures = list(pictures)
        self._by_name: dict[str, list[Picture]] = {}
        for picture in self.pictures:
            for name in dict.fromkeys(_spellings(picture.name)):
                self._by_name.setdefault(name, []).append(picture)

    def find(self, name: str) -> Picture | None:
        """The picture of a name; None if there is none, FormatError if there are several."""
        for spelling in _spellings(name):
            here = self._by_name.get(spelling, [])
            exact = [picture for picture in here if picture.name == spelling]
            if len(here) == 1 or len(exact) == 1:
                return (exact or here)[0]
            if here:
                raise FormatError(
                    f"{name!r} may be {here[0].name!r} or {here[1].name!r}; expected one picture of that name; try "
                    "names with their folder and ending"
                )
        return None


def _spellings(name: str) -> Sequence[str]:
    """A name as it stands, without its folder, and without its ending."""
    plain = plain_name(name)
    base = plain.rpartition("/")[2]
    stem = base.rpartition(".")[0] if base.lower().endswith(PICTURE_ENDINGS) else base
    return (plain, base, stem)
