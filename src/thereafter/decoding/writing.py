"""Tokens to text while they are generated: a piece of text is returned once no later token can change it.

Two things delay text. A token of `byte` or `bpe` may be only part of a character. And the last characters may be the
beginning of a stop string, which does not belong to the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

_UNFINISHED = "\ufffd"  # how a character of which bytes are missing decodes


class Detokenizer(Protocol):
    """Turns ids into text: a tokenizer, or the target side of a translator."""

    def continuation(self, prompt: str, ids: Sequence[int], /) -> str:
        """The prompt with the text of ids after it."""


class Writing(Protocol):
    """The end of a text that grows token by token. A value: many hypotheses of a search share one beginning."""

    @property
    def ended(self) -> bool:
        """Whether the text is finished."""

    def add(self, token: int) -> tuple[str, Self]:
        """The text that has become certain, and the writing after this token."""

    def end(self) -> str:
        """The text that is still pending, when no more tokens come."""


@dataclass(frozen=True)
class UntilToken:
    """Tokens up to the one that ends them; they are not turned into text."""

    token: int
    ended: bool = False

    def add(self, token: int) -> tuple[str, UntilToken]:
        return "", self if token != self.token else UntilToken(self.token, ended=True)

    def end(self) -> str:
        return ""


@dataclass(frozen=True)
class Written:
    """The end of a growing text, as text: a value, so that the hypotheses of a search can share one.

    >>> from thereafter.text.tokenizers.byte_level import ByteTokenizer
    >>> written, pieces = Written(ByteTokenizer(), stops=("end",)), []
    >>> for token in "é e end.".encode():
    ...     piece, written = written.add(token)
    ...     pieces.append(piece)
    >>> pieces, written.ended
    (['', 'é', ' ', '', 'e ', '', '', '', ''], True)
    """

    tokenizer: Detokenizer
    stops: tuple[str, ...] = ()
    last: str = ""
    """The character before the open tokens: `word` puts a space between two words only."""
    open: tuple[int, ...] = ()
    """The last tokens, as far back as a character may be unfinished: four at most."""
    text: str = ""
    """The text of the open tokens, as if none came after them."""
    pending: str = ""
    """Text that is certain but may be the beginning of a stop string."""
    ended: bool = False
    """A stop string came, or the token that ends a text; tokens after it add no text."""
    until: int | None = None
    """The token that ends a text, where one does."""

    def add(self, token: int) -> tuple[str, Written]:
        if self.ended:
            return "", self
        if token == self.until:
            return self.end(), replace(self, pending="", ended=True)
        complete = len(self.text.removesuffix(_UNFINISHED))
        last = self.text[-1:] or self.last
        alone = self._text(last, (token,))
        if complete < len(self.text):
            together = self._text(self.last, (*self.open, token))
            if together != self.text + alone:  # a character crosses the border before this token
                after = replace(self, open=(*self.open, token), text=together)
                return after._cut_at_stop(together.removesuffix(_UNFINISHED)[complete:])
        after = replace(self, last=last, open=(token,), text=alone)
        return after._cut_at_stop(self.text[complete:] + alone.removesuffix(_UNFINISHED))

    def end(self) -> str:
        if self.ended:
            return ""
        piece, after = self._cut_at_stop(self.text[len(self.text.removesuffix(_UNFINISHED)) :])
        return piece if after.ended else piece + after.pending

    def _text(self, last: str, tokens: tuple[int, ...]) -> str:
        return self.tokenizer.continuation(last, tokens)[len(last) :]

    def _cut_at_stop(self, decided: str) -> tuple[str, Written]:
        """Cut the text where the first stop string begins; keep what could still become one as pending."""
        text = self.pending + decided
        if not self.stops:
            return text, self
        stops_at = [place for stop in self.stops if (place := text.find(stop)) >= 0]
        if stops_at:
            return text[: min(stops_at)], replace(self, pending="", ended=True)
        longest = min(len(text), max(map(len, self.stops)) - 1)
        kept = next(
            (size for size in range(longest, 0, -1) if any(stop.startswith(text[-size:]) for stop in self.stops)), 0
        )
        cut = len(text) - kept
        return text[:cut], replace(self, pending=text[cut:])
