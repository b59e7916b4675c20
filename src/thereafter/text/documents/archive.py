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

from thereafter.data.opening import open_content
from thereafter.errors import SourceError

_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, ValueError, OSError)
ZIP_MAGIC = b"PK\x03\x04"
MOST_MEMBERS = 20_000
MOST_BYTES = 64 << 20
"""Of one member, unpacked: a chapter of 64 MiB is no chapter."""
MOST_TOTAL = 1 << 30
"""Of all that is read of one archive."""
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

    def read(self, name: str) -> bytes:
        """The bytes of a member; SourceError where it is not there, damaged, locked or too large."""
        entry = self._entries.get(name)
        if entry is None:
            raise SourceError(f"{self._path} has no {name}, which its list of contents names; fetch it again")
        if entry.flag_bits & 1:
            raise SourceError(f"{self._path} is protected by a password; try a copy without one")
        try:
            with self._members.open(entry) as member:
                content = member.read(MOST_BYTES + 1)  # what the file says of its size may be a lie
        except _DAMAGE as broken:
            raise _damage_error(self._path, broken) from None
        self._total += len(content)
        if len(content) > MOST_BYTES or self._total > MOST_TOTAL:
            raise SourceError(
                f"{self._path} unpacks to more than {MOST_BYTES >> 20} MiB in {name} (or {MOST_TOTAL >> 30} GiB in "
                "all), which no document needs; try to unpack it and pass the text"
            )
        if self._advance is not None:
            self._advance(entry.compress_size)
        return content

    def require_bounds(self) -> None:
        """SourceError if a member, or all together, would be larger than is read here; for other readers of it."""
        for name in self._entries:
            self.read(name)


@contextmanager
def open_archive(path: Path, advance: Callable[[float], None] | None = None) -> Iterator[Archive]:
    """The zip file of that path, which may itself be gzipped."""
    with ExitStack() as closing:
        try:
            members = closing.enter_context(zipfile.ZipFile(open_seekable(path, closing)))
        except _DAMAGE as broken:
            raise _damage_error(path, broken) from None
        yield Archive(path, members, advance)


def open_seekable(path: Path, closing: ExitStack) -> IO[bytes]:
    """The bytes of a file for readers that go back and forth in it."""
    with open_content(path, len(ZIP_MAGIC)) as content:
        zipped_again = _is_gzip(path)
        if zipped_again:
            unpacked = content.read(_MOST_PACKED + 1)
            if len(unpacked) > _MOST_PACKED:
                raise SourceError(f"{path} unpacks to more than {_MOST_PACKED >> 20} MiB; try: gunzip {path.name}")
            return io.BytesIO(unpacked)
    return closing.enter_context(open(path, "rb"))


def _is_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _damage_error(path: Path, broken: Exception) -> SourceError:
    return SourceError(
        f"{path} begins like a zip file but is damaged or cut short ({broken}); fetch it again, or test it with: "
        f"unzip -t {path.name}"
    )
