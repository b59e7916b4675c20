"""Large arrays in a temporary file that is mapped into memory; it is gone with its object, however the process ends."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable
from typing import IO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thereafter.errors import StorageError


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
