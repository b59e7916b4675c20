"""From a path, folder or glob to files, and to their parts: training, validation and test, by their names.

train.txt, valid.txt, test.txt      ptb.valid.txt      eng.testa, eng.testb      train-00000.jsonl      dev/a.txt

A name claims a part if one whole piece of it is the name of a part; numbers at its end do not count. There are parts if
files claim to be for training and others for something else, in names that are otherwise alike. So `contest.txt` claims
nothing, and `test_of_time.txt` is a book among books.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from thereafter.base.progress import WARNING
from thereafter.data.files import Files, Parts
from thereafter.errors import SourceError

TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")
"""Of files with rows and columns."""


@dataclass(frozen=True)
class FileKind:
    """Which files of a folder to take, by their endings: those of the first group that has any."""

    name: str
    groups: tuple[tuple[str, ...], ...]
    columns: bool = False
    """Whether `reviews.csv:text` may name a column of a table."""
    bare: bool = False
    """Whether the ending may be that of a part instead, or none: eng.testb, train."""
    paired: bool = False
    """Whether the ending may be a language instead: train.de, train.en."""
    lists: tuple[str, ...] = ()
    """Endings of files that name or describe others, such as captions of pictures."""

    def shared(self, parts: NamedParts) -> tuple[Path, ...]:
        """Files of no part that all parts need: what their lists name, or a list of everything they contain."""
        listing = [_of_group(own, self.lists) for own in parts.parts.values()] if self.lists else []
        if listing and all(len(own) == len(lists) for own, lists in zip(parts.parts.values(), listing, strict=True)):
            return parts.others
        return () if any(listing) or not self.lists else tuple(_of_group(parts.others, self.lists))


@dataclass(frozen=True)
class Listing:
    """The files that a path leads to, and their parts where their names say so; `folder` contains them all."""

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
    except (OSError, ValueError, RuntimeError):  # too long a name, a NUL in it, ~ of an unknown user
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
    quoted = got if len(got) <= 80 else got[:77] + "..."
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
        f"{quoted!r} is {kind}; {hint}", "raw text is passed as text=", "text itself is piped in, with - as the source"
    )


PARTS = {"train": "training", "valid": "validation", "test": "test"}
"""The parts, and what they are called in sentences."""
_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev", "testa"), "valid"),  # testa, testb: CoNLL-2003
    **dict.fromkeys(("test", "testing", "testb", "testc", "t10k"), "test"),  # t10k: MNIST
}
_BETWEEN = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_PERHAPS = re.compile("train|val|dev|test|t10k", re.IGNORECASE)
_SHOWN = 3  # names of files in a sentence
_AS_ONE = "parts=False (--parts no) reads all files as one"


@dataclass(frozen=True)
class NamedParts:
    """The files of each part, and those of none, in the order they were found."""

    parts: Mapping[str, tuple[Path, ...]]
    others: tuple[Path, ...]


@dataclass(frozen=True)
class _Claim:
    part: str
    template: tuple[tuple[str, ...], tuple[str, ...]]
    """The folders above the name that claims, and the other words in it."""

    @property
    def exact(self) -> bool:
        """Whether the name is that of a part and no more."""
        return not self.template[1]


def is_bare(path: Path) -> bool:
    """Whether a file has no ending, or the name of a part is its ending: train, eng.testb."""
    _, dot, ending = _plain(path.name).rpartition(".")
    return not dot or _word(ending) in _WORDS


def parts_by_name(files: Sequence[Path], folder: Path) -> NamedParts | None:
    """The parts of files below a folder; None unless there is a training part and another."""
    depth = len(folder.parts)
    if not any("train" in piece.lower() for file in files for piece in file.parts[depth:]):
        return None
    claims = {file: list(_claims(file.parts[depth:])) for file in files}
    chosen = _alike(claims) or _unlike(claims)
    if not chosen:
        return None
    missing = PARTS.keys() - set(chosen.values())
    for file, own in claims.items():  # train.txt, valid.txt and ptb.test.txt
        if file not in chosen and own and own[0].part in missing:
            chosen[file] = own[0].part
    parts = {part: tuple(file for file in files if chosen.get(file) == part) for part in PARTS}
    return NamedParts(
        {part: own for part, own in parts.items() if own}, tuple(file for file in files if file not in chosen)
    )


def own_parts(name: str, files: Mapping[str, Iterable[Path]], *, column: str | None = None) -> Parts:
    """The user's own files of each part."""
    stem = name.rstrip("/\\") or name
    parts = {part: Files(f"{stem}:{part}", tuple(own), column=column) for part, own in files.items()}
    train = [group for part, group in parts.items() if part.partition(".")[0] == "train"]
    count, used = (sum(len(group.files) for group in several) for several in (parts.values(), train))
    detail = f"{used:,} of {count:,} files, {sum(group.size for group in train):,} bytes"
    return Parts(name, parts, detail=detail, notes=_notes(files))


