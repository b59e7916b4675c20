"""A stream of text cut where no token crosses: tokenizing in pieces equals tokenizing the whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from thereafter.errors import EncodingError

PIECE = 1 << 20
ENOUGH = 1 << 16

# What may still be part of an unfinished token, read from the end of the text backwards. The pattern matches the
# reversed text; what lies before the match is finished, whatever comes next.
WORD_TAIL = re.compile(r"\S*")
# A run of one class, and the spaces before it: one space belongs to the run, several are a token of their own.
PROSE_TAIL = re.compile(r"(?:[^\W\d_]+|\d+|[^\w\s]+|_+)?[^\S\n]*")


def recut(chunks: Iterable[str], tail: re.Pattern[str], size: int | None = None) -> Iterator[str]:
    """The same text in pieces of about `size` characters (a million), each ending where no token can cross.

    Every character is scanned once: text without a safe cut is put aside until one comes, so that a line of 100 MB
    without any takes linear time. Such a run becomes one piece, however long.
    """
    aside: list[str] = []
    fresh: list[str] = []
    length, enough = 0, min(ENOUGH, size or PIECE)
    for piece in slice_chunks(chunks, size):
        fresh.append(piece)
        length += len(piece)
        if length < enough:
            continue  # tiny chunks are joined first, without a look for a cut between them
        text = fresh[0] if len(fresh) == 1 else "".join(fresh)
        cut = last_cut(text, tail)
        if cut:
            yield "".join([*aside, text[:cut]])
            aside = [text[cut:]] if cut < len(text) else []
        else:
            aside.append(text)
        fresh, length = [], 0
    rest = "".join(aside + fresh)
    if rest:
        yield rest


def last_cut(text: str, tail: re.Pattern[str]) -> int:
    """The last position in `text` that no token crosses, 0 if there is none.

    >>> last_cut("the cat sat", PROSE_TAIL)
    7
    """
    line = text.rfind("\n") + 1
    if line:
        return line
    unfinished = tail.match(text[::-1])
    return len(text) - (unfinished.end() if unfinished else 0)


def look_ahead(chunks: Iterable[str], size: int) -> tuple[str, Iterator[str]]:
    """The first chunks of a text, `size` characters or more where it has so many, and all of it again.

    >>> beginning, whole = look_ahead(["so ", "long", " thanks"], 5)
    >>> beginning, list(whole)
    ('so long', ['so long', ' thanks'])
    """
    pieces, length, rest = [], 0, iter(chunks)
    for chunk in rest:
        pieces.append(chunk)
        length += len(chunk)
        if length >= size:
            break
    beginning = "".join(pieces)
    return beginning, chain([beginning] if beginning else [], rest)


def require_unicode(text: str) -> str:
    """The text itself if it can be encoded as UTF-8; a lone surrogate is an EncodingError."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as failed:
            raise EncodingError(
                f"the text has a lone surrogate, U+{ord(text[failed.start]):04X}, at character {failed.start}, "
                "expected Unicode characters; try text.encode('utf-8', 'replace').decode('utf-8')"
            ) from None
    return text


def slice_chunks(chunks: Iterable[str], size: int | None = None) -> Iterator[str]:
    """The same text in pieces of at most `size` characters (a million), cut anywhere."""
    size = PIECE if size is None else size
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield require_unicode(chunk if len(chunk) <= size else chunk[start : start + size])
