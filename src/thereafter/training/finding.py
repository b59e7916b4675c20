"""Where the text of a training is: named by a user, found again from a run folder, and what of it is held out.

A run says in its configuration where its text and its validation text are. They are found again by that and must be the
same to the last byte.

Training does not see the valid part of a corpus, another source that is named, or the end of the text itself: its last
5 % of lines, or what `split="90/10"` cuts off by characters. Slices are read in pieces like any other text, so a text
may be larger than memory.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.data.files import AnySource, Files, Parts
from thereafter.data.finding import FileKind, find_files
from thereafter.errors import EmptyCorpusError, OptionError, SourceError
from thereafter.runs.folder import is_file
from thereafter.text.form import Forming
from thereafter.text.reading import code_points
from thereafter.text.sources import Source, Texts, resolve
from thereafter.text.writing import stored_writing, texts_in_style
from thereafter.training.settings import START, TextSettings
from thereafter.vision.pictures.archives import IDX_ENDINGS, is_picture, members_of
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS

_SWITCH = re.compile(r" \(--[^)]*\)")  # switches of training, which decides how a run reads files


_NO_TEXT = {
    "series": ("series of numbers", "forecast"),
    "labelled-series": ("series of numbers", "classify"),
    "pictures": ("pictures with labels", "classify"),
    "captioned": ("pictures with captions", "caption"),
    "clips": ("clips of moving pictures", "video"),
    "games": ("games to play", "act"),
}
"""What corpora without running text hold, and the task that reads it."""


def find_texts(
    source: AnySource | None,
    text: str | None,
    settings: TextSettings,
    part: str | None = None,
    *,
    parts: bool = True,
) -> Texts:
    """The text that `source` or `text` means; one of the two must be given. `parts`: see `data.corpora`."""
    if text is not None and source is None:
        return Texts.of_text(text, lower=settings.lower, letters_only=settings.letters_only)
    if source is None or text is not None:
        got = "both" if text is not None else "neither"
        one = "a path or a corpus name, or"
        raise SourceError(f"got {got} of a source and a text; expected one", f"{one} text='...'", f"{one} --text '...'")
    refuse_pictures(source)
    try:
        texts = resolve(
            source,
            encoding=settings.encoding,
            lower=settings.lower,
            letters_only=settings.letters_only,
            part=part,
            forming=settings.forming,
            parts=parts,
        )
    except SourceError:
        refuse_pictures(source, in_folders=True)
        raise
    if texts.corpus is None and not isinstance(source, Files | Parts):
        for own in texts.parts.values():
            own.require_column()
    if texts.kind in _NO_TEXT:
        content, task = _NO_TEXT[texts.kind]
        others = f"{texts.name} holds {content}, not running text; try the task that reads them"
        raise SourceError(others, f"task={task!r}", f"--task {task}")
    if texts.kind != "text":
        named = ", ".join(f"{texts.name}:{name}" for name in texts.parts)
        raise SourceError(f"{texts.name} holds {texts.kind} lines, not running text; name one of its files: {named}")
    # A source made for another model keeps its files and their form, not how that model normalised them.
    sources = {
        name: replace(given, lower=settings.lower, letters_only=settings.letters_only)
        for name, given in texts.parts.items()
    }
    return replace(texts, parts=sources)


def form_notes(source: Source) -> list[str]:
    """What was made of the files of a user's own, one sentence for each form among them."""
    reasons = Counter(form.reason for form in source.forms)
    if len(source.files) == 1:
        return [f"form: {reason}" for reason in reasons]
    return [f"form of {count:,} of {len(source.files):,} files: {reason}" for reason, count in reasons.most_common()]


def describe_changes(source: Source) -> str:
    """What was made of the files of a user's own, in a sentence; nothing where all of them stay as they are."""
    reasons = dict.fromkeys(form.reason for form in source.forms if form.changes)
    return _SWITCH.sub("", "; ".join(reasons))


def part_of(texts: Texts, *wanted: str) -> Source:
    """The first of the wanted parts that there is, else the whole text."""
    for name in (*wanted, "text"):
        if name in texts.parts:
            return texts.parts[name]
    listed = ", ".join(f"{texts.name}:{name}" for name in texts.parts)
    raise SourceError(f"{texts.name} is not one running text; name one of its parts: {listed}")


def hold_out(texts: Texts, valid: Texts | None, split: str | None, *, needed: bool) -> tuple[Texts, list[str]]:
    """The texts with a validation part, where one is needed or asked for, and notes on how it was chosen."""
    if valid is None:
        return split_texts(texts, split, hold_out=needed)
    if split is not None:
        raise OptionError(f"got both valid= ({valid.name}) and split={split!r}; expected one of them")
    parts = {name: part for name, part in texts.parts.items() if name != "text"}
    parts |= {"train": part_of(texts, "train"), "valid": part_of(valid, "valid")}
    return replace(texts, parts=parts), [f"validation on {valid.name}"]


