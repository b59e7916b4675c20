"""The zip files of EPUB and .docx, read with bounds: nothing is unpacked to disk, no member may grow without end."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from thereafter.data.files import open_content
from thereafter.errors import SourceError

_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, ValueError, OSError)
ZIP_MAGIC = b"PK\x03\x04"
MOST_MEMBERS = 20_000
MOST_BYTES = 64 << 20
"""Of one member, unpacked: a chapter of 64 MiB is no chapter."""
MOST_TOTAL = 1 << 28
"""Of all that is read of one archive."""
_BLOCK = 1 << 18
_MOST_PACKED = 1 << 28  # of an archive that is itself gzipped, which has to be unpacked into memory


class Archive:
    """The members of an open zip file by name."""

    def __init__(self, path: Path, members: zipfile.ZipFile, advance: Callable[[float], None] | None) -> None:
        self._path = path
        self._members = members
        self._advance = advance
        self._total = 0
        entries = members.infolist()
        if len(entries) > MOST_MEMBERS:
            raise SourceError(f"{path} holds {len(entries):,} files, expected at most {MOST_MEMBERS:,}; is it a book?")
        self._entries = {entry.filename: entry for entry in entries}

    @property
    def names(self) -> list[str]:
        """The names of all members."""
        return list(self._entries)

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """The bytes of a member, at most so many; errors as of `blocks`."""
        return b"".join(self.blocks(name, most))

    def blocks(self, name: str, most: int = MOST_BYTES) -> Iterator[bytes]:
        """The bytes of a member in pieces; SourceError where it is not there, damaged, locked or too large."""
        entry = self._entries.get(name)
        if entry is None:
            raise SourceError(f"{self._path} has no {name}, which its list of contents names; fetch it again")
        if entry.flag_bits & 1:
            raise SourceError(f"{self._path} is protected by a password; try a copy without one")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # Python unpacks the others unbounded
            raise SourceError(
                f"{name} in {self._path} is packed by method {entry.compress_type} of zip, expected deflate, as in "
                "every book; try to unpack the file and to zip it again"
            )
        most, size = min(most, MOST_BYTES), 0
        try:
            with self._members.open(entry) as member:
                while block := member.read(_BLOCK):  # what the file says of its size may be a lie
                    size += len(block)
                    self._total += len(block)
                    if size > most or self._total > MOST_TOTAL:
                        raise SourceError(
                            f"{self._path} unpacks to more than {_in_words(most)} in {name} (or "
                            f"{_in_words(MOST_TOTAL)} in all), which no document needs; try to unpack it and pass the "
                            "text"
                        )
                    yield block
        except _DAMAGE as broken:
            raise _damage_error(self._path, broken) from None
        if self._advance is not None:
            self._advance(entry.compress_size)


@contextmanager
def open_archive(path: Path, advance: Callable[[float], None] | None = None) -> Iterator[Archive]:
    """The zip file of that path, which may itself be gzipped."""
    with ExitStack() as closing:
        try:
            members = closing.enter_context(zipfile.ZipFile(_open_seekable(path, closing)))
        except _DAMAGE as broken:
            raise _damage_error(path, broken) from None
        yield Archive(path, members, advance)


def _open_seekable(path: Path, closing: ExitStack) -> IO[bytes]:
    with open_content(path, len(ZIP_MAGIC)) as content:
        with open(path, "rb") as file:
            zipped_again = file.read(2) == b"\x1f\x8b"
        if zipped_again:
            unpacked = content.read(_MOST_PACKED + 1)
            if len(unpacked) > _MOST_PACKED:
                raise SourceError(f"{path} unpacks to more than {_MOST_PACKED >> 20} MiB; try: gunzip {path.name}")
            return io.BytesIO(unpacked)
    return closing.enter_context(open(path, "rb"))


def _in_words(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size:,} bytes"


def _damage_error(path: Path, broken: Exception) -> SourceError:
    return SourceError(
        f"{path} begins like a zip file but is damaged or cut short ({broken}); fetch it again, or test it with: "
        f"unzip -t {path.name}"
    )
