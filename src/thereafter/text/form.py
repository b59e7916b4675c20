"""The form of a user's own file: what of it is text, and where its lines end.

Project Gutenberg's header and licence are left out, and hard-wrapped prose is unwrapped into paragraphs, one a line;
every other text stays as it is. The choice is made by the file alone, so that training and scoring read it alike, and
it is said with its reason. Named corpora are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from thereafter.data.files import FileState, file_state
from thereafter.data.opening import open_content
from thereafter.errors import SourceError
from thereafter.text.chunks import look_ahead
from thereafter.text.documents import declares_encoding, describe_document, document_format, read_document
from thereafter.text.lines import LOOKED_AT, READ_AS_WESTERN, guess_encoding, guess_of_bytes, lines_of
from thereafter.text.reading import BLOCK, check_encoding, decode, read_chunks
from thereafter.text.wrapping import Wrapping, measure_wrapping, unwrap

_MARKED = 8 * BLOCK  # characters in which the marks of a licence are looked for: more than any novel has
_SAMPLE = 400_000  # characters by which line breaks are judged


@dataclass(frozen=True)
class Forming:
    """What a user wants kept as it is in files of their own."""

    keep_licence: bool = False
    wrapped: bool = False
    markup: bool = False


ALL_FORMED = Forming()


@dataclass(frozen=True)
class Form:
    """The form of one file. `reason` is one sentence for its user."""

    header: bool = False
    """Whether Project Gutenberg's header is left out."""
    licence: bool = False
    """Whether its licence is left out."""
    wrapping: Wrapping | None = None
    """How the lines are joined; None where they stay as they are."""
    reason: str = ""
    document: str | None = None
    """The format of a document that is read without its markup; None for plain text."""
    encoding: str | None = None
    """The encoding of a file that is no UTF-8, where its bytes leave no doubt (`text/lines.py`)."""

    @property
    def changes(self) -> bool:
        """Whether the text is another than that of the file."""
        return self.document is not None or self.encoding is not None or self._rewrites

    @property
    def _rewrites(self) -> bool:
        return self.header or self.licence or self.wrapping is not None

    def identity(self) -> str:
        """What decides how the file is read: part of the fingerprint of a source."""
        joined = "" if self.wrapping is None else f" width {self.wrapping.width} divided {self.wrapping.divided}"
        document = "" if self.document is None else f" document {self.document}"
        encoding = "" if self.encoding is None else f" encoding {self.encoding}"
        return f"form 1 header {self.header} licence {self.licence}{joined}{document}{encoding}"

    def read(self, path: Path, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
        """The text of a file of this form; `advance` is called with the bytes read from the disk."""
        if self.document is None:
            return self.apply(read_chunks(path, encoding=encoding or self.encoding, advance=advance))
        return self.apply(
            read_document(path, encoding=encoding or self.encoding, advance=advance, format=self.document)
        )

    def apply(self, chunks: Iterable[str]) -> Iterator[str]:
        """The text in its form; chunks may end anywhere."""
        if not self._rewrites:
            yield from chunks
            return
        lines = lines_of(chunks)
        if self.header or self.licence:
            lines = leave_out(lines, header=self.header)
        if self.wrapping is not None:
            lines = unwrap(lines, self.wrapping)
        yield from _join_lines(lines)


def form_of(path: Path, encoding: str | None, forming: Forming) -> Form:
    """The form of a file, by its first characters; it is read once as long as it does not change."""
    try:
        state = file_state(path)
    except OSError as failed:
        raise SourceError(f"{path} could not be read: {failed.strerror}") from None
    return _recognise_file(path, encoding, forming, state)


@lru_cache(maxsize=1 << 16)  # more files than a folder of texts has
def _recognise_file(path: Path, encoding: str | None, forming: Forming, state: FileState) -> Form:
    """`state` is there for the cache: a file that was written again is read again. Plain text is opened once."""
    guessed, beginning = None, ""
    with open_content(path, LOOKED_AT) as content:
        document = document_format(path, markup=forming.markup, head=content.head)
        if encoding is None and not declares_encoding(content.head, document):
            guessed = guess_of_bytes(content.head)
        if document is None:
            chunks = decode(str(path), content, check_encoding(encoding or guessed))
            beginning, _ = look_ahead(chunks, _MARKED)
    if document is not None:
        chunks = read_document(path, encoding=encoding or guessed, format=document)
        beginning, _ = look_ahead(chunks, _MARKED)
    form = recognise(beginning, forming)
    if document is not None:
        form = replace(form, document=document, reason=f"{describe_document(path, document)}; {form.reason}")
    if guessed is not None:
        form = replace(form, encoding=guessed, reason=f"{READ_AS_WESTERN}; {form.reason}")
    return form


def form_of_column(path: Path, encoding: str | None, column: str) -> Form:
    """The form of a column of a table: its rows stay as they are."""
    guessed = guess_encoding(path) if encoding is None else None
    reason = f"the column {column} of a table, one row a line"
    return Form(encoding=guessed, reason=reason if guessed is None else f"{READ_AS_WESTERN}; {reason}")


def recognise(text: str, forming: Forming = ALL_FORMED) -> Form:
    """The form of a text, by its beginning.

    >>> recognise("fn main() {\\n    println!(1);\\n}\\n").changes
    False
    """
    marked = "project gutenberg" in text.lower()
    books = count_books(text) if marked else 0
    header, licence = books > 0, marked and has_licence(text)
    book = "\n".join(leave_out(text.split("\n"), header=header)) if header or licence else text
    wrapping = measure_wrapping(_whole_lines(book))
    reasons = []
    if header or licence:
        what = " and ".join(name for name, there in (("header", header), ("licence", licence)) if there)
        what += f" of {books} books" if books > 1 else ""
        kept = f"Project Gutenberg's {what} kept, as asked for (--keep-licence)"
        reasons.append(
            kept if forming.keep_licence else f"Project Gutenberg's {what} left out (--keep-licence keeps it)"
        )
    if wrapping.wrapped and forming.wrapped:
        reasons.append(f"hard line breaks kept, as asked for (--wrapped): {wrapping.reason}")
    elif wrapping.wrapped:
        reasons.append(f"hard-wrapped prose unwrapped into paragraphs (--wrapped keeps the lines): {wrapping.reason}")
    else:
        reasons.append(f"lines kept as they are: {wrapping.reason}")
    left_out = not forming.keep_licence
    return Form(
        header=header and left_out,
        licence=licence and left_out,
        wrapping=wrapping if wrapping.wrapped and not forming.wrapped else None,
        reason="; ".join(reasons),
    )


def _whole_lines(text: str) -> str:
    """The sample by which line breaks are judged, without a line that is cut."""
    if len(text) <= _SAMPLE:
        return text
    return text[: text.rfind("\n", 0, _SAMPLE) + 1] or text[:_SAMPLE]


def _join_lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines, each with its newline, as chunks of about a million characters."""
    pieces: list[str] = []
    length = 0
    for line in lines:
        pieces += (line, "\n")
        length += len(line) + 1
        if length >= BLOCK:
            yield "".join(pieces)
            pieces, length = [], 0
    if pieces:
        yield "".join(pieces)


# Project Gutenberg's header and licence: found by their marks, so that neither is learned nor scored.
#
# A file of Project Gutenberg begins with a header, which ends in `*** START OF THE PROJECT GUTENBERG EBOOK ... ***`
# (or, in old files, in the end of "the small print"), and ends with its licence, which begins with `*** END OF ...`.


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