def describe_source(texts: Texts, source: Source) -> Table:
    """What the configuration says of the text, so that it can be found again; with its hash, and that of the whole text
    that it was cut from."""
    about: Table = {"name": texts.name, "part": source.name, "detail": texts.detail, "sha256": source.fingerprint()}
    about |= texts.named_files() | {"text_sha256": source.text_hash()}
    return about | ({"whole_text_sha256": source.whole().text_hash()} if isinstance(source, SourceSlice) else {})


def describe_validation(parts: Texts, valid: Texts | None, split: str | None) -> Table:
    """Where the text and its validation text are found again: files by their full names, corpora by theirs."""
    held_out = parts.parts["valid"]
    about: Table = {"valid": held_out.name, "valid_sha256": held_out.fingerprint(), "split": split}
    train = part_of(parts, "train")
    about |= {"files": _files(parts.name, train), "formed": train.forming is not None, "column": train.column}
    if valid is not None:
        about |= {"valid_source": valid.name, "valid_files": _files(valid.name, held_out)}
        about |= {"valid_column": held_out.column, "valid_formed": held_out.forming is not None}
    return about | {"valid_text_sha256": held_out.text_hash()}


def _files(name: str, source: Source) -> list[str] | None:
    """The files of a source that is not a named corpus; none where it cannot be read a second time."""
    from thereafter.data import corpora

    corpus, _, part = name.partition(":")
    if corpus in corpora.names() and " " not in part:  # "ptb:train (cut)" is a file that was cut out of one
        return None
    return [] if source.content is not None or source.spools else [str(path.absolute()) for path in source.files]


def find_again(config: Table, folder: Path) -> Texts:
    """The text of a run with its train and valid parts; SourceError where it is gone or has changed."""
    about, how = config["source"], config["text"]
    settings = TextSettings.of_config(how, how.get("encoding"))
    forming = settings.forming if about.get("formed") else None
    files = about.get("part_files", about.get("files"))
    texts = _texts(str(about["name"]), files, settings, forming, folder, about.get("column"))
    valid = None
    if "valid_source" in about:
        column, forming = about.get("valid_column"), settings.forming if about.get("valid_formed") else None
        valid = _texts(str(about["valid_source"]), about.get("valid_files"), settings, forming, folder, column)
    if START in config:  # as the text of the run that it began with is written
        writing = stored_writing(config)
        texts, valid = texts_in_style(texts, writing), None if valid is None else texts_in_style(valid, writing)
    parts, _ = hold_out(texts, valid, about.get("split"), needed=True)
    for part, key in (("train", "sha256"), ("valid", "valid_sha256")):
        source = part_of(parts, part)
        if source.fingerprint() != about.get(key):
            raise SourceError(
                f"{source.name} has changed since the run {folder} began (its sha256 is another), and a run goes on "
                "with its own text only; try putting that back, or training anew with another --out"
            )
    return parts


def _texts(
    name: str,
    files: dict[str, list[str]] | list[str] | None,
    settings: TextSettings,
    forming: Forming | None,
    folder: Path,
    column: str | None,
) -> Texts:
    if files is None:
        return find_texts(name, None, settings)
    if not files:
        raise SourceError(
            f"the run {folder} cannot go on: its text was given as it is ({name}) and cannot be found again; "
            "try training again from a file"
        )
    parts = {}
    for part, own in (files if isinstance(files, dict) else {"text": files}).items():
        called, paths = name if part == "text" else f"{name}:{part}", tuple(Path(str(file)) for file in own)
        if part != "test" or all(map(is_file, paths)):  # a training goes on without its test files
            parts[part] = Source(called, paths, encoding=settings.encoding, forming=forming, column=column)
    missing = next((path for one in parts.values() for path in one.files if not is_file(path)), None)
    if missing is not None:
        raise SourceError(
            f"{missing}, which the run {folder} is trained on, is not there any more; try putting it back"
        )
    return find_texts(Texts(name, parts), None, settings)


_ENDINGS = (*PICTURE_ENDINGS, *IDX_ENDINGS, ".npz", ".npy")
_DOCUMENTS = {"mimetype", "META-INF/container.xml", "word/document.xml"}  # of EPUB and others, which are archives too


def refuse_pictures(source: AnySource, *, in_folders: bool = False) -> None:
    """A file of pictures is no text in an unusual encoding, and a folder without text files may have pictures: the
    error names the tasks that read them."""
    paths = source if isinstance(source, list | tuple) else [source]
    for name in [os.fspath(path) for path in paths if isinstance(path, str | os.PathLike)]:
        try:
            if in_folders:
                is_pictures = bool(
                    Path(name).expanduser().is_dir() and find_files(name, FileKind("pictures", (_ENDINGS,)))
                )
            else:
                is_pictures = name.lower().removesuffix(".gz").endswith(_ENDINGS) or _is_archive(Path(name))
        except (SourceError, OSError, ValueError, RuntimeError):  # none, or no such folder: said elsewhere
            continue
        if is_pictures:
            raise SourceError(
                f"{name} holds pictures, not running text; try the task that reads them",
                "task='caption', task='classify' or task='video'",
                "--task caption, --task classify or --task video",
            )


