"""Lossless pieces of running text: a word with the space before it, a number, punctuation, white space, a newline.

In scripts without spaces between words (`text.spaces`) each character is a piece, with the marks that stand on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

import numpy as np

from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.text.chunks import PROSE_TAIL, recut
from thereafter.text.spaces import CHARACTER, OTHER_LETTERS, SCRIPT_TAIL, has_characters
from thereafter.text.tokenizers.base import Chunks, Ids, MeasuredText, byte_length
from thereafter.text.tokenizers.forms import FormTokenizer
from thereafter.text.vocabulary import Vocabulary

PATTERN = r"\n| ?[^\W\d_]+| ?\d+| ?[^\w\s]+| ?_+|[^\S\n]+"
SCRIPT_PATTERN = rf"\n|{CHARACTER}| ?{OTHER_LETTERS}| ?\d+| ?[^\w\s]+| ?_+|[^\S\n]+"
_PIECES = re.compile(PATTERN)
_MARK = "characters"


def prose_forms(text: str) -> list[str]:
    """All pieces of a text by `PATTERN`; joined they are the text, for every character is in one of the classes.

    >>> prose_forms("The cat,  12_3\\n")
    ['The', ' cat', ',', '  ', '12', '_', '3', '\\n']
    """
    return _PIECES.findall(text)


def script_forms(text: str) -> list[str]:
    """The same with each character of a script without spaces as a piece: the rule of `SCRIPT_PATTERN`.

    >>> script_forms("The 漢字, 12")
    ['The', ' ', '漢', '字', ',', ' 12']
    """
    # the two patterns cut alike where there is no such character, and this one is twice as fast
    return re.findall(SCRIPT_PATTERN, text) if has_characters(text) else _PIECES.findall(text)


class ProseTokenizer(FormTokenizer):
    """The default for raw text: pieces of `SCRIPT_PATTERN` seen at least twice, everything else `<unk>`.

    A tokenizer whose training text had no character of a script without spaces cuts by `PATTERN`, as all those of
    earlier versions do (`by_character` is False): what they encode and their fingerprints stay as they were.
    """

    name: ClassVar[str] = "prose"

    def __init__(self, vocabulary: Vocabulary, *, by_character: bool = False) -> None:
        super().__init__(vocabulary)
        self.by_character = by_character

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        watch = _Watch(chunks)
        fitted = super().fit(watch.read, min_count=min_count, max_size=max_size)
        fitted.by_character = watch.seen
        return fitted

    @classmethod
    def fit_encode(
        cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None
    ) -> tuple[Self, Ids]:
        watch = _Watch(chunks)
        fitted, ids = super().fit_encode(watch.read, min_count=min_count, max_size=max_size)
        fitted.by_character = watch.seen
        return fitted, ids

    @classmethod
    def cut(cls, chunks: Iterable[str]) -> Iterator[str]:
        return recut(chunks, re.compile(SCRIPT_TAIL))

    @classmethod
    def forms_of(cls, group: str) -> list[str]:
        return script_forms(group)

    @classmethod
    def is_form(cls, form: str) -> bool:
        return _PIECES.fullmatch(form) is not None or re.fullmatch(SCRIPT_PATTERN, form) is not None

    def pieces(self, group: str) -> list[str]:
        """The forms of a part of a text, by the rule of this tokenizer."""
        return script_forms(group) if self.by_character else prose_forms(group)

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return recut(chunks, re.compile(SCRIPT_TAIL) if self.by_character else PROSE_TAIL)

    def ids_of(self, group: str) -> Ids:
        return self.look_up(self.pieces(group))

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        forms = self.pieces(group)
        ids = self.look_up(forms)
        unknown = [forms[place] for place in np.flatnonzero(ids == 0).tolist()]
        return MeasuredText(ids, group.count("\n"), len(group), byte_length(group), len(unknown), unknown)

    @property
    def line_end_id(self) -> int | None:
        return self.vocabulary.index.get("\n")

    def identity(self) -> object:
        return [_MARK, super().identity()] if self.by_character else super().identity()

    def to_json(self) -> Table:
        return super().to_json() | ({"scripts": _MARK} if self.by_character else {})

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        tokenizer = super().from_json(stored)
        rule = stored.get("scripts")
        if rule not in (None, _MARK):
            raise FormatError(
                f"a prose tokenizer has the rule {rule!r} for scripts without spaces, expected {_MARK!r} or none; "
                "it is damaged or of a later version: train it again"
            )
        tokenizer.by_character = rule is not None
        pattern = re.compile(SCRIPT_PATTERN) if tokenizer.by_character else _PIECES
        wrong = next((form for form in tokenizer.ordinary_forms if not pattern.fullmatch(form)), None)
        if wrong is not None:
            raise FormatError(
                f"{wrong!r} cannot be a form of this prose tokenizer; the file is damaged: train it again"
            )
        return tokenizer


class _Watch:
    """Reads a text on, and remembers whether it had a character of a script without spaces."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self.seen = False

    def read(self) -> Iterator[str]:
        for chunk in self._chunks():
            self.seen = self.seen or has_characters(chunk)
            yield chunk
