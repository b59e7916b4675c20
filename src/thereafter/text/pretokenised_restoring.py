"""Pre-tokenised text as people write it: marks joined to their words, `do n't` as don't, `@-@` as a hyphen.

`Restorer` takes the text in pieces as it is generated. A word is written once it is complete, since what it is decides
whether a space comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thereafter.text.pretokenised_habits import Habits
from thereafter.text.pretokenised_words import CLITICS

_GLUED = {"@-@": "-", "@,@": ",", "@.@": "."}
_CLOSING = frozenset([".", ",", ";", ":", "!", "?", "%", ")", "]", "}", "...", "…", "''", "”", "’", "»"])
_OPENING = frozenset(["(", "[", "{", "``", "`", "“", "‘", "«", "$", "£", "€", "#"])
_NAMED = {"lrb": "(", "rrb": ")", "lsb": "[", "rsb": "]", "lcb": "{", "rcb": "}"}
_BRACKET = re.compile(r"-([lr][rsc]b)-", re.IGNORECASE)
_WRITTEN = {"``": '"', "''": '"', "`": "'"}
_PIECE = re.compile(r"(\s*)(\S+)(?=\s)")
_SECOND_HALF = {("can", "not"), ("gon", "na"), ("got", "ta"), ("wan", "na")}


class Restorer:
    """Text of a style, written as people write, in pieces; `before` is what stands before the first of them.

    `whole`: no piece ends inside a word, so that each can be written when it comes.
    """

    def __init__(self, style: Habits, before: str = "", *, whole: bool = False) -> None:
        self.style, self.whole = style, whole
        line = before.rpartition("\n")[2]
        self._begun = bool(line)
        self._double = line.count('"') % 2 == 1
        self._single = False
        last = line.split()[-1:] if line and not line[-1].isspace() else []
        self._last = last[0] if last else ""
        self._glue_next = self._last in _OPENING and self._last not in ("#",)
        self._pending = ""

    def add(self, text: str) -> str:
        """The text that has become certain."""
        self._pending += text
        written, place = [], 0
        while match := _PIECE.match(self._pending, place):
            written.append(self._write(match.group(1), match.group(2)))
            place = match.end()
        self._pending = self._pending[place:]
        if self.whole and self._pending:
            written.append(self.end() if self._pending.strip() else self._line_ends())
        return "".join(written)

    def end(self) -> str:
        """What is still pending, when no more text comes; blanks at the end are left out."""
        word = self._pending.lstrip()
        space = self._pending[: len(self._pending) - len(word)]
        self._pending = ""
        return self._write(space, word) if word else "\n" * space.count("\n")

    def _line_ends(self) -> str:
        """Line ends, as far as they came; blanks after them wait."""
        lines, line_end, blanks = self._pending.rpartition("\n")
        self._pending = blanks
        if line_end:
            self._begin_line()
        return lines + line_end

    def _begin_line(self) -> None:
        self._double = self._single = self._glue_next = False
        self._last = ""

    def _write(self, space: str, word: str) -> str:
        """A word with the space before it, if there is to be one."""
        if "\n" in space:
            self._begin_line()
        form, left, right = self._form(word)
        if "\n" not in space and (self._glue_next or (left and self._last)):
            space = ""
        if (self._last.lower(), word.lower()) in _SECOND_HALF and self.style.clitics == "n't":
            space = ""
        self._glue_next, self._last = right, word
        return space + form

    def _form(self, word: str) -> tuple[str, bool, bool]:
        """The word as it is written, and whether it joins the word before and the word after."""
        if word in _GLUED:
            return _GLUED[word], True, True
        if named := _BRACKET.fullmatch(word):
            bracket = _NAMED[named.group(1).lower()]
            return bracket, bracket in ")]}", bracket in "([{"
        if word == '"':
            self._double = not self._double
            return word, not self._double, self._double
        if word == "'":
            return self._apostrophe()
        if word == "-" and self.style.hyphens == "split":
            return word, True, True
        if self.style.clitics == "'t" and word[0] == "'" and word[1:].isalpha() and len(self._last) <= 3:
            return word, True, False  # O 'Brien
        return _WRITTEN.get(word, word), word in _CLOSING or word.lower() in CLITICS, word in _OPENING

    def _apostrophe(self) -> tuple[str, bool, bool]:
        """A lone one: the end of a quotation, the genitive of a plural, or the beginning of a quotation."""
        if self._single:
            self._single = False
            return "'", True, False
        if self._last[-1:] in ("s", "S", "x", "z"):
            return "'", True, False
        self._single = True
        return "'", False, True


def restore(text: str, style: Habits, before: str = "") -> str:
    """A whole text of a style as people write it.

    >>> restore("They did n't go , she said ( twice ) .", Habits())
    "They didn't go, she said (twice)."
    """
    restorer = Restorer(style, before)
    return restorer.add(text) + restorer.end()


def restore_stream(
    pieces: Iterable[str], style: Habits | None, before: str = "", *, whole: bool = False
) -> Iterator[str]:
    """A text that comes in pieces as people write it, each once it is certain; without a style as it comes."""
    if style is None:
        yield from pieces
        return
    restorer = Restorer(style, before, whole=whole)
    for piece in pieces:
        if written := restorer.add(piece):
            yield written
    if rest := restorer.end():
        yield rest
