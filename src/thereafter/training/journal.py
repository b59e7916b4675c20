"""What happened in training, a line each: kept in memory, appended to `log.jsonl`, shown by TensorBoard if asked."""

from __future__ import annotations

import json
import os
from io import FileIO
from pathlib import Path
from typing import Any

from thereafter import packages
from thereafter.errors import FormatError, StorageError

Line = dict[str, Any]
_SHOWN = {"step": ("loss", "rate", "norm", "clipped"), "validation": ("loss", "perplexity")}


class Journal:
    """A list of lines that a file keeps up with: a line is in the file when `write` returns."""

    def __init__(self, path: Path | None = None, *, keep: int = 0, tensorboard: Path | None = None) -> None:
        """`keep`: so many bytes of the file are kept, what comes after them is cut off."""
        self.lines: list[Line] = []
        self._path = path
        self._file: FileIO | None = None
        self._board: Any = None if tensorboard is None else _board(tensorboard)
        if path is not None:
            try:
                self._file = FileIO(path, "a+")
                self._file.truncate(min(keep, self._file.seek(0, os.SEEK_END)))
                self._file.seek(0)
                kept = self._file.readall() or b""
            except OSError as error:
                raise self._failed(error) from error
            try:
                self.lines = [json.loads(line) for line in kept.decode("utf-8").splitlines()]
            except (ValueError, RecursionError) as error:
                raise FormatError(f"{path} is damaged ({error}); try training again") from error
            self.length = len(kept)
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
                raise self._failed(error) from error
            self.length += written
        if self._board is not None:
            for name in _SHOWN.get(str(line.get("event")), ()):
                if line.get(name) is not None:
                    self._board.add_scalar(f"{line['event']}/{name}", line[name], line["step"])

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        if self._file is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise self._failed(error) from error

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(f"cannot write {self._path}: {error.strerror}; what was saved stays; try freeing space")


def _board(folder: Path) -> Any:
    """TensorBoard's writer, which comes with torch and needs the package `tensorboard`."""
    packages.require("tensorboard", "TensorBoard logging")
    return packages.require("torch.utils.tensorboard", "TensorBoard logging").SummaryWriter(str(folder))