def left_out_note(others: Collection[Path], folder: Path) -> list[str]:
    """A sentence on files that belong to no part; none where there are none."""
    if not others:
        return []
    names = _listed([file.relative_to(folder).as_posix() for file in others])
    belong, are = ("belongs", "is") if len(others) == 1 else ("belong", "are")
    return [f"{names} {belong} to no part and {are} not read; {_AS_ONE}"]


def unclear_note(files: Sequence[Path], folder: Path) -> list[str]:
    """A warning where files without parts are trained on as one, and one of them is called test or valid."""
    depth = len(folder.parts)
    exact = [
        file for file in files if any(claim.exact and claim.part != "train" for claim in _claims(file.parts[depth:]))
    ]
    if not exact or len(files) < 2:
        return []
    names = _listed([file.relative_to(folder).as_posix() for file in exact])
    are = "is" if len(exact) == 1 else "are"
    note = (
        f"{WARNING}{names} {are} read with all {len(files):,} files as one: there is no training part beside, or most "
        "files are of no part; expected names such as train.txt, valid.txt and test.txt"
    )
    return [note]


def language_files(files: Iterable[Path]) -> list[Path]:
    """Files whose ending may be a language: train.de, train.en."""
    return [file for file in files if re.fullmatch(r".+\.[a-z]{2,3}", _plain(file.name))]


def by_language(parts: Mapping[str, Iterable[Path]]) -> dict[str, tuple[Path, ...]]:
    """The files of parts by their endings, as in "train.de": those that all parts have; none unless there are two."""
    endings: dict[str, dict[str, list[Path]]] = {part: {} for part in parts}
    for part, files in parts.items():
        for file in files:
            endings[part].setdefault(_plain(file.name).rpartition(".")[2], []).append(file)
    shared = sorted(set.intersection(*map(set, endings.values())))
    if len(shared) < 2:
        return {}
    return {f"{part}.{language}": tuple(own[language]) for part, own in endings.items() for language in shared}


def _alike(claims: Mapping[Path, Sequence[_Claim]]) -> dict[Path, str]:
    """Files whose names are those of a training file but for the part; of several claims the outermost counts."""
    offered: dict[object, set[str]] = {}
    for own in claims.values():
        for claim in own:
            offered.setdefault(claim.template, set()).add(claim.part)
    whole = {template for template, parts in offered.items() if "train" in parts and len(parts) > 1}
    agreed = {file: [claim.part for claim in own if claim.template in whole] for file, own in claims.items()}
    return {file: parts[0] for file, parts in agreed.items() if parts}


def _unlike(claims: Mapping[Path, Sequence[_Claim]]) -> dict[Path, str]:
    """The same for names that differ otherwise too: train_full.txt and test.txt. Titles of books may claim as much, so
    one name must be that of a part alone, or every file must claim one."""
    first = {file: own[0] for file, own in claims.items() if own}
    parts = {claim.part for claim in first.values()}
    sure = len(first) == len(claims) or any(claim.exact for claim in first.values())
    return {file: claim.part for file, claim in first.items()} if sure and "train" in parts and len(parts) > 1 else {}


def _claims(path: Sequence[str]) -> Iterator[_Claim]:
    """The parts that folders and the name of a file below them claim, from the outermost on."""
    *folders, name = path
    stem, _, ending = _plain(name).rpartition(".")
    pieces = [*folders, _plain(name) if not stem or _word(ending) in _WORDS else stem]
    for depth, piece in enumerate(pieces):
        if claimed := _claimed(piece):
            part, rest = claimed
            yield _Claim(part, (tuple(folders[:depth]), rest))


@lru_cache(maxsize=4096)
def _claimed(piece: str) -> tuple[str, tuple[str, ...]] | None:
    """The part that a folder or a name claims, and the other words in it; train_dev.txt claims none."""
    if not _PERHAPS.search(piece):
        return None
    words = [word for word in map(_word, _BETWEEN.split(piece)) if word]
    parts = {_WORDS[word] for word in words if word in _WORDS}
    return (parts.pop(), tuple(word for word in words if word not in _WORDS)) if len(parts) == 1 else None


def _word(piece: str) -> str:
    """A piece of a name without the number at its end."""
    return piece.lower().rstrip("0123456789")


def _plain(name: str) -> str:
    return name.removesuffix(".gz")


def _notes(files: Mapping[str, Iterable[Path]]) -> tuple[str, ...]:
    """Which files are which part."""
    every = [str(file) for own in files.values() for file in own]
    base = os.path.commonpath([os.path.dirname(file) for file in every]) if every else ""
    clauses: list[str] = []
    for part, role in PARTS.items():
        own = [file for key, several in files.items() if key.partition(".")[0] == part for file in several]
        if own:
            first = Path(os.path.relpath(own[0], base or ".")).as_posix()
            names = first if len(own) == 1 else f"{first} and {len(own) - 1:,} more"
            verb = "" if clauses else (" is" if len(own) == 1 else " are")
            clauses.append(f"{names}{verb} the {role} part")
    return (f"{', '.join(clauses)}; {_AS_ONE}",)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
