"""The bytes of a file or stream, decompressed if it is gzip, with errors that say what to do.

Gzip is recognised by its first bytes, not by the name of the file. What can be read only once is copied to a
temporary file: texts are read twice.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

from thereafter.errors import SourceError, StorageError, forget_shown, show_as

_GZIP_MAGIC = b"\x1f\x8b\x08"
MOST_UNPACKED, MOST_RATIO = 1 << 24, 200
"""Bytes, and times its own size, that a gzip file may have unpacked; more of both is no text that somebody wrote."""


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@runtime_checkable
class _Named(Protocol):
    name: object


class Rewindable:
    """Reads a stream after a look at its first bytes, and reports how many bytes were read from the disk."""

    def __init__(self, stream: Readable, advance: Callable[[float], None] | None, head: int) -> None:
        self._stream = stream
        self._advance = advance
        self._looked_at = b""
        self.consumed = 0
        """Bytes that were read so far."""
        self.head = self._look(head)

    def _look(self, size: int) -> bytes:
        head = b""
        while len(head) < size and (more := self._stream.read(size - len(head))):  # a pipe may return less
            head += more
        self._looked_at = head
        return head

    def read(self, size: int = -1, /) -> bytes:
        if size < 0 or size >= len(self._looked_at):
            block = self._looked_at + self._stream.read(size if size < 0 else size - len(self._looked_at))
            self._looked_at = b""
        else:
            block, self._looked_at = self._looked_at[:size], self._looked_at[size:]
        self.consumed += len(block)
        if self._advance is not None and block:
            self._advance(len(block))
        return block


class _Unzipped:
    """Unpacks a gzip file, and refuses one that grows without end."""

    def __init__(self, name: str, packed: Rewindable, stream: Readable) -> None:
        self._name, self._packed, self._stream = name, packed, stream
        self._size = 0

    def read(self, size: int = -1, /) -> bytes:
        block = self._stream.read(size)
        self._size += len(block)
        if self._size > MOST_UNPACKED and self._size > MOST_RATIO * self._packed.consumed:
            raise SourceError(
                f"{self._name} unpacks to more than {MOST_RATIO} times its size ({self._size:,} bytes so far), which "
                f"no text does; if it is meant, try: gunzip {os.path.basename(self._name)}"
            )
        return block


@contextmanager
def open_content(
    source: str | os.PathLike[str] | BinaryIO, head: int, advance: Callable[[float], None] | None = None
) -> Iterator[Rewindable]:
    """The content, to be read once, with its first `head` bytes available beforehand; errors are SourceErrors.

    `advance` is called with the number of bytes read from the disk, for a progress bar.
    """
    name = name_of(source)
    with ExitStack() as closing:
        try:
            stream = closing.enter_context(_open(source)) if isinstance(source, str | os.PathLike) else source
            rewindable = Rewindable(stream, advance, len(_GZIP_MAGIC))
            if rewindable.head == _GZIP_MAGIC:
                unzipped = closing.enter_context(gzip.GzipFile(fileobj=rewindable, mode="rb"))  # type: ignore[call-overload]
                yield Rewindable(_Unzipped(name, rewindable, unzipped), None, head)
            else:
                yield Rewindable(rewindable, None, head)
        except (EOFError, gzip.BadGzipFile, zlib.error) as broken:
            raise SourceError(
                f"{name} begins like a gzip file but is damaged or cut short ({broken}); "
                "fetch it again, or test it with: gzip -t"
            ) from None
        except IsADirectoryError:
            raise SourceError(f"{name} is a folder, expected a file; try one of the files in it") from None
        except FileNotFoundError:
            raise SourceError(f"{name} does not exist; check the spelling and the current folder") from None
        except PermissionError:
            raise SourceError(f"{name} may not be read by this user; try chmod +r on it, or a copy") from None
        except OSError as failed:
            raise SourceError(f"{name} could not be read: {failed.strerror or failed}") from None


def name_of(source: object) -> str:
    """The name of a file or stream in errors."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return str(source.name) if isinstance(source, _Named) else "the stream"


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    try:
        return open(path, "rb")
    except ValueError:
        raise SourceError(f"{os.fspath(path)!r} cannot be the path of a file: it holds a NUL character") from None


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
