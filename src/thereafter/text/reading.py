"""Bytes to normalised text: decode, drop the byte order mark, CRLF and CR become LF, and nothing else.

Memory stays constant: a file of any size passes through in blocks. Gzip is recognised by its first bytes, not by
its name, so that a renamed download still reads.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO, Protocol

from thereafter.errors import EncodingError, OptionError, SourceError

BLOCK = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b\x08"
_HEAD = 256
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Fewer alternating NULs than this may well be a text that has NULs; more of them is UTF-16 without its mark.
_ALTERNATING = 32


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Rewindable:
    """Reads a stream whose first bytes have been looked at, and reports how many bytes left the disk."""

    def __init__(self, stream: _Readable, advance: Callable[[float], None] | None, head: int) -> None:
        self._stream = stream
        self._advance = advance
        self._looked_at = b""
        self.head = self._look(head)

    def _look(self, size: int) -> bytes:
        head = b""
        while len(head) < size and (more := self._stream.read(size - len(head))):  # pipes give what they have
            head += more
        self._looked_at = head
        return head

    def read(self, size: int = -1, /) -> bytes:
        if size < 0 or size >= len(self._looked_at):
            block = self._looked_at + self._stream.read(size if size < 0 else size - len(self._looked_at))
            self._looked_at = b""
        else:
            block, self._looked_at = self._looked_at[:size], self._looked_at[size:]
        if self._advance is not None and block:
            self._advance(len(block))
        return block


def read_chunks(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    encoding: str | None = None,
    block: int = BLOCK,
    advance: Callable[[float], None] | None = None,
) -> Iterator[str]:
    """The text of a file or binary stream, piece by piece; the pieces are not empty and may end anywhere.

    Without `encoding` the text is UTF-8, or UTF-16 where a byte order mark says so. `advance` is told how many
    bytes were read from the file as it stands on disk, for a progress bar.
    """
    decoder_name = checked_encoding(encoding)
    if block < 1:
        raise OptionError(f"block is {block}, expected at least 1 byte; try block={BLOCK}")
    return _read(source, decoder_name, block, advance)


def checked_encoding(encoding: str | None) -> str | None:
    """The canonical name of a text encoding; OptionError where Python knows none of that name."""
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
    name = _name(source)
    with ExitStack() as closing:
        try:
            stream = closing.enter_context(_opened(source)) if isinstance(source, str | os.PathLike) else source
            rewindable = _Rewindable(stream, advance, len(_GZIP_MAGIC))
            if rewindable.head == _GZIP_MAGIC:
                unzipped = closing.enter_context(gzip.GzipFile(fileobj=rewindable, mode="rb"))  # type: ignore[call-overload]
                content = _Rewindable(unzipped, None, _HEAD)
            else:
                content = _Rewindable(rewindable, None, _HEAD)
            yield from _decoded(name, content, encoding, block)
        except (EOFError, gzip.BadGzipFile, zlib.error) as broken:
            raise SourceError(
                f"{name} begins like a gzip file but is damaged or cut short ({broken}); "
                "fetch it again, or test it with: gzip -t"
            ) from None
        except IsADirectoryError:
            raise SourceError(f"{name} is a folder, expected a file; try one of the files in it") from None
        except FileNotFoundError:
            raise SourceError(f"{name} does not exist; check the spelling and the current folder") from None
        except PermissionError:
            raise SourceError(f"{name} may not be read by this user; try chmod +r on it, or a copy") from None
        except OSError as failed:
            raise SourceError(f"{name} could not be read: {failed.strerror or failed}") from None


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    try:
        return open(path, "rb")
    except ValueError:
        raise SourceError(f"{os.fspath(path)!r} cannot be the path of a file: it holds a NUL character") from None


def _decoded(name: str, content: _Rewindable, encoding: str | None, block: int) -> Iterator[str]:
    if encoding is None:
        encoding, skipped = _recognised(name, content.head)
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
                text.encode("utf-8")  # utf-7 and its like can spell half a surrogate pair, which is no character
        except UnicodeError as failed:
            raise _encoding_error(name, encoding, failed, offset) from None
        if first and text:
            first = False
            text = text.removeprefix("\ufeff") if not skipped else text
        text = newlines.decode(text, final)
        if text:
            yield text


def _recognised(name: str, head: bytes) -> tuple[str, int]:
    """The encoding that the first bytes announce, and the length of the mark that announced it."""
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
    """Whether what follows could be UTF-32: UTF-16 that begins with a NUL has the same first four bytes."""
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
        found = f"byte 0x{failed.object[failed.start]:02x} at byte offset {at} cannot be decoded ({failed.reason})"
    else:
        found = f"the text near byte offset {offset} is no text ({failed})"
    other = "latin-1" if encoding != "iso8859-1" else "utf-8"
    return EncodingError(
        f"{name} is not {encoding} text: {found}; if it is text in another encoding, name it, "
        f"for instance --encoding {other}"
    )


def _name(source: object) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return str(getattr(source, "name", "the stream"))
