"""From a path, folder or glob to files."""

from __future__ import annotations

import difflib
import glob
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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


def find_files(path: str | os.PathLike[str], kind: FileKind) -> list[Path]:
    """The files of a path, folder or glob, sorted; empty if there are none.

    A folder gives the files of the `kind`, plain or gzipped, in it and below, hidden ones left out.
    """
    spelled = os.fspath(path)
    if not spelled:
        return []  # not the current folder, which is spelled .
    try:
        here = Path(spelled).expanduser()
        if here.is_dir():
            return _files_below(here, kind)
        if here.exists():
            return [here]
        if glob.has_magic(spelled) and isinstance(path, str):
            return sorted(Path(hit) for hit in glob.glob(str(here), recursive=True) if os.path.isfile(hit))
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # too long a name, a NUL in it, ~ of an unknown user
        return []
    return []


def find_column(path: str, kind: FileKind) -> tuple[list[Path], str | None]:
    """The tables of `PATH:COLUMN`, a path or a glob, and the name or number of the column; none if it is no such."""
    tables, _, column = path.rpartition(":")
    if not column or not tables.lower().removesuffix(".gz").endswith(TABLE_ENDINGS):
        return [], None
    return find_files(tables, kind), column


def _files_below(folder: Path, kind: FileKind) -> list[Path]:
    files: list[Path] = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(top, name) for name in names if not name.startswith(".") and Path(top, name).is_file()]
    for suffixes in kind.groups:
        of_group = [file for file in files if file.name.lower().removesuffix(".gz").endswith(suffixes)]
        if of_group:
            return sorted(of_group, key=lambda file: file.relative_to(folder).parts)
    expected = ", ".join(suffix for suffixes in kind.groups for suffix in suffixes)
    raise SourceError(
        f"the folder {folder} holds no {kind.name} ({expected}, plain or .gz); "
        f"name the files, for instance with a glob: '{folder}/*'"
    )


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
