"""The log of a training, one JSON line an event: in memory and in `log.jsonl`."""

from __future__ import annotations

import json
import os
from io import FileIO
from pathlib import Path
from typing import Self

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.errors import StorageError

Line = Table
_ENDS = ("trained", "read")


def read_lines(written: bytes) -> tuple[list[Line], int]:
    """The lines of a log up to the first that is none, and their bytes.

    What comes after them is not a log any more: half a line of a process that was killed, zeros after a power cut, the
    bytes of two writers at once.
    """
    lines: list[Line] = []
    length = 0
    for raw in written.splitlines(keepends=True):
        try:
            line = json.loads(raw.decode("utf-8")) if raw.endswith(b"\n") else None
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
        length += len(raw)
    return lines, length


def read_log(path: Path) -> list[Line]:
    """What can be read of the log of a run; nothing where there is none.

    Of a damaged log: the lines before the damage, and the last one if it says how the training ended.
    """
    if not path.is_file():
        return []
    written = path.read_bytes()
    lines, length = read_lines(written)
    last = _last_line(written[length:])
    return [*lines, last] if last is not None and last.get("event") in _ENDS else lines


def has_ended(written: bytes) -> bool:
    """Whether a log says that its training has come to its end; where the last line is damaged, the one before."""
    last = _last_line(written)
    if last is None:
        last = next(reversed(read_lines(written)[0]), None)
    return last is not None and last.get("event") in _ENDS


def _last_line(written: bytes) -> Line | None:
    """The last whole line; None where it is damaged, or there is none."""
    whole = written[: written.rfind(b"\n") + 1]
    return next(iter(read_lines(whole[whole.rfind(b"\n", 0, -1) + 1 :])[0]), None)


class Journal:
    """The lines of a log, in memory and in a file: a line is in the file when `write` returns."""

    def __init__(self, path: Path | None = None, *, keep: int = 0) -> None:
        """`keep`: so many bytes of the file are kept, as far as they are whole lines; what comes after is cut off."""
        self.lines: list[Line] = []
        self._path = path
        self._file: FileIO | None = None
        if path is not None:
            try:
                self._file = FileIO(path, "a+")
                self._file.seek(0)
                kept = (self._file.readall() or b"")[:keep]
                self.lines, self.length = read_lines(kept)
                self._file.truncate(self.length)
            except OSError as error:
                raise self._storage_error(error) from error
            if self.length < keep:
                progress.note(
                    f"{path} is damaged after its first {len(self.lines):,} lines: the rest of it was dropped; the "
                    "training itself goes on as it was"
                )
        else:
            self.length = 0

    def write(self, line: Line) -> None:
        """Add a line. Straight to the system, so that a killed process has lost none."""
        self.lines.append(line)
        if self._file is not None:
            raw = json.dumps(line).encode() + b"\n"
            try:
                written = self._file.write(raw) or 0
                if written < len(raw):  # a disk that is just full takes a part
                    written += self._file.write(raw[written:]) or 0
            except OSError as error:
                raise self._storage_error(error) from error
            self.length += written

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        if self._file is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise self._storage_error(error) from error

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _storage_error(self, error: OSError) -> StorageError:
        return StorageError(f"cannot write {self._path}: {error.strerror}; what was saved stays; try freeing space")
