"""Files as bytes, whatever they mean to their readers: several as one, and the named parts of a corpus.

Text, examples, series and pictures are read on top of these: `text.sources.Source` is `Files` read as text. Gzip is
recognised by its first bytes, not by the name of the file, and errors say what to do. What can be read only once is
copied to a temporary file: texts are read twice.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self, runtime_checkable

from thereafter.base.config import Table
from thereafter.errors import SourceError, StorageError, UnknownNameError, forget_shown, show_as

if TYPE_CHECKING:
    from thereafter.data.catalogue import Corpus


_JOINED = ("pictures", "captioned")
"""Kinds of corpora of which a part is several files."""
_KEPT = ("series", "clips", "games")
"""Kinds of which one file is of the same kind."""


FileState = tuple[int, int, int, int]


def file_state(path: Path) -> FileState:
    """Size, inode and times of a file. What is cached of a file is valid as long as its state is the same."""
    status = os.stat(path)
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=1 << 12)
def _hash_of_file(path: Path, state: FileState) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


@dataclass(frozen=True)
class Files:
    """Files that are read one after the other, any number of times."""

    name: str
    files: tuple[Path, ...] = ()
    column: str | None = field(default=None, kw_only=True)
    """The column of a table, by name or number; None for the whole files."""
    split: str = field(default="", kw_only=True)
    """How the rows of a series are usually cut into train, valid and test, such as 8640/2880/2880."""
    spools: tuple[Spool, ...] = field(
        default=(), repr=False, compare=False, kw_only=True
    )  # temporary files, which live as long as this object

    @property
    def size(self) -> int:
        """Bytes on disk: what a progress bar counts up to."""
        try:
            return sum(path.stat().st_size for path in self.files)
        except OSError as failed:
            raise SourceError(f"{failed.filename} could not be read: {failed.strerror}") from None

    def content_hash(self, reading: bytes = b"") -> str:
        """sha256 of `reading`, which says how the files are read, and of their content; names do not count."""
        digest = hashlib.sha256(reading)
        for path in self.files:
            try:
                digest.update(_hash_of_file(path, file_state(path)))
            except OSError as failed:
                raise SourceError(f"{path} could not be read: {failed.strerror}") from None
        return digest.hexdigest()


@dataclass(frozen=True)
class Parts:
    """The files of a source: the user's own as `{"text": ...}`, or a corpus with train, valid and test."""

    name: str
    parts: Mapping[str, Files]
    detail: str = field(default="", kw_only=True)
    """One line to print beside results."""
    kind: str = field(default="text", kw_only=True)
    """The content of the files, as `CorpusCard.kind` names it; "text" is running text, or unknown."""
    corpus: Corpus | None = field(default=None, kw_only=True)
    """The corpus that these are parts of; None for the user's own files."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """How the user's own files were divided into parts, in sentences to print."""
    joined: bool = field(default=False, kw_only=True)
    """Whether the user asked for all files as one, whatever their names."""

    def only(self, part: str | None) -> Self:
        """One part alone (all of them for None); UnknownNameError if there is no such part.

        Of pictures a part is several files: `mnist:test` is "test" and "test.labels", `flickr8k:test` is "test.names"
        and what all parts share.
        """
        if part is None:
            return self
        if self.kind in _JOINED and (joined := self._joined(part)) is not None:
            return replace(self, name=joined.name, parts={"text": joined}, notes=())
        if part not in self.parts:
            part_names = {name.partition(".")[0] if self.kind in _JOINED else name: None for name in self.parts}
            raise UnknownNameError(f"part of {self.name}", part, part_names)
        chosen, shared = self.parts[part], self.parts.get("shared")
        chosen = chosen if shared is None else replace(chosen, files=(*chosen.files, *shared.files))
        kind = self.kind if self.kind in _KEPT else "text"
        return replace(self, name=chosen.name, parts={"text": chosen}, kind=kind, notes=())

    @property
    def part_files(self) -> dict[str, list[str]] | None:
        """The full names of the user's own files of each part; None if there are no such parts."""
        if self.corpus is not None or "text" in self.parts:
            return None
        return {part: [str(path.absolute()) for path in files.files] for part, files in self.parts.items()}

    def named_files(self) -> Table:
        """For the configuration: the user's own files of each part; or that the user asked for all as one."""
        files = self.part_files
        return ({"parts": False} if self.joined else {}) | ({} if files is None else {"part_files": files})

    def _joined(self, part: str) -> Files | None:
        """The files whose names begin with that of a part, and those of no part; None if it is not one of them."""
        stems = {name.partition(".")[0] for name in self.parts if "." in name}
        if part not in stems:
            return None
        own = [name for name in self.parts if name.partition(".")[0] in ({part} | (set(self.parts) - stems))]
        return Files(f"{self.name}:{part}", tuple(path for name in own for path in self.parts[name].files))


AnySource = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Files | Parts
"""What a user can pass as a source of data."""


_GZIP_MAGIC = b"\x1f\x8b\x08"
MOST_UNPACKED, MOST_RATIO = 1 << 24, 200
"""Maximum bytes, and ratio to its own size, of an unpacked gzip file; real texts never exceed both."""


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
        while len(self._looked_at) < head and (more := stream.read(head - len(self._looked_at))):
            self._looked_at += more  # a pipe may return less than was requested
        self.head = self._looked_at

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
    """Pieces of text, read as bytes; a piece may be longer than the requested size."""

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