def _is_archive(path: Path) -> bool:
    if path.suffix.lower() != ".zip":
        return False
    try:
        names = [one.filename for one in members_of(path)]
    except SourceError:
        return False
    return any(map(is_picture, names)) and _DOCUMENTS.isdisjoint(names)


HELD_OUT = 0.05
_LEAST = 200  # characters that a text of one line must have to be cut inside the line


@dataclass(frozen=True)
class SourceSlice(Source):
    """The characters `begin` to `end` of another source, as that one reads them."""

    begin: int = 0
    end: int = 0

    @classmethod
    def of(cls, source: Source, name: str, begin: int, end: int) -> SourceSlice:
        """A stretch of a source under its own name."""
        whole = {field.name: getattr(source, field.name) for field in fields(Source)}
        return cls(**whole | {"name": name}, begin=begin, end=end)

    def whole(self) -> Source:
        """The source it was cut from."""
        return Source(**{field.name: getattr(self, field.name) for field in fields(Source)})

    @property
    def size(self) -> int:
        """The characters; a progress bar needs no more than that."""
        return self.end - self.begin

    def _normalised(self, advance: Callable[[float], None]) -> Iterator[str]:
        """The stretch, in pieces."""
        at = 0
        for chunk in super()._normalised(advance):
            piece = chunk[max(0, self.begin - at) : max(0, self.end - at)]
            at += len(chunk)
            if piece:
                yield piece
            if at >= self.end:
                return

    def fingerprint(self) -> str:
        """sha256 of the whole, and of where the cut is."""
        return hashlib.sha256(f"{super().fingerprint()} {self.begin} {self.end}".encode()).hexdigest()


def split_texts(texts: Texts, split: str | None, *, hold_out: bool) -> tuple[Texts, list[str]]:
    """Texts with a training and a validation part, and a note on how they were split.

    A corpus that has both keeps them. `split` cuts a single text by characters; without it the last 5 % of lines are
    held out if `hold_out` says so.
    """
    if "valid" in texts.parts:
        if split is not None:
            as_one = "" if texts.corpus is not None else ", or read all files as one: parts=False (--parts no)"
            got = f"{texts.name} has a valid part of its own (got split={split!r})"
            raise OptionError(f"{got}; leave split out{as_one}")
        return texts, []
    key = "train" if "train" in texts.parts else "text"
    if key not in texts.parts or not (hold_out or split):
        return texts, []
    whole = texts.parts[key]
    if split is not None:
        shares = _shares(split)
        length = sum(len(chunk) for chunk in whole.chunks())
        bounds = [round(length * sum(shares[:k]) / 100) for k in range(len(shares) + 1)]
        note = f"split {split} by characters: {bounds[1]:,} for training, {bounds[2] - bounds[1]:,} for validation"
    else:
        bounds, note = _last_lines(whole)
    names = ("train", "valid", "test")[: len(bounds) - 1]
    cut = {
        name: SourceSlice.of(whole, f"{whole.name} ({name})", begin, end)
        for name, begin, end in zip(names, bounds[:-1], bounds[1:], strict=True)
    }
    return replace(
        texts, parts={**cut, **{name: part for name, part in texts.parts.items() if name not in ("text", key)}}
    ), [note]


def _shares(split: str) -> list[float]:
    """ "90/10" as numbers; two for training and validation, a third for testing."""
    try:
        shares = [float(part) for part in str(split).split("/")]
    except ValueError:
        shares = []
    if len(shares) not in (2, 3) or min(shares) <= 0 or abs(sum(shares) - 100) > 1e-6:
        raise OptionError(
            f"split is {split!r}; expected shares above 0 that add up to 100; try 90/10, or 90/5/5 to keep a test part"
        )
    return shares


def _last_lines(source: Source) -> tuple[list[int], str]:
    """Where the last 5 % of lines begin, and the end, in characters."""
    lines = length = 0
    last = "\n"
    line_ends: deque[NDArray[np.int64]] = deque()  # where lines end, of the last chunks: the cut is at one of them
    before = 0  # lines that end before those
    for chunk in source.chunks():
        line_ends.append(np.flatnonzero(code_points(chunk) == ord("\n")).astype(np.int64) + (length + 1))
        lines, length, last = lines + len(line_ends[-1]), length + len(chunk), chunk[-1]
        while before + len(line_ends[0]) < lines - _held_out_lines(lines):
            before += len(line_ends.popleft())
    lines += last != "\n"
    if lines < 2 and length < _LEAST:
        raise EmptyCorpusError(
            f"{source.name} has {length:,} characters in {lines} line{'s' * (lines != 1)}: too little to hold out some "
            "for validation; try a longer text, another to validate on (valid=, --valid), or model='ngram'"
        )
    if lines < 2:
        begin = round(length * (1 - HELD_OUT))
        return [0, begin, length], f"one long line: its last {length - begin:,} characters are held out for validation"
    last_lines = _held_out_lines(lines)
    begin = int(np.concatenate(line_ends)[lines - last_lines - before - 1])
    return [0, begin, length], f"the last {last_lines:,} of {lines:,} lines are held out for validation"


def _held_out_lines(lines: int) -> int:
    return max(1, round(lines * HELD_OUT))
