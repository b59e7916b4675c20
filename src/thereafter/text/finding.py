"""From a path, folder or glob to files; and streams that can be read only once, kept in a temporary file."""

from __future__ import annotations

import difflib
import glob
import io
import os
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from thereafter.errors import SourceError, StorageError

TEXT_SUFFIXES = (".txt", ".text", ".tokens")
MARKUP_SUFFIXES = (".md", ".rst", ".tex")


class Spool:
    """A copy of a stream in a temporary file that goes away with this object."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        try:
            handle, path = tempfile.mkstemp(prefix="thereafter-", suffix=".txt")
        except OSError as failed:
            raise _no_room(name, failed) from None
        self.path = Path(path)
        self._cleanup = weakref.finalize(self, _remove, path)
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


def spooled_stdin() -> Spool:
    """Standard input, read to its end."""
    if sys.stdin is None:
        raise SourceError("- means standard input, and this process has none; pass a path")
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:  # replaced by a text stream, as notebooks and tests do
        stream = io.BytesIO(sys.stdin.read().encode("utf-8", "surrogatepass"))
    return Spool(stream, "standard input")


def found_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path, folder or glob leads to, sorted; empty where it leads nowhere.

    A folder gives the text files in it and below, hidden ones left out: `.txt`, `.text` and `.tokens`, plain or
    gzipped; where it has none of these, `.md`, `.rst` and `.tex`, so that a README is not mixed into a corpus.
    """
    spelled = os.fspath(path)
    if not spelled:
        return []  # not the current folder, which is spelled .
    try:
        here = Path(spelled).expanduser()
        if here.is_dir():
            return _texts_below(here)
        if here.exists():
            return [here]
        if glob.has_magic(spelled) and isinstance(path, str):
            return sorted(Path(hit) for hit in glob.glob(str(here), recursive=True) if os.path.isfile(hit))
    except (OSError, ValueError, RuntimeError):  # too long a name, a NUL in it, ~ of no user: nothing is there
        return []
    return []


def _texts_below(folder: Path) -> list[Path]:
    files: list[Path] = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(top, name) for name in names if not name.startswith(".") and Path(top, name).is_file()]
    for suffixes in (TEXT_SUFFIXES, MARKUP_SUFFIXES):
        texts = [file for file in files if file.name.lower().removesuffix(".gz").endswith(suffixes)]
        if texts:
            return sorted(texts, key=lambda file: file.relative_to(folder).parts)
    raise SourceError(
        f"the folder {folder} holds no text files ({', '.join(TEXT_SUFFIXES + MARKUP_SUFFIXES)}, plain or .gz); "
        f"name the files, for instance with a glob: '{folder}/*'"
    )


def nothing_found(got: str, corpora: list[str]) -> SourceError:
    """The error for a string that leads nowhere, with the nearest files and corpora."""
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
    return SourceError(f"{shown!r} is {kind}; {hint} (raw text is passed as text=)")


def _no_room(name: str, failed: OSError) -> StorageError:
    return StorageError(
        f"{name} can be read only once and its copy in {tempfile.gettempdir()} failed: {failed.strerror or failed}; "
        "try TMPDIR=FOLDER with room in it"
    )


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
