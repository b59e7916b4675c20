"""From a path, folder or glob to files."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from thereafter.data.parts import NamedParts, by_language, is_bare, language_files, parts_by_name
from thereafter.errors import SourceError

TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")
"""Of files with rows and columns."""


@dataclass(frozen=True)
class FileKind:
    """Which files of a folder to take, by their endings: those of the first group of which there is any."""

    name: str
    groups: tuple[tuple[str, ...], ...]
    columns: bool = False
    """Whether `reviews.csv:text` may name a column of a table."""
    bare: bool = False
    """Whether the ending may be that of a part instead, or none: eng.testb, train."""
    paired: bool = False
    """Whether the ending may be a language instead: train.de, train.en."""
    lists: tuple[str, ...] = ()
    """Endings of files that name others or say something of them, such as captions of pictures."""

    def shared(self, parts: NamedParts) -> tuple[Path, ...]:
        """Files of no part that all parts need: what their lists name, or a list of all they hold."""
        listing = [_of_group(own, self.lists) for own in parts.parts.values()] if self.lists else []
        if listing and all(len(own) == len(lists) for own, lists in zip(parts.parts.values(), listing, strict=True)):
            return parts.others
        return () if any(listing) or not self.lists else tuple(_of_group(parts.others, self.lists))


@dataclass(frozen=True)
class Listing:
    """The files that a path leads to, and their parts where their names say so; `folder` is the one above them all."""

    files: list[Path]
    parts: NamedParts | None
    folder: Path


def find_files(path: str | os.PathLike[str], kind: FileKind) -> list[Path]:
    """The files of a path, folder or glob, sorted; empty if there are none.

    A folder gives the files of the `kind`, plain or gzipped, in it and below, hidden ones left out.
    """
    return list_files(path, kind, parts=False).files


def list_files(path: str | os.PathLike[str], kind: FileKind, *, parts: bool = True) -> Listing:
    """The files of a path, folder or glob, with the `parts` that those of a folder or glob have by their names.

    Of several groups of a `kind` the first that has parts counts, whatever else is in the folder.
    """
    spelled = os.fspath(path)
    if not spelled:
        return Listing([], None, Path())  # not the current folder, which is spelled .
    try:
        here = Path(spelled).expanduser()
        if here.is_dir():
            files = _all_below(here)
            named = _parts_below(files, here, kind) if parts else None
            return Listing(_of_kind(files, here, kind) if named is None else [], named, here)
        if here.exists():
            return Listing([here], None, here.parent)
        if glob.has_magic(spelled) and isinstance(path, str):
            hits = sorted(Path(hit) for hit in glob.glob(str(here), recursive=True) if os.path.isfile(hit))
            folder = Path(os.path.commonpath([hit.parent for hit in hits])) if hits else here
            named = parts_by_name(hits, folder) if parts else None
            return Listing(hits, None if named is None or _hides_others(named, kind) else named, folder)
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # too long a name, a NUL in it, ~ of an unknown user
        return Listing([], None, Path())
    return Listing([], None, here)


def split_column(path: str) -> tuple[str, str | None]:
    """The tables of `PATH:COLUMN`, a path or a glob, and the name or number of the column; None if it names none."""
    tables, _, column = path.rpartition(":")
    if not column or not tables.lower().removesuffix(".gz").endswith(TABLE_ENDINGS):
        return path, None
    return tables, column


def _parts_below(files: Sequence[Path], folder: Path, kind: FileKind) -> NamedParts | None:
    """The parts of the first group of files that has some; files of the groups before it are of no part."""
    groups = [_of_group(files, suffixes) for suffixes in kind.groups]
    groups += [[file for file in files if is_bare(file)]] if kind.bare else []
    before: list[Path] = []
    for group in groups:
        if parts := parts_by_name(group, folder):
            parts = NamedParts(parts.parts, (*before, *parts.others))
            return None if _hides_others(parts, kind) else parts
        before += group
    if kind.paired and (parts := parts_by_name(language_files(files), folder)):
        languages = by_language(parts.parts)
        return NamedParts(languages, parts.others) if languages else None
    return None


def _hides_others(parts: NamedParts, kind: FileKind) -> bool:
    """Whether most files, and most of their bytes, belong to no part: train.md and test.md among many pages."""
    own, shared = [file for several in parts.parts.values() for file in several], set(kind.shared(parts))
    others = [file for file in parts.others if file not in shared]
    return len(others) > len(own) and sum(map(os.path.getsize, others)) > sum(map(os.path.getsize, own))


def _of_kind(files: Sequence[Path], folder: Path, kind: FileKind) -> list[Path]:
    for suffixes in kind.groups:
        if of_group := _of_group(files, suffixes):
            return of_group
    expected = ", ".join(suffix for suffixes in kind.groups for suffix in suffixes)
    raise SourceError(
        f"the folder {folder} holds no {kind.name} ({expected}, plain or .gz); "
        f"name the files, for instance with a glob: '{folder}/*'"
    )


def _all_below(folder: Path) -> list[Path]:
    """All files in a folder and below, sorted; hidden ones are left out."""
    files: list[Path] = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(top, name) for name in names if not name.startswith(".") and os.path.isfile(Path(top, name))]
    return sorted(files, key=lambda file: file.parts)


def _of_group(files: Sequence[Path], suffixes: tuple[str, ...]) -> list[Path]:
    return [file for file in files if file.name.lower().removesuffix(".gz").endswith(suffixes)]


def not_found_error(got: str, corpora: list[str]) -> SourceError:
    """The error for a source that does not exist, with the files and corpora of the most similar names."""
    shown = got if len(got) <= 80 else got[:77] + "..."
    folder, name = os.path.split(got)
    beside: list[str] = []
    with suppress(OSError, ValueError):
        beside = [os.path.join(folder, entry) for entry in sorted(os.listdir(folder or "."))]
    near = difflib.get_close_matches(name, [os.path.basename(entry) for entry in beside], n=3, cutoff=0.6)
    guesses = [os.path.join(folder, entry) for entry in near]
    guesses += difflib.get_close_matches(got.partition(":")[0], corpora, n=3, cutoff=0.6)
    if guesses:
        hint = "did you mean " + " or ".join(repr(guess) for guess in guesses) + "?"
    else:
        hint = "corpora are " + ", ".join(corpora)
    kind = "a glob that matches no file" if glob.has_magic(got) else "neither a file, a folder nor the name of a corpus"
    return SourceError(
        f"{shown!r} is {kind}; {hint}", "raw text is passed as text=", "text itself is piped in, with - as the source"
    )
