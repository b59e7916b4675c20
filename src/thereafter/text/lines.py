"""The lines of a file: decoded and decompressed by `text/reading.py`, cut at newlines only; the encoding of old ones.

Characters such as U+2028 or U+0085 do not end a line here (they do for `str.splitlines`), so that line numbers are
those of an editor and parallel files stay aligned.

A file that is not UTF-8 is Windows-1252, where its bytes leave no doubt; nothing is guessed otherwise. Old files of
Western Europe are Latin-1, of which Windows-1252 is the form that machines really wrote. Its letters with accents are
single bytes above 0x7f, few among plain letters, which hardly ever make a character of UTF-8. A file that has
characters of UTF-8 as well is a damaged one, and stays an error; so does one whose bytes are of another alphabet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from thereafter.data.opening import open_content
from thereafter.text.reading import read_chunks


def read_lines(
    path: str | os.PathLike[str], *, encoding: str | None = None, advance: Callable[[float], None] | None = None
) -> Iterator[str]:
    """The lines of a file without their newlines; the last line needs none."""
    return lines_of(read_chunks(path, encoding=encoding, advance=advance))


def lines_of(chunks: Iterable[str], *, ends: bool = False) -> Iterator[str]:
    """The lines of a text that comes in pieces; with `ends` each has its newline, if it had one.

    >>> list(lines_of(["so lo", "ng\\nand", " thanks"]))
    ['so long', 'and thanks']
    """
    end = "\n" if ends else ""
    unfinished: list[str] = []  # a list, so that a line of many chunks is joined only once
    for chunk in chunks:
        first, *others = chunk.split("\n")
        unfinished.append(first)
        if others:
            yield "".join(unfinished) + end
            yield from (line + end for line in others[:-1]) if ends else others[:-1]
            unfinished = [others[-1]]
    if last := "".join(unfinished):
        yield last


def place(path: str | os.PathLike[str], line: int) -> str:
    """The name of a line in errors.

    >>> place("train.tsv", 12)
    'line 12 of train.tsv'
    """
    return f"line {line} of {os.fspath(path)}"


WESTERN = "cp1252"
READ_AS_WESTERN = "no UTF-8, read as Windows-1252 (--encoding names another encoding)"
LOOKED_AT = 1 << 23
"""The first bytes of a file, by which its encoding is told."""
_HIGH = re.compile(rb"[\x80-\xff]")
_NO_CHARACTER = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # bytes that Windows-1252 leaves open
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_ESCAPED = re.compile("[\udc80-\udcff]")
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")
# what such bytes are in a Western text: letters inside words, quotes, dashes, signs of money and degrees
_PLAUSIBLE = re.compile(rb"[\xc0-\xfe](?=[A-Za-z])|(?<=[A-Za-z])[\xc0-\xfe]|[\x80\x82-\x86\x91-\x97\xa0-\xbf]")
_MOST_HIGH = 0.2  # of the bytes; a text in Cyrillic or Greek has far more


def guess_encoding(path: Path) -> str | None:
    """`cp1252` for a file that is no UTF-8 and can hardly be anything else; None where nothing has to be guessed."""
    with open_content(path, LOOKED_AT) as content:
        return guess_of_bytes(content.head)


def guess_of_bytes(raw: bytes) -> str | None:
    """As `guess_encoding`, by the first bytes of a file.

    >>> guess_of_bytes("Die Mühle am Bach".encode("latin-1")), guess_of_bytes("Die Mühle am Bach".encode())
    ('cp1252', None)
    """
    if not _HIGH.search(raw) or _NO_TEXT.search(raw) or _NO_CHARACTER.search(raw):
        return None
    if len(raw) >= LOOKED_AT:
        raw = raw[: raw.rfind(b"\n") + 1] or raw  # the last character may be half a one
    text = raw.decode("utf-8", "surrogateescape")
    wrong = len(_ESCAPED.findall(text))
    right = len(_BEYOND_ASCII.findall(text)) - wrong
    if not wrong or right * 4 > wrong:
        return None
    high = len(_HIGH.findall(raw))
    plausible = len(_PLAUSIBLE.findall(raw))
    return WESTERN if plausible >= 0.8 * high and high <= _MOST_HIGH * len(raw) else None
