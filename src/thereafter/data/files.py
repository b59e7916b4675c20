"""Files under one name, and the named parts of a corpus: bytes, whatever they mean to those who read them.

Text, examples, series and pictures are read on top of these: `text.sources.Source` is `Files` read as text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from thereafter.data.spool import Spool
from thereafter.errors import SourceError, UnknownNameError

if TYPE_CHECKING:
    from thereafter.data.corpora import Corpus


@dataclass(frozen=True)
class Files:
    """Files that are read one after the other, as often as one likes."""

    name: str
    files: tuple[Path, ...] = ()
    spools: tuple[Spool, ...] = field(default=(), repr=False, compare=False, kw_only=True)  # kept while this is

    @property
    def size(self) -> int:
        """Bytes on disk: what a progress bar counts up to."""
        try:
            return sum(path.stat().st_size for path in self.files)
        except OSError as failed:
            raise SourceError(f"{failed.filename} could not be read: {failed.strerror}") from None

    def content_hash(self, reading: bytes = b"") -> str:
        """sha256 of `reading`, which says how the files are read, and of their content; whatever they are called."""
        digest = hashlib.sha256(reading)
        for path in self.files:
            try:
                with open(path, "rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
            except OSError as failed:
                raise SourceError(f"{path} could not be read: {failed.strerror}") from None
        return digest.hexdigest()


@dataclass(frozen=True)
class Parts:
    """What a source leads to: files of the user's as `{"text": ...}`, or a corpus with train, valid and test."""

    name: str
    parts: Mapping[str, Files]
    detail: str = field(default="", kw_only=True)
    """One line to print beside results."""
    kind: str = field(default="text", kw_only=True)
    """What a corpus' files hold: "text" (running text, or nobody said), "pairs", "tagged", "labelled"."""
    corpus: Corpus | None = field(default=None, kw_only=True)
    """The corpus these are parts of, with what is known of it; None for files of the user's."""

    def only(self, part: str | None) -> Self:
        """One part alone (all of them for None); what has no parts is refused, not handed out as its own part."""
        if part is None:
            return self
        if part not in self.parts:
            raise UnknownNameError(f"part of {self.name}", part, self.parts)
        one = self.parts[part]
        return replace(self, name=one.name, parts={"text": one}, kind="text")


AnySource = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Files | Parts
"""What a user may name data by."""
