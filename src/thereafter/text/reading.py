"""Bytes to text and its lines; the encoding of old files; where words end, and where a stream of text can be cut.

A file is decoded, its byte order mark dropped, CRLF and CR become LF, and nothing else is changed. It is read in
blocks, so that memory stays constant. `data.files` decompresses gzip.

Lines are cut at newlines only: U+2028 and U+0085 do not end a line here (they do for `str.splitlines`), so that line
numbers are those of an editor and parallel files stay aligned.

A file that is not UTF-8 is Windows-1252, where its bytes leave no doubt; nothing is guessed otherwise. Old files of
Western Europe are Latin-1, of which Windows-1252 is the form that machines really wrote. Its letters with accents are
single bytes above 0x7f, few among plain letters, which hardly ever make a character of UTF-8. A file that has
characters of UTF-8 as well is a damaged one, and stays an error; so does one whose bytes are of another alphabet.

A stream is cut where no token crosses: tokenizing in pieces equals tokenizing the whole.

Words end at white space, and at every line end. Positions are counted in characters (code points), or in bytes of
UTF-8, which tokens smaller than a character need. Han, Hiragana, Katakana, Thai, Lao, Khmer and Myanmar have no spaces:
their characters are found here, each with the marks that stand on it.

Shapes: C characters, W words and line ends.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

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


def batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Texts one after the other in lists, each of `size` characters or little more; the last may have fewer.

    >>> list(batches(["so", "long", "and", "thanks"], 5))
    [['so', 'long'], ['and', 'thanks']]
    """
    batch: list[str] = []
    length = 0
    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= size:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def place(path: str | os.PathLike[str], line: int) -> str:
    """The name of a line in errors.

    >>> place("train.tsv", 12)
    'line 12 of train.tsv'
    """
    return f"line {line} of {os.fspath(path)}"


WESTERN = "cp1252"
READ_AS_WESTERN = "not UTF-8, read as Windows-1252 (--encoding names another encoding)"
LOOKED_AT = 1 << 23
"""The number of first bytes of a file that determine its encoding."""
_HIGH = re.compile(rb"[\x80-\xff]")
_NO_CHARACTER = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # bytes that Windows-1252 leaves open
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_ESCAPED = re.compile("[\udc80-\udcff]")
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")
# what such bytes are in a Western text: letters inside words, quotes, dashes, signs of money and degrees
_PLAUSIBLE = re.compile(rb"[\xc0-\xfe](?=[A-Za-z])|(?<=[A-Za-z])[\xc0-\xfe]|[\x80\x82-\x86\x91-\x97\xa0-\xbf]")
_MOST_HIGH = 0.2  # of the bytes; a text in Cyrillic or Greek has far more


def guess_encoding(path: Path) -> str | None:
    """`cp1252` for a file that is not UTF-8 and can hardly be anything else; None if nothing has to be guessed."""
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
        raw = raw[: raw.rfind(b"\n") + 1] or raw  # the last character may be incomplete
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
    """The text of an open file, as of `read_chunks`; its head must be long enough to detect the encoding."""
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


PIECE = 1 << 20
ENOUGH = 1 << 16

# What may still be part of an unfinished token, read from the end of the text backwards. The pattern matches the
# reversed text; what lies before the match is finished, whatever comes next.
WORD_TAIL = re.compile(r"\S*")
# A run of one class, and the spaces before it: one space belongs to the run, several are a token of their own.
PROSE_TAIL = re.compile(r"(?:[^\W\d_]+|\d+|[^\w\s]+|_+)?[^\S\n]*")


def recut(chunks: Iterable[str], tail: re.Pattern[str], size: int | None = None) -> Iterator[str]:
    """The same text in pieces of about `size` characters (a million), each ending where no token can cross.

    Every character is scanned once: text without a safe cut is buffered until one comes, so that a line of 100 MB
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
    """The first chunks of a text, `size` characters or more if it has that many, and the whole text again.

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


Points = NDArray[np.uint32]
Places = NDArray[np.int64]

_LAST_SPACE = 0x3000  # no character beyond it is white space
_NEWLINE = 10


