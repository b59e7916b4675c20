"""Project Gutenberg's header and licence: found by their marks, so that neither is learned nor scored.

A file of Project Gutenberg begins with a header, which ends in `*** START OF THE PROJECT GUTENBERG EBOOK ... ***` (or,
in old files, in the end of "the small print"), and ends with its licence, which begins with `*** END OF ...`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_BEGIN = re.compile(
    r"^[ \t]*(?:\*{3} ?START OF (?:THE|THIS) PROJECT GUTENBERG E(?:BOOK|TEXT)|\*END[* ]+THE SMALL PRINT)", re.IGNORECASE
)
_END = re.compile(
    r"^[ \t]*(?:\*{3} ?END OF (?:THE|THIS) PROJECT GUTENBERG E(?:BOOK|TEXT)"
    r"|End of (?:the |this )?Project Gutenberg(?:'s|’s)? )",
    re.IGNORECASE,
)
_CREDIT = re.compile(
    r"[ \t]*(?:Produced by|E-text prepared by|This e-?text was (?:prepared|produced)|Transcribed from)", re.I
)
_NAME = "project gutenberg"
_SMALL_PRINT = "small print"


def count_books(text: str) -> int:
    """How many times a text has the mark at which a header ends.

    >>> count_books("Title: Dracula\\n\\n*** START OF THE PROJECT GUTENBERG EBOOK DRACULA ***\\n\\nCHAPTER I\\n")
    1
    """
    return sum(map(_begins, text.split("\n")))


def has_licence(text: str) -> bool:
    """Whether a text has the mark at which the licence begins."""
    return any(map(_ends, text.split("\n")))


def leave_out(lines: Iterable[str], *, header: bool) -> Iterator[str]:
    """The lines of the books alone: those behind a header and before a licence, without the credits between.

    Several books in one file follow each other. `header`: the text begins with one.
    """
    rest = iter(lines)
    inside = not header
    for line in rest:
        if inside and _ends(line):
            inside = False
        elif inside:
            yield line
        elif _begins(line):
            inside = True
            first = _after_credits(rest)
            if first is not None:
                yield first


def _after_credits(lines: Iterator[str]) -> str | None:
    """The first line of the book: behind blank lines, and behind the paragraph that names who made the file."""
    first = next((line for line in lines if line.strip()), None)
    if first is not None and _CREDIT.match(first):
        next((line for line in lines if not line.strip()), None)
        first = next((line for line in lines if line.strip()), None)
    return first


# A look for the name is much quicker than the patterns, and nearly every line of a book has no such name.
def _begins(line: str) -> bool:
    small = line.lower()
    return (_NAME in small or _SMALL_PRINT in small) and _BEGIN.match(line) is not None


def _ends(line: str) -> bool:
    return _NAME in line.lower() and _END.match(line) is not None
