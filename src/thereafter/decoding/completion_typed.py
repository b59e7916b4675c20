"""Where the last word of a text begins: the context before it, and what of it is typed already."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

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
