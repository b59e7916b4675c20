"""From a `source` to its files: a path, several paths, a folder, a glob, `-`, or a named corpus; and the named corpora.

Where a kind of files says so, `reviews.csv:text` is the column `text` of a table.

Each file of a corpus is looked for in `$THEREAFTER_DATA/<name>/`, then in the cache, as NAME or NAME.gz; then it is
downloaded if it has an address; else the error says which file to place where. The sha256 of the uncompressed content
of every file is checked once: the cache remembers which file was correct in which state.

>>> card("ptb").tokens
'word'
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from thereafter.base import progress
from thereafter.base.kinds import Registry
from thereafter.base.storage import cache_folder, data_folder, write_text
from thereafter.data import finding
from thereafter.data.catalogue import CARDS, Corpus, CorpusCard, CorpusFile
from thereafter.data.download import content_problem, fetch
from thereafter.data.files import AnySource, Files, Parts, Spool, spooled_stdin
from thereafter.errors import ChecksumError, CorpusError, OptionError, SourceError, StorageError, UnknownNameError

BUILDERS = Registry("built-in corpus", {name: card.builder for name, card in CARDS.items() if card.builtin})

_SETTLED_NS = 2_000_000_000
"""A file changed within the last two seconds is not remembered as checked: the clock of some file systems is so
coarse that a further change could leave its times as they are."""


def names() -> list[str]:
    """All named corpora, built-in ones first."""
    return list(CARDS)


def card(name: str) -> CorpusCard:
    """The catalogue entry of a corpus; UnknownNameError with the nearest names for any other name."""
    if name not in CARDS:
        raise UnknownNameError("corpus", name, CARDS)
    return CARDS[name]


def locate(name: str, *, download: bool = True) -> Corpus:
    """Find a corpus, check it, and return its parts; with `download`, missing files are fetched into the cache.

    Raises UnknownNameError, ChecksumError (a file with other content), CorpusError (missing, with what to place
    where), and what `download.fetch` raises.
    """
    entry = card(name)
    if entry.builtin:
        built = BUILDERS.load(name)()
        return Corpus(name, dict(built.parts), entry.tokens, built.detail, entry.kind, entry.independent_lines)
    missing = [file for file in entry.files if _find(entry, file) is None]
    if any(not (download and file.urls) for file in missing):
        raise CorpusError(_what_to_place(entry, missing, download))
    parts = {file.part: _find_or_fetch(entry, file, download) for file in entry.files}
    detail = "found in " + _folders(parts.values())
    return Corpus(name, parts, entry.tokens, detail, entry.kind, entry.independent_lines)


def status(name: str) -> str:
    """The state of a corpus in a few words, without downloading, checking or building anything."""
    entry = card(name)
    if entry.builtin:
        return "built in"
    paths = [path for path in (_find(entry, file) for file in entry.files) if path is not None]
    missing = [file for file in entry.files if _find(entry, file) is None]
    here = f"found in {_folders(paths)}" if paths else ""
    if not missing:
        cached = all(path.parent == _cache_of(name) for path in paths)
        return f"in the cache, {_folders(paths)}" if cached else here
    if all(file.urls for file in missing):
        rest = f"can be downloaded ({sum(file.bytes for file in missing) / 1e6:.1f} MB)"
    else:
        rest = "place by hand: " + ", ".join(file.filename for file in missing if not file.urls)
    return f"{len(missing)} of {len(entry.files)} files missing, {rest}; {here}" if paths else rest


def _cache_of(name: str) -> Path:
    return cache_folder() / "corpora" / name


def _find(entry: CorpusCard, file: CorpusFile) -> Path | None:
    """The first path that has the file, whatever its content."""
    data = data_folder()
    for folder in ([data / entry.name] if data else []) + [_cache_of(entry.name)]:
        for filename in (file.filename, f"{file.filename}.gz"):
            if os.path.isfile(folder / filename):  # unlike Path.is_file, no error in a folder without permission
                return folder / filename
    return None


def _find_or_fetch(entry: CorpusCard, file: CorpusFile, download: bool) -> Path:
    """The path of the file, after its content was checked; downloaded if it is missing or damaged."""
    path = _find(entry, file)
    if path is not None:
        facts = path.stat()  # figures that change with the file; unlike the rest, the change time cannot be set
        state = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
        if _memory().get(str(path.absolute())) == [*state, file.sha256]:
            return path
        problem = content_problem(path, sha256=file.sha256, size=file.bytes)
        if problem is None:
            _remember(path, file, state)
            return path
        # A damaged file in the cache is replaced; one in the user's folder is left alone.
        if path.parent != _cache_of(entry.name) or not (download and file.urls):
            raise ChecksumError(
                f"{path} is not the file that the corpus {entry.name!r} is made of: {problem}; try: put the original "
                "back, or move this file away so that the corpus is looked for elsewhere"
            )
        progress.note(f"{path} is damaged ({problem}); downloading it again")
    compressed = file.urls[0].endswith(".gz")
    target = _cache_of(entry.name) / (f"{file.filename}.gz" if compressed else file.filename)
    fetched = fetch(file.urls, target, sha256=file.sha256, size=file.bytes, label=f"{entry.name}/{file.filename}")
    if path is not None and path != fetched:
        path.unlink(missing_ok=True)  # the damaged one, which has precedence over the good one by its name
    return fetched


def _what_to_place(entry: CorpusCard, missing: list[CorpusFile], download: bool) -> str:
    """The message for a missing corpus: its files, the folders they belong in, and how to get them."""
    wanted = ", ".join(f"{file.filename} ({file.bytes:,} bytes, sha256 {file.sha256})" for file in missing)
    data = data_folder()
    if data is None:
        first = f"$THEREAFTER_DATA/{entry.name} (THEREAFTER_DATA is not set)"
    else:
        first = f"{data / entry.name}" + (
            "" if data.is_dir() else f" (THEREAFTER_DATA is {data}, which is not a folder)"
        )
    places = f"{first} or {_cache_of(entry.name)}"
    if entry.by_hand:
        way = f"{entry.by_hand}, then place it there"
    elif all(file.urls for file in missing) and not download:
        way = f"thereafter data get {entry.name}, or place them there by hand"
    else:
        way = "place them there by hand"
    return (
        f"the corpus {entry.name!r} is not here: got no such file, expected {wanted}, plain or as .gz of that, "
        f"in {places}; try: {way}"
    )


def _folders(paths: Iterable[Path]) -> str:
    return " and ".join(dict.fromkeys(str(path.parent) for path in paths))


def _memory() -> dict[str, object]:
    """The files that were checked, and in which state. A missing or damaged list counts as empty."""
    try:
        checked = json.loads((cache_folder() / "verified.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return checked if isinstance(checked, dict) else {}


def _remember(path: Path, file: CorpusFile, state: list[int]) -> None:
    """Remember that the file in this state has the right content.

    Two processes at once may lose an entry but cannot damage the list; a cache that cannot be written is no error.
    """
    if time.time_ns() - max(state[1:]) < _SETTLED_NS:
        return
    checked = _memory() | {str(path.absolute()): [*state, file.sha256]}
    with suppress(StorageError):
        write_text(cache_folder() / "verified.json", json.dumps(checked, indent=0))


P = TypeVar("P", bound=Parts)


def locate_source(source: AnySource, kind: finding.FileKind, part: str | None = None, *, parts: bool = True) -> Parts:
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
            stdin = Files("standard input", (spool.path,), spools=(spool,))
            return Parts(stdin.name, {"text": stdin}, detail="standard input").only(part)
        named = _corpus(source, part)
        if named is not None:
            return named
        folder, _, suffix = source.rpartition(":")
        if suffix in finding.PARTS and os.path.isdir(os.path.expanduser(folder)) and not os.path.exists(source):
            return locate_source(folder, kind, suffix)
    elif not isinstance(source, os.PathLike | Sequence) or isinstance(source, bytes):
        raise SourceError(
            f"a source is a path, several paths, a folder, a glob, - or the name of a corpus, got "
            f"{type(source).__name__}; raw text is passed as text="
        )
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    return _from_paths(paths, kind, parts=parts).only(part)


def require_own(source: P) -> P:
    """Files that can be read as one; OptionError for a named corpus, whose parts are its own."""
    if source.corpus is not None:
        raise OptionError(
            f"{source.name} is a named corpus, and parts=False (--parts no) is for a folder of your own; expected one; "
            "try leaving it out"
        )
    return source


def is_read_once(source: AnySource) -> bool:
    """Whether a source is a stream, such as standard input or a pipe, which can be read only once."""
    if isinstance(source, Parts | Files):
        return False
    paths = [source] if isinstance(source, str | os.PathLike) else source
    return any(
        path == "-" or (Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()) for path in paths
    )


def _joined(source: Parts) -> Parts:
    """The files of all parts as one."""
    if source.corpus is not None or "text" in source.parts:
        return source
    first, *others = source.parts.values()
    files = (*first.files, *(path for part in others for path in part.files))
    return replace(source, parts={"text": replace(first, name=source.name, files=files)}, notes=(), joined=True)


def _from_paths(paths: Sequence[str | os.PathLike[str]], kind: finding.FileKind, *, parts: bool) -> Parts:
    if not paths:
        raise SourceError("the list of paths is empty, expected at least one; raw text is passed as text=")
    listings: list[finding.Listing] = []
    column_names: list[str | None] = []
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise SourceError(f"a list of paths holds {type(path).__name__}, expected str or Path")
        if isinstance(path, str) and path == "-":
            raise SourceError("- (standard input) cannot be one of several paths; pass it alone, or write it to a file")
        here, column = finding.list_files(path, kind, parts=parts), None
        if not here.files and here.parts is None and kind.columns and isinstance(path, str):
            tables, column = finding.split_column(path)
            here = finding.list_files(tables, kind, parts=parts) if column else here
        if not here.files and here.parts is None:
            raise finding.not_found_error(os.fspath(path), names())
        listings.append(here)
        column_names.append(column)
    if len(set(column_names)) > 1:
        named = ", ".join("no column" if column is None else column for column in dict.fromkeys(column_names))
        raise SourceError(f"the paths name different columns ({named}), expected the same in each; try them one by one")
    name = os.fspath(paths[0]) if len(paths) == 1 else f"{len(paths)} paths"
    if all(here.parts is not None for here in listings):
        return _in_parts(name, listings, kind, column_names[0])
    files = [
        file
        for path, here in zip(paths, listings, strict=True)
        for file in (here.files if here.parts is None else finding.find_files(path, kind))
    ]
    # A pipe, as in <(zcat ...), can be read once, and texts are read twice.
    spools = {file: Spool.of_file(file) for file in files if not file.is_file()}
    files = [spools[file].path if file in spools else file for file in files]
    joined = Files(name, tuple(files), column=column_names[0], spools=tuple(spools.values()))
    count = f"{len(files):,} files" if len(files) > 1 else "1 file"
    notes = finding.unclear_note(files, listings[0].folder) if parts and len(paths) == 1 and not spools else []
    return Parts(name, {"text": joined}, detail=f"{count}, {joined.size:,} bytes", notes=tuple(notes), joined=not parts)


def _in_parts(name: str, listings: Sequence[finding.Listing], kind: finding.FileKind, column: str | None) -> Parts:
    """The parts of folders or globs, all of which have parts."""
    files: dict[str, list[Path]] = {}
    notes: list[str] = []
    for here in listings:
        if here.parts is None:
            continue
        shared = kind.shared(here.parts)
        left_out = set(here.parts.others).difference(shared)
        for part, own in (*here.parts.parts.items(), *([("shared", shared)] if shared else [])):
            files.setdefault(part, []).extend(own)
        notes += finding.left_out_note([other for other in here.parts.others if other in left_out], here.folder)
    combined = finding.own_parts(name, files, column=column)
    return replace(combined, notes=(*combined.notes, *notes))


def _corpus(source: str, part: str | None) -> Parts | None:
    name, _, suffix = source.partition(":")
    if name not in names():
        return None
    if suffix and part is not None and suffix != part:
        raise OptionError(f"{source!r} and part={part!r} name two different parts; give one of them")
    corpus, entry = locate(name), card(name)
    parts = {
        key: Files(name if key == "text" else f"{name}:{key}", (path,), split=entry.split_of(key))
        for key, path in corpus.parts.items()
    }
    whole = Parts(name, parts, detail=corpus.detail, kind=corpus.kind, corpus=corpus)
    return whole.only(suffix or part or entry.default_part or None)