def code_points(text: str) -> Points:
    """The characters of a text as numbers, [C]."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


def is_space(points_C: Points) -> NDArray[np.bool_]:
    """Which characters are white space, as `str.split` and `\\s` see it."""
    flags: NDArray[np.bool_] = _space_table()[np.minimum(points_C, _LAST_SPACE + 1)]
    return flags


def byte_ends(points_C: Points) -> Places:
    """Where each character ends, in bytes of UTF-8 from the beginning."""
    sizes = 1 + (points_C > 0x7F).astype(np.int64) + (points_C > 0x7FF) + (points_C > 0xFFFF)
    ends: Places = np.cumsum(sizes)
    return ends


def word_ends(points_C: Points) -> Places:
    """The place after the last character of every word, and after every newline, in characters: [W].

    >>> word_ends(code_points("two  words\\n\\n")).tolist()
    [3, 10, 11, 12]
    """
    space = is_space(points_C)
    last = ~space
    last[:-1] &= space[1:]
    ends: Places = np.flatnonzero(last | (points_C == _NEWLINE)).astype(np.int64) + 1
    return ends


@cache
def _space_table() -> NDArray[np.bool_]:
    return np.array([chr(point).isspace() for point in range(_LAST_SPACE + 2)], dtype=bool)


# Blocks, generous: Python's `re` tells their digits and signs apart.
_HAN = r"\u3005\u3007\u3021-\u3029\u3038-\u303B\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\U00020000-\U0003FFFD"
_KANA = r"\u3041-\u3096\u309D-\u309F\u30A1-\u30FA\u30FC-\u30FF\u31F0-\u31FF\uFF66-\uFF9F\U0001AFF0-\U0001B16F"
_THAI_LAO = r"\u0E01-\u0E7F\u0E81-\u0EFF"
_KHMER_MYANMAR = r"\u1780-\u17FF\u1000-\u109F\uA9E0-\uA9FF\uAA60-\uAA7F"
_SCRIPTS = _HAN + _KANA + _THAI_LAO + _KHMER_MYANMAR
# Marks that stay with their base: vowel signs and tones, voicing marks, the variation selectors of Han.
_LETTER_MARKS = r"\u0E33\u0EB3\uFF9E\uFF9F"  # letters to `re`, and yet written onto the character before them
_MARKS = (
    _LETTER_MARKS
    + r"\u0E31\u0E34-\u0E3A\u0E47-\u0E4E\u0EB1\u0EB4-\u0EBC\u0EC8-\u0ECE"
    + r"\u17B4-\u17D3\u17DD\u102B-\u103E\u1056-\u1059\u105E-\u1060\u1062-\u1064\u1067-\u106D\u1071-\u1074"
    + r"\u1082-\u108D\u108F\u109A-\u109D\uA9E5\uAA7B-\uAA7D\u302A-\u302F\u3099\u309A\uFE00-\uFE0F\U000E0100-\U000E01EF"
)
_STACKERS = r"\u17D2\u1039"  # write the next consonant below the one before
_BASE = rf"(?=[^\W\d_])[{_SCRIPTS}]"

CHARACTER = rf"{_BASE}(?:[{_STACKERS}]{_BASE}|[{_MARKS}])*"
"""One character of such a script with its marks."""
OTHER_LETTERS = rf"[^\W\d_{_SCRIPTS}]+"
"""A word of any other script."""
SCRIPT_TAIL = (  # a long pattern: compiled where it is needed, not at every start
    rf"(?:(?:[^\w\s]|[{_LETTER_MARKS}])*{_BASE}(?:[{_STACKERS}](?:[^\w\s]|[{_LETTER_MARKS}])*{_BASE})*"
    rf"|{OTHER_LETTERS}|\d+|[^\w\s]+|_+)?[^\S\n]*"
)
"""What may still be part of an unfinished token, as `PROSE_TAIL`: the last character may get another mark."""

_ANY = re.compile(_BASE)
SPACELESS = re.compile(rf"[{_SCRIPTS}\u3099-\u309C\u30A0\u30FB]")
"""Any sign of such a script: digits, vowel signs and the dots between words of Katakana too."""
MANY = 1 / 3
"""From this share of a text on, a note tells the user about its script."""


def has_characters(text: str) -> bool:
    """Whether a text has any character of such a script.

    >>> has_characters("so long"), has_characters("さようなら")
    (False, True)
    """
    return not text.isascii() and _ANY.search(text) is not None


def share_of_characters(counts: Iterable[tuple[str, int]]) -> float:
    """The share of such characters among all, in forms with their counts; white space does not count.

    >>> share_of_characters([("漢", 3), ("the", 1)])
    0.5
    """
    spaceless = total = 0
    for form, count in counts:
        total += count * len(form.strip())
        if not form.isascii():
            spaceless += count * len(_ANY.findall(form))
    return spaceless / total if total else 0.0


def advice(share: float) -> str | None:
    """A note for a text of which that share has no spaces between words; None if it is small."""
    if share <= MANY:
        return None
    return (
        f"{100 * share:.0f} % of the text is in a script without spaces between words: each character is a token; "
        "--tokens bpe learns pieces of several characters, --tokens char takes every character alike"
    )
