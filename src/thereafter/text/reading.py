"""Bytes to normalised text: decode, drop the byte order mark, CRLF and CR become LF, and nothing else.

Memory stays constant: a file of any size is read in blocks. Gzip is decompressed by `data.opening`.
"""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

from thereafter.data.opening import Rewindable, name_of, open_content
from thereafter.errors import EncodingError, OptionError

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
    return _read(source, decoder_name, block, advance)


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


def _read(
    source: str | os.PathLike[str] | BinaryIO,
    encoding: str | None,
    block: int,
    advance: Callable[[float], None] | None,
) -> Iterator[str]:
    with open_content(source, _HEAD, advance) as content:
        yield from decode(name_of(source), content, encoding, block)


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
