"""Lossless pieces of running text: a word with the space before it, a number, punctuation, white space, a newline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np

from thereafter.text.chunks import PROSE_TAIL, recut
from thereafter.text.tokenizers.base import MeasuredText, byte_length
from thereafter.text.tokenizers.forms import FormTokenizer

PATTERN = r"\n| ?[^\W\d_]+| ?\d+| ?[^\w\s]+| ?_+|[^\S\n]+"
_PIECES = re.compile(PATTERN)


def prose_forms(text: str) -> list[str]:
    """All pieces of a text; joined they are the text, for every character is in one of the classes.

    >>> prose_forms("The cat,  12_3\\n")
    ['The', ' cat', ',', '  ', '12', '_', '3', '\\n']
    """
    return _PIECES.findall(text)


class ProseTokenizer(FormTokenizer):
    """The default for raw text: pieces of `PATTERN` seen at least twice, everything else `<unk>`."""

    name: ClassVar[str] = "prose"

    @classmethod
    def cut(cls, chunks: Iterable[str]) -> Iterator[str]:
        return recut(chunks, PROSE_TAIL)

    @classmethod
    def forms_of(cls, group: str) -> list[str]:
        return prose_forms(group)

    @classmethod
    def is_form(cls, form: str) -> bool:
        return _PIECES.fullmatch(form) is not None

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        forms = prose_forms(group)
        ids = self.look_up(forms)
        unknown = [forms[place] for place in np.flatnonzero(ids == 0).tolist()]
        return MeasuredText(ids, group.count("\n"), len(group), byte_length(group), len(unknown), unknown)

    @property
    def line_end_id(self) -> int | None:
        return self.vocabulary.index.get("\n")
