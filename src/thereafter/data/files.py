"""Several files as one, and the named parts of a corpus: bytes, whatever they mean to their readers.

Text, examples, series and pictures are read on top of these: `text.sources.Source` is `Files` read as text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from thereafter.data.opening import Spool
from thereafter.errors import SourceError, UnknownNameError

if TYPE_CHECKING:
    from thereafter.data.corpora import Corpus


_JOINED = ("pictures", "captioned")
"""Kinds of corpora of which a part is several files."""
_KEPT = ("series", "clips", "games")
"""Kinds of which one file is of the same kind."""


FileState = tuple[int, int, int, int]


def file_state(path: Path) -> FileState:
    """Size, inode and times of a file. What is remembered of a file holds as long as its state does."""
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
    """The column of a table that is meant, by name or number; None where the whole files are."""
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
    """How the user's own files were taken apart, in sentences to print."""
    joined: bool = field(default=False, kw_only=True)
    """Whether files are one whatever their names say, because that was asked for."""

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
            known = {name.partition(".")[0] if self.kind in _JOINED else name: None for name in self.parts}
            raise UnknownNameError(f"part of {self.name}", part, known)
        one, shared = self.parts[part], self.parts.get("shared")
        one = one if shared is None else replace(one, files=(*one.files, *shared.files))
        kind = self.kind if self.kind in _KEPT else "text"
        return replace(self, name=one.name, parts={"text": one}, kind=kind, notes=())

    @property
    def part_files(self) -> dict[str, list[str]] | None:
        """The full names of the user's own files of each part; None where there are no such parts."""
        if self.corpus is not None or "text" in self.parts:
            return None
        return {part: [str(path.absolute()) for path in files.files] for part, files in self.parts.items()}

    def _joined(self, part: str) -> Files | None:
        """The files whose names begin with that of a part, and those that belong to no part; None if it is no such."""
        stems = {name.partition(".")[0] for name in self.parts if "." in name}
        if part not in stems:
            return None
        own = [name for name in self.parts if name.partition(".")[0] in ({part} | (set(self.parts) - stems))]
        return Files(f"{self.name}:{part}", tuple(path for name in own for path in self.parts[name].files))


AnySource = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Files | Parts
"""What a user can pass as a source of data."""
