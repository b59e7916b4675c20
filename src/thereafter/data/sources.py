"""From a `source` to its files: a path, several paths, a folder, a glob, `-`, or the name of a corpus.

Where a kind of files says so, `reviews.csv:text` is the column `text` of a table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from thereafter.data.files import AnySource, Files, Parts, Spool, spooled_stdin
from thereafter.data.finding import (
    PARTS,
    FileKind,
    Listing,
    find_files,
    left_out_note,
    list_files,
    not_found_error,
    own_parts,
    split_column,
    unclear_note,
)
from thereafter.errors import OptionError, SourceError

P = TypeVar("P", bound=Parts)


def locate(source: AnySource, kind: FileKind, part: str | None = None, *, parts: bool = True) -> Parts:
    """Find the files of a source without reading them (except standard input, which can be read only once).

    A corpus name wins over a path of the same name; `./ptb` is always the path. `ptb:valid`, or `part="valid"`, is one
    part of a corpus. A folder gives its files of that `kind`, in parts where their names say so (`data/finding.py`),
    unless `parts` is False.
    """
    if isinstance(source, Parts):
        return (source if parts else _joined(source)).only(part)
    if isinstance(source, Files):
        return Parts(source.name, {"text": source}).only(part)
    if isinstance(source, str):
        if source == "-":
            spool = spooled_stdin()
            given = Files("standard input", (spool.path,), spools=(spool,))
            return Parts(given.name, {"text": given}, detail="standard input").only(part)
        named = _corpus(source, part)
        if named is not None:
            return named
        folder, _, suffix = source.rpartition(":")
        if suffix in PARTS and os.path.isdir(os.path.expanduser(folder)) and not os.path.exists(source):
            return locate(folder, kind, suffix)
    elif not isinstance(source, os.PathLike | Sequence) or isinstance(source, bytes):
        raise SourceError(
            f"a source is a path, several paths, a folder, a glob, - or the name of a corpus, got "
            f"{type(source).__name__}; raw text is passed as text="
        )
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    return _from_paths(paths, kind, parts=parts).only(part)


def require_own(given: P) -> P:
    """Files that can be read as one; OptionError for a named corpus, whose parts are its own."""
    if given.corpus is not None:
        raise OptionError(
            f"{given.name} is a named corpus, and parts=False (--parts no) is for a folder of your own; expected one; "
            "try leaving it out"
        )
    return given


def is_read_once(source: AnySource) -> bool:
    """Whether a source is a stream, such as standard input or a pipe, of which nothing is left after a look at it."""
    if isinstance(source, Parts | Files):
        return False
    paths = [source] if isinstance(source, str | os.PathLike) else source
    return any(
        path == "-" or (Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()) for path in paths
    )


def _joined(given: Parts) -> Parts:
    """The files of all parts as one."""
    if given.corpus is not None or "text" in given.parts:
        return given
    first, *others = given.parts.values()
    files = (*first.files, *(path for one in others for path in one.files))
    return replace(given, parts={"text": replace(first, name=given.name, files=files)}, notes=(), joined=True)


def _from_paths(paths: Sequence[str | os.PathLike[str]], kind: FileKind, *, parts: bool) -> Parts:
    if not paths:
        raise SourceError("the list of paths is empty, expected at least one; raw text is passed as text=")
    listings: list[Listing] = []
    column_names: list[str | None] = []
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise SourceError(f"a list of paths holds {type(path).__name__}, expected str or Path")
        if isinstance(path, str) and path == "-":
            raise SourceError("- (standard input) cannot be one of several paths; pass it alone, or write it to a file")
        here, column = list_files(path, kind, parts=parts), None
        if not here.files and here.parts is None and kind.columns and isinstance(path, str):
            tables, column = split_column(path)
            here = list_files(tables, kind, parts=parts) if column else here
        if not here.files and here.parts is None:
            raise not_found_error(os.fspath(path), _corpus_names())
        listings.append(here)
        column_names.append(column)
    if len(set(column_names)) > 1:
        named = ", ".join("no column" if one is None else one for one in dict.fromkeys(column_names))
        raise SourceError(f"the paths name different columns ({named}), expected the same in each; try them one by one")
    name = os.fspath(paths[0]) if len(paths) == 1 else f"{len(paths)} paths"
    if all(here.parts is not None for here in listings):
        return _in_parts(name, listings, kind, column_names[0])
    files = [
        file
        for path, here in zip(paths, listings, strict=True)
        for file in (here.files if here.parts is None else find_files(path, kind))
    ]
    # A pipe, as in <(zcat ...), can be read once, and texts are read twice.
    spools = {file: Spool.of_file(file) for file in files if not file.is_file()}
    files = [spools[file].path if file in spools else file for file in files]
    joined = Files(name, tuple(files), column=column_names[0], spools=tuple(spools.values()))
    count = f"{len(files):,} files" if len(files) > 1 else "1 file"
    notes = unclear_note(files, listings[0].folder) if parts and len(paths) == 1 and not spools else []
    return Parts(name, {"text": joined}, detail=f"{count}, {joined.size:,} bytes", notes=tuple(notes), joined=not parts)


def _in_parts(name: str, listings: Sequence[Listing], kind: FileKind, column: str | None) -> Parts:
    """The parts of folders or globs that all have some."""
    files: dict[str, list[Path]] = {}
    notes: list[str] = []
    for here in listings:
        if here.parts is None:
            continue
        shared = kind.shared(here.parts)
        left_out = set(here.parts.others).difference(shared)
        for part, own in (*here.parts.parts.items(), *([("shared", shared)] if shared else [])):
            files.setdefault(part, []).extend(own)
        notes += left_out_note([other for other in here.parts.others if other in left_out], here.folder)
    given = own_parts(name, files, column=column)
    return replace(given, notes=(*given.notes, *notes))


def _corpus_names() -> list[str]:
    from thereafter.data import corpora  # here, so that reading a plain file does not load the catalogue

    return corpora.names()


def _corpus(source: str, part: str | None) -> Parts | None:
    name, _, suffix = source.partition(":")
    if name not in _corpus_names():
        return None
    from thereafter.data import corpora

    if suffix and part is not None and suffix != part:
        raise OptionError(f"{source!r} and part={part!r} name two different parts; give one of them")
    corpus, card = corpora.locate(name), corpora.card(name)
    parts = {
        key: Files(name if key == "text" else f"{name}:{key}", (path,), split=card.split_of(key))
        for key, path in corpus.parts.items()
    }
    whole = Parts(name, parts, detail=corpus.detail, kind=corpus.kind, corpus=corpus)
    return whole.only(suffix or part or card.default_part or None)
