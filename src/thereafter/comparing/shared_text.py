"""The one text that all models of a comparison get: cut once, normalised once, the same bytes for everyone.

A corpus with train, valid and test parts keeps them; any other text is cut 90 / 5 / 5, each cut before the line it
falls into. Where some models read words between white space and others do not, white space is made what it is for the
former: single spaces, none at the ends of lines, and a newline behind the last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from thereafter.base.storage import replacing
from thereafter.errors import EmptyCorpusError, SourceError
from thereafter.text.chunks import WORD_TAIL, recut
from thereafter.text.sources import Source, Texts
from thereafter.training.finding import form_notes
from thereafter.training.options import TextSettings
from thereafter.training.split import SourceSlice, split_texts

PARTS = ("train", "valid", "test")
SHARES = (0.90, 0.95)
_COARSE = "word"  # the one tokenizer that does not keep white space


@dataclass(frozen=True)
class SharedText:
    """`texts` and `valid` are what training is given, `settings` how it is to read them, `parts` all three parts."""

    texts: Texts
    valid: Texts | None
    parts: dict[str, Source]
    settings: TextSettings
    notes: tuple[str, ...]


def fingerprint(texts: Texts) -> str:
    """sha256 of all parts."""
    return hashlib.sha256(
        " ".join(f"{name} {part.fingerprint()}" for name, part in texts.parts.items()).encode()
    ).hexdigest()


def is_mixed(tokens: Collection[str]) -> bool:
    """Whether white space must be made alike: some read words between it, and others read it."""
    return _COARSE in tokens and len(set(tokens)) > 1


def share(texts: Texts, settings: TextSettings, tokens: Collection[str], folder: Path) -> SharedText:
    """The text for models over these kinds of tokens; what is cut or normalised is written to `folder`."""
    mixed = is_mixed(tokens)
    notes = [*texts.notes, *form_notes(next(iter(texts.parts.values())))]
    texts = replace(texts, notes=())  # which every training would repeat
    if all(part in texts.parts for part in PARTS):
        parts = {part: texts.parts[part] for part in PARTS}
        notes.append(f"train, valid and test are parts of {texts.name}")
    elif "test" in texts.parts:
        cut, sentences = split_texts(texts, None, hold_out=True)
        parts = {part: cut.parts[part] for part in PARTS}
        notes += sentences
    elif "text" in texts.parts:
        parts = cut_in_three(texts.parts["text"])
        notes.append("cut 90 / 5 / 5 at ends of lines")
    else:
        named = ", ".join(f"{texts.name}:{part}" for part in texts.parts)
        raise SourceError(f"{texts.name} has no part to test on; name one of its parts, which is then cut: {named}")
    if mixed:
        notes.append("white space as the word tokenizer leaves it, for all")
    if not mixed and all(part in texts.parts for part in PARTS):
        return SharedText(texts, None, parts, settings, tuple(notes))
    written = {
        name: _write(source, folder / f"{name}.txt", f"{texts.name} ({name})", mixed) for name, source in parts.items()
    }
    name = f"{texts.name} (cut)" if not mixed else f"{texts.name} (normalised)"
    return SharedText(
        replace(texts, name=name, parts={"text": written["train"]}),
        Texts(f"{name}, valid", {"text": written["valid"]}, texts.tokens),
        written,
        replace(settings, encoding=None),  # whatever it was, the parts are written as UTF-8
        tuple(notes),
    )


def cut_in_three(source: Source) -> dict[str, Source]:
    """The first 90 % of the characters, the next 5 % and the rest; each cut is moved before the line it falls into."""
    length = sum(len(chunk) for chunk in source.chunks())
    marks = [round(length * share) for share in SHARES]
    ends = _line_ends(source, marks)
    bounds = [0, ends[0], ends[1], length]
    if not all(low < high for low, high in pairwise(bounds)):
        bounds = [0, *marks, length]  # lines too long to cut between them
    if not all(low < high for low, high in pairwise(bounds)):
        raise EmptyCorpusError(
            f"{source.name} has {length:,} characters, too few to cut into parts for training, validation and test; "
            "try a longer text"
        )
    return {
        name: SourceSlice.of(source, f"{source.name} ({name})", low, high)
        for name, low, high in zip(PARTS, bounds[:-1], bounds[1:], strict=True)
    }


def normalise_space(chunks: Iterable[str]) -> Iterator[str]:
    """Words with single spaces between, a newline behind every line.

    >>> "".join(normalise_space([" so ", "long\\n\\n and", " thanks"]))
    'so long\\n\\nand thanks\\n'
    """
    inside, ended = False, True
    for piece in recut(chunks, WORD_TAIL):
        lines = piece.split("\n")
        for number, line in enumerate(lines):
            words = line.split()
            if words:
                yield (" " if inside else "") + " ".join(words)
                inside = True
            if number + 1 < len(lines):
                yield "\n"
                inside = False
        ended = piece.endswith("\n")
    if not ended:
        yield "\n"


def _line_ends(source: Source, marks: list[int]) -> list[int]:
    """Behind which characters the last lines end that lie before the marks; 0 where none does."""
    ends = [0] * len(marks)
    at = 0
    for chunk in source.chunks():
        for number, mark in enumerate(marks):
            newline = chunk.rfind("\n", 0, max(0, mark - at))
            if newline >= 0:
                ends[number] = at + newline + 1
        at += len(chunk)
        if at >= marks[-1]:
            break
    return ends


def _write(source: Source, path: Path, name: str, normalise: bool) -> Source:
    chunks = source.chunks(f"writing {name}")
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for piece in normalise_space(chunks) if normalise else chunks:
            file.write(piece)
    return Source(name, (path,), lower=source.lower, letters_only=source.letters_only)
