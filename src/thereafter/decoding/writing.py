"""Tokens to text as they come: a piece is given out when nothing that follows can change it.

Two things hold text back. A token of `byte` or `bpe` may be part of a character; and what was written may turn out to
be the beginning of a stop string, in which case it was never said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

_UNFINISHED = "\ufffd"  # how a character of which bytes are missing decodes


class Spelling(Protocol):
    """What turns ids into text: a tokenizer, or a side of a translator."""

    def continuation(self, prompt: str, ids: Sequence[int], /) -> str:
        """The prompt with the text of ids after it."""


class Writing(Protocol):
    """What a text that grows is written on. A value: a search has many at a time that begin alike."""

    @property
    def ended(self) -> bool:
        """Nothing more belongs to the text."""

    def add(self, token: int) -> tuple[str, Self]:
        """The text that is certain now, and what is written after it."""

    def end(self) -> str:
        """What was held back, when no more tokens come."""


@dataclass(frozen=True)
class UntilToken:
    """Tokens up to one that ends them; nothing is spelled out."""

    token: int
    ended: bool = False

    def add(self, token: int) -> tuple[str, UntilToken]:
        return "", self if token != self.token else UntilToken(self.token, ended=True)

    def end(self) -> str:
        return ""


@dataclass(frozen=True)
class Written:
    """The end of a text that grows: a value, so that the hypotheses of a search can share one.

    >>> from thereafter.text.tokenizers.byte import ByteTokenizer
    >>> written, said = Written(ByteTokenizer(), stops=("end",)), []
    >>> for token in "é e end.".encode():
    ...     piece, written = written.add(token)
    ...     said.append(piece)
    >>> said, written.ended
    (['', 'é', ' ', '', 'e ', '', '', '', ''], True)
    """

    tokenizer: Spelling
    stops: tuple[str, ...] = ()
    last: str = ""
    """The character before the open tokens: `word` puts a space between two words only."""
    open: tuple[int, ...] = ()
    """The last tokens, as far back as a character may be unfinished: four at most."""
    text: str = ""
    """The text of the open tokens, as if none came after them."""
    held: str = ""
    """Decided text that may begin a stop string."""
    ended: bool = False
    """A stop string was written, or the token that ends a text; what is added from here on says nothing."""
    until: int | None = None
    """The token that ends a text, where one does."""

    def add(self, token: int) -> tuple[str, Written]:
        """The text that is certain now, and what is written after it."""
        if self.ended:
            return "", self
        if token == self.until:
            return self.end(), replace(self, held="", ended=True)
        said = len(self.text.removesuffix(_UNFINISHED))
        last = self.text[-1:] or self.last
        alone = self._text(last, (token,))
        if said < len(self.text):
            together = self._text(self.last, (*self.open, token))
            if together != self.text + alone:  # a character crosses the border before this token
                after = replace(self, open=(*self.open, token), text=together)
                return after._stopped(together.removesuffix(_UNFINISHED)[said:])
        after = replace(self, last=last, open=(token,), text=alone)
        return after._stopped(self.text[said:] + alone.removesuffix(_UNFINISHED))

    def end(self) -> str:
        """What was held back, when no more tokens come."""
        if self.ended:
            return ""
        piece, after = self._stopped(self.text[len(self.text.removesuffix(_UNFINISHED)) :])
        return piece if after.ended else piece + after.held

    def _text(self, last: str, tokens: tuple[int, ...]) -> str:
        return self.tokenizer.continuation(last, tokens)[len(last) :]

    def _stopped(self, decided: str) -> tuple[str, Written]:
        """Cut where the first stop string begins, or hold back what could become one."""
        text = self.held + decided
        if not self.stops:
            return text, self
        found = [place for stop in self.stops if (place := text.find(stop)) >= 0]
        if found:
            return text[: min(found)], replace(self, held="", ended=True)
        longest = min(len(text), max(map(len, self.stops)) - 1)
        keep = next(
            (size for size in range(longest, 0, -1) if any(stop.startswith(text[-size:]) for stop in self.stops)), 0
        )
        cut = len(text) - keep
        return text[:cut], replace(self, held=text[cut:])
