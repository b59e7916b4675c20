"""Bytes to normalised text and its lines; and the encoding of old files.

A file is decoded, its byte order mark dropped, CRLF and CR become LF, and nothing else is changed. It is read in
blocks, so that memory stays constant. `data.files` decompresses gzip.

Lines are cut at newlines only: U+2028 and U+0085 do not end a line here (they do for `str.splitlines`), so that line
numbers are those of an editor and parallel files stay aligned.

A file that is not UTF-8 is Windows-1252, where its bytes leave no doubt; nothing is guessed otherwise. Old files of
Western Europe are Latin-1, of which Windows-1252 is the form that machines really wrote. Its letters with accents are
single bytes above 0x7f, few among plain letters, which hardly ever make a character of UTF-8. A file that has
characters of UTF-8 as well is a damaged one, and stays an error; so does one whose bytes are of another alphabet.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from thereafter.data.files import Rewindable, name_of, open_content
from thereafter.errors import EncodingError, OptionError


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


BLOCK = 1 << 20
_HEAD = 256
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Fewer alternating NULs than this may well be a text that has NULs; more of them is UTF-16 without its mark.
_ALTERNATING = 32


def read_chunks(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    encoding: str | None = None,
    block: int = BLOCK,
    advance: Callable[[float], None] | None = None,
) -> Iterator[str]:
    """The text of a file or binary stream, piece by piece; the pieces are not empty and may end anywhere.

    Without `encoding` the text is UTF-8, or UTF-16 if it begins with a byte order mark. `advance` is called with the
    number of bytes read from the disk, for a progress bar.
    """
    decoder_name = check_encoding(encoding)
    if block < 1:
        raise OptionError(f"block is {block}, expected at least 1 byte; try block={BLOCK}")

    def read() -> Iterator[str]:
        with open_content(source, _HEAD, advance) as content:
            yield from decode(name_of(source), content, decoder_name, block)

    return read()


def check_encoding(encoding: str | None) -> str | None:
    """The canonical name of a text encoding; OptionError if Python does not know it."""
    if encoding is None:
        return None
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # refuses hex and rot13, which lookup takes for encodings
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise OptionError(
            f"{encoding!r} is not a text encoding known to Python; try --encoding latin-1, cp1252 or utf-16"
        ) from None


def decode(name: str, content: Rewindable, encoding: str | None, block: int = BLOCK) -> Iterator[str]:
    """The text of an open file, as of `read_chunks`; its head must be that long that its encoding can be told."""
    if encoding is None:
        encoding, skipped = _detect_encoding(name, content.head[:_HEAD])
    else:
        skipped = 0
    decoder = codecs.getincrementaldecoder(encoding)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    offset = len(content.read(skipped)) if skipped else 0
    first, final = True, False
    while not final:
        raw = content.read(block)
        offset += len(raw)
        final = not raw
        try:
            text = decoder.decode(raw, final)
            if not text.isascii():
                text.encode("utf-8")  # utf-7 and others can encode lone surrogates, which are no characters
        except UnicodeError as failed:
            raise _encoding_error(name, encoding, failed, offset) from None
        if first and text:
            first = False
            text = text.removeprefix("\ufeff") if not skipped else text
        text = newlines.decode(text, final)
        if text:
            yield text


def _detect_encoding(name: str, head: bytes) -> tuple[str, int]:
    """The encoding by the first bytes, and the length of the byte order mark."""
    if head[:4] in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE) and _is_utf32(head):
        raise EncodingError(
            f"{name} begins with the byte order mark of UTF-32 (byte 0x{head[0]:02x} at offset 0), "
            "expected UTF-8 or UTF-16; try --encoding utf-32"
        )
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    for silent, guess in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) >= _ALTERNATING and not any(head[silent::2]) and all(head[1 - silent :: 2]):
            raise EncodingError(
                f"{name} looks like UTF-16 without a byte order mark: every other byte is 0x00, the first at byte "
                f"offset {silent}; try --encoding {guess} (or --encoding utf-8 if the NULs are meant)"
            )
    return "utf-8", 0


def _is_utf32(head: bytes) -> bool:
    """Whether the text could be UTF-32: UTF-16 that begins with a NUL has the same first four bytes."""
    body = head[4 : len(head) - len(head) % 4]
    if head[:4] == codecs.BOM_UTF32_BE:
        return True  # as UTF-8 or UTF-16 these bytes mean nothing
    try:
        return len(head) % 4 == 0 and bool(body) and "\0" not in body.decode("utf-32-le")
    except UnicodeDecodeError:
        return False


def _encoding_error(name: str, encoding: str, failed: UnicodeError, offset: int) -> EncodingError:
    if isinstance(failed, UnicodeDecodeError):
        at = offset - len(failed.object) + failed.start
        problem = f"byte 0x{failed.object[failed.start]:02x} at byte offset {at} cannot be decoded ({failed.reason})"
    else:
        problem = f"the bytes near offset {offset} are not text ({failed})"
    other = "latin-1" if encoding != "iso8859-1" else "utf-8"
    return EncodingError(
        f"{name} is not {encoding} text: {problem}; if it is in another encoding, name it, "
        f"for instance --encoding {other}"
    )
