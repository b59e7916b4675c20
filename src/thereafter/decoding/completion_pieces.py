"""What the pieces of a tokenizer spell, and what their bytes mean to a word that is being written.

A piece is any token that is not a whole form: a character, a byte, a byte pair. Its bytes may be part of a character,
so a beginning of a word is bytes, too, and is read as far as its characters are complete.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.completion_typed import is_word
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.tokenizers.prose import script_forms

_BROKEN = "\ufffd"  # stands for bytes that are no character; it ends a word


@dataclass(frozen=True)
class Beginning:
    """Bytes read as the beginning of a word: its characters so far, and how it stands.

    `ended`: a character follows that does not belong to the word. `partial`: the last character is not complete.
    """

    word: str
    ended: bool
    partial: bool


def read_beginning(spelled: bytes, spaced: bool) -> Beginning:
    """Read the first word of some bytes; `spaced`: they begin with the space before it.

    >>> read_beginning(b" monster.", spaced=True)
    Beginning(word='monster', ended=True, partial=False)
    """
    text, partial = _read_characters(spelled)
    body = text[1:] if spaced else text
    form = first_form(body)
    word = form if is_word(form) and not form.startswith(" ") else ""
    return Beginning(word, ended=len(word) < len(body), partial=partial)


def _read_characters(spelled: bytes) -> tuple[str, bool]:
    """The characters of some bytes up to the first broken one, and whether the last is not complete."""
    try:
        return spelled.decode(), False
    except UnicodeDecodeError as error:
        text = spelled[: error.start].decode()
        return (text, True) if error.reason == "unexpected end of data" else (text + _BROKEN, False)


def first_form(text: str) -> str:
    """The first of the forms of a text."""
    forms = script_forms(text)
    return forms[0] if forms else ""


class PieceIndex:
    """The pieces of a tokenizer by the bytes they spell, in order. The unknown token spells nothing that is known."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.spelled = [tokenizer.bytes_of(number) for number in range(tokenizer.size)]
        if tokenizer.unknown_id is not None:
            self.spelled[tokenizer.unknown_id] = b""
        numbered = sorted((spelled, number) for number, spelled in enumerate(self.spelled) if spelled)
        self._sorted = [spelled for spelled, _ in numbered]
        self._longest = max(map(len, self._sorted), default=0)
        self._ids = np.array([number for _, number in numbered], dtype=np.int64)
        self.unique = not any(later.startswith(earlier) for earlier, later in pairwise(self._sorted))
        """Whether a text can be spelled in one way only: no piece begins with another."""
        self._by_first = self._group_by_first()
        self._endings: dict[str, NDArray[np.bool_]] = {}

    def pieces_that_cover(self, rest: bytes) -> NDArray[np.int64]:
        """The pieces that spell these bytes and maybe more."""
        low = bisect_left(self._sorted, rest)
        high = bisect_right(self._sorted, rest, lo=low, key=lambda spelled: spelled[: len(rest)])
        return self._ids[low:high]

    def pieces_within(self, rest: bytes) -> list[int]:
        """The pieces that spell the beginning of these bytes, but not all of them."""
        pieces: list[int] = []
        for size in range(1, min(len(rest), self._longest + 1)):
            low = bisect_left(self._sorted, rest[:size])
            high = bisect_right(self._sorted, rest[:size], lo=low)
            pieces += self._ids[low:high].tolist()
        return pieces

    def spell(self, spelled: bytes) -> list[int] | None:
        """The pieces that spell these bytes, if there is one way to do so at most; None if there is none."""
        pieces: list[int] = []
        while spelled:
            place = bisect_right(self._sorted, spelled) - 1
            if place < 0 or not spelled.startswith(self._sorted[place]):
                return None
            pieces.append(int(self._ids[place]))
            spelled = spelled[len(self._sorted[place]) :]
        return pieces

    @property
    def ids(self) -> NDArray[np.int64]:
        """All pieces that spell something, in the order of their bytes."""
        return self._ids

    def endings(self, word: str) -> NDArray[np.bool_]:
        """Which pieces end a word, [V]: their first character does not belong to it. Of "": no word begins so."""
        kind = _kind(word[-1:])
        if kind not in self._endings:
            ends_V = np.zeros(len(self.spelled), dtype=bool)
            for first, pieces in self._by_first.items():
                ends_V[pieces] = not is_word(first) if kind == "" else len(script_forms(kind + first)) > 1
            self._endings[kind] = ends_V
        return self._endings[kind]

    def _group_by_first(self) -> dict[str, list[int]]:
        """Pieces by their first character; those that begin with a part of one are in no group."""
        groups: dict[str, list[int]] = {}
        for number, spelled in enumerate(self.spelled):
            first = _read_characters(spelled[:4])[0][:1]
            if first:
                groups.setdefault(first, []).append(number)
        return groups


def _kind(last: str) -> str:
    """A character that stands for all those that go on like this one: an "a" for letters, a "0" for digits."""
    same = (kind for kind in ("a", "0") if last and len(script_forms(kind + last)) == 1)
    return next(same, last)
