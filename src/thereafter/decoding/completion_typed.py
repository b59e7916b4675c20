"""What is asked of a completion and what it answers: the half-typed last word of a text, and a table of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from thereafter.base.tabular import Row, Tabular

_TAIL = 1_000  # characters at the end of a long text that are cut into forms; the last form is all that is asked for
_SURE = 3  # forms of such a tail after which the last one cannot depend on where the tail begins
_WORD = re.compile(r" ?(?:[^\W\d_]+|\d+)?|[^\S\n]+|\n")
_LAST = re.compile(r"\S*\Z")

Cut = Callable[[str], list[str]]
"""Cuts a text into forms, as `prose` does: a space belongs to the word after it."""


@dataclass(frozen=True)
class Typed:
    """A text, split where its last word begins: `begun` is what is typed of it, with the space that belongs to it.

    `begun` is empty where a new word begins, and a space where the space is all there is of the word.
    """

    context: str
    begun: str

    @property
    def word(self) -> str:
        """What is typed, without the space."""
        return self.begun.removeprefix(" ")


def split_at_space(text: str) -> Typed:
    """The last word is what follows the last white space.

    >>> split_at_space("I beheld the mon")
    Typed(context='I beheld the ', begun='mon')
    """
    last = _LAST.search(text)
    begin = last.start() if last else len(text)
    return Typed(text[:begin], text[begin:])


def split_forms(text: str, cut: Cut) -> Typed | None:
    """The last word is the last form, if that is of letters or digits; None after anything but a word or white space.

    >>> from thereafter.text.tokenizers.prose import prose_forms
    >>> split_forms("I beheld the mon", prose_forms), split_forms("Alas!", prose_forms)
    (Typed(context='I beheld the', begun=' mon'), None)
    """
    last = _last_form(text, cut)
    if not _WORD.fullmatch(last):
        return None
    if last != " " and last.isspace():  # a token of its own, before a word that has no space
        last = ""
    return Typed(text[: len(text) - len(last)], last)


def is_word(form: str) -> bool:
    """Whether a form is a run of letters or digits, with or without a space before it.

    >>> is_word(" monster"), is_word(" ("), is_word(" ")
    (True, False, False)
    """
    return not form.isspace() and form != "" and _WORD.fullmatch(form) is not None


def _last_form(text: str, cut: Cut) -> str:
    if len(text) > _TAIL:
        forms = cut(text[-_TAIL:])
        if len(forms) >= _SURE:
            return forms[-1]
    forms = cut(text)
    return forms[-1] if forms else ""


@dataclass(frozen=True)
class Completion:
    """A word that begins as typed, the text to append to have it, its probability among all such words."""

    word: str
    append: str
    p: float


@dataclass(frozen=True)
class Completions(Tabular):
    """Words that begin as the last word of a text does, likeliest first.

    `typed`: what the text has of its last word, with the space before it where that belongs to the word's token.
    `mass`: the model's probability of going on so after the context; the `p` of the words are shares of it.
    `covered`: the share of the mass that the search has followed to the ends of words; 1 where the sum is exact.
    `ending`: the share of the word as it stands, ended where the text ends; 0 where that is no word of the vocabulary.
    """

    typed: str
    words: tuple[Completion, ...]
    mass: float
    covered: float = 1.0
    ending: float = 0.0

    @property
    def half_typed(self) -> bool:
        """Whether a word is begun that the model expects to go on: other words that begin so are likelier than it."""
        return self.typed.strip() != "" and bool(self.words) and self.ending < 0.5

    def to_rows(self) -> list[Row]:
        """A row a word."""
        return [{"word": one.word, "append": one.append, "p": one.p} for one in self.words]

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[Completion]:
        return iter(self.words)

    def __getitem__(self, place: int) -> Completion:
        return self.words[place]
