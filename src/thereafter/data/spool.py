"""What can be read only once, copied to a temporary file: texts are read twice."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from thereafter.data.opening import Readable
from thereafter.errors import SourceError, StorageError, forget_shown, show_as


class Spool:
    """A copy of a stream in a temporary file that is deleted with this object."""

    def __init__(self, stream: Readable, name: str, suffix: str = ".txt") -> None:
        try:
            handle, path = tempfile.mkstemp(prefix="thereafter-", suffix=suffix)
        except OSError as failed:
            raise _no_room(name, failed) from None
        self.path = Path(path)
        self._cleanup = weakref.finalize(self, _remove, path)
        show_as(path, name)
        with open(handle, "wb") as file:
            while True:
                try:
                    block = stream.read(1 << 20)
                except OSError as failed:
                    raise SourceError(f"{name} could not be read: {failed.strerror or failed}") from None
                if not block:
                    break
                try:
                    file.write(block)
                except OSError as failed:
                    raise _no_room(name, failed) from None

    @classmethod
    def of_file(cls, path: Path) -> Spool:
        """The content of a named pipe or device."""
        try:
            with open(path, "rb") as stream:
                return cls(stream, str(path))
        except OSError as failed:
            raise SourceError(f"{path} could not be read: {failed.strerror or failed}") from None

    @classmethod
    def of_text(cls, pieces: Iterable[str], name: str, suffix: str = ".txt") -> Spool:
        """A text that comes in pieces, as UTF-8."""
        return cls(_Pieces(iter(pieces)), name, suffix)


class _Pieces:
    """Pieces of text, read as bytes; a piece may be longer than what was asked for."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces

    def read(self, size: int = -1, /) -> bytes:
        return next((piece for piece in self._pieces if piece), "").encode("utf-8", "surrogatepass")


def spooled_stdin() -> Spool:
    """Standard input, read to its end."""
    if sys.stdin is None:
        raise SourceError("- means standard input, and this process has none; pass a path")
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:  # replaced by a text stream, as notebooks and tests do
        stream = io.BytesIO(sys.stdin.read().encode("utf-8", "surrogatepass"))
    return Spool(stream, "standard input")


def _no_room(name: str, failed: OSError) -> StorageError:
    return StorageError(
        f"{name} can be read only once and its copy in {tempfile.gettempdir()} failed: {failed.strerror or failed}; "
        "try TMPDIR=FOLDER with room in it"
    )


def _remove(path: str) -> None:
    forget_shown(path)
    with suppress(OSError):
        os.unlink(path)
