"""The form of a user's own file: what of it is text, and where its lines end.

Project Gutenberg's header and licence are left out, and hard-wrapped prose is unwrapped into paragraphs, one per line;
every other text stays as it is. The choice depends on the file alone, so that training and scoring read it alike, and
it is reported with its reason. Named corpora are never changed.

Hard-wrapped prose is recognised by where its lines end: a line break lies where the line was full, since the first word
of the next line had no room in it,

    len(line) + 1 + len(next word) > width.

Verse, code, lists and one sentence per line break elsewhere. Prose also continues a sentence after most
breaks, and ends sentences in the middle of lines; a table or a log of even lines does neither.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path

from thereafter.data.files import FileState, file_state, open_content
from thereafter.errors import SourceError
from thereafter.text import reading
from thereafter.text.documents import declares_encoding, describe_document, document_format, read_document

_MARKED = 8 * reading.BLOCK  # characters in which the marks of a licence are looked for: more than any novel has
_SAMPLE = 400_000  # characters by which line breaks are judged


@dataclass(frozen=True)
class Forming:
    """What to leave unchanged in the user's own files."""

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
    """The encoding of a file that is not UTF-8, if its bytes leave no doubt (`text/reading.py`)."""

    @property
    def changes(self) -> bool:
        """Whether the text differs from that of the file."""
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
            return self.apply(reading.read_chunks(path, encoding=encoding or self.encoding, advance=advance))
        return self.apply(
            read_document(path, encoding=encoding or self.encoding, advance=advance, format=self.document)
        )

    def apply(self, chunks: Iterable[str]) -> Iterator[str]:
        """The text in its form; chunks may end anywhere."""
        if not self._rewrites:
            yield from chunks
            return
        lines = reading.lines_of(chunks)
        if self.header or self.licence:
            lines = leave_out(lines, header=self.header)
        if self.wrapping is not None:
            lines = unwrap(lines, self.wrapping)
        yield from map("".join, reading.batches((f"{line}\n" for line in lines), reading.BLOCK))


def form_of(path: Path, encoding: str | None, forming: Forming) -> Form:
    """The form of a file, by its first characters; it is read once as long as it does not change."""
    try:
        state = file_state(path)
    except OSError as failed:
        raise SourceError(f"{path} could not be read: {failed.strerror}") from None
    return _recognise_file(path, encoding, forming, state)


@lru_cache(maxsize=1 << 16)  # more files than a folder of texts has
def _recognise_file(path: Path, encoding: str | None, forming: Forming, state: FileState) -> Form:
    """`state` is part of the cache key: a file that was rewritten is read again. Plain text is opened once."""
    guessed: str | None = None
    beginning = ""
    with open_content(path, reading.LOOKED_AT) as content:
        document = document_format(path, markup=forming.markup, head=content.head)
        if encoding is None and not declares_encoding(content.head, document):
            guessed = reading.guess_of_bytes(content.head)
        if document is None:
            chunks = reading.decode(str(path), content, reading.check_encoding(encoding or guessed))
            beginning, _ = reading.look_ahead(chunks, _MARKED)
    if document is not None:
        chunks = read_document(path, encoding=encoding or guessed, format=document)
        beginning, _ = reading.look_ahead(chunks, _MARKED)
    form = recognise(beginning, forming)
    if document is not None:
        form = replace(form, document=document, reason=f"{describe_document(path, document)}; {form.reason}")
    if guessed is not None:
        form = replace(form, encoding=guessed, reason=f"{reading.READ_AS_WESTERN}; {form.reason}")
    return form


def form_of_column(path: Path, encoding: str | None, column: str) -> Form:
    """The form of a column of a table: its rows stay as they are."""
    guessed = reading.guess_encoding(path) if encoding is None else None
    reason = f"the column {column} of a table, one row per line"
    return Form(encoding=guessed, reason=reason if guessed is None else f"{reading.READ_AS_WESTERN}; {reason}")


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
        kept_note = f"Project Gutenberg's {what} kept, as asked for (--keep-licence)"
        reasons.append(
            kept_note if forming.keep_licence else f"Project Gutenberg's {what} left out (--keep-licence keeps it)"
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
    """The number of marks in a text at which a header ends.

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


# Searching for the name is much faster than the patterns, and nearly no line of a book has it.
def _begins(line: str) -> bool:
    small = line.lower()
    return (_NAME in small or _SMALL_PRINT in small) and _BEGIN.match(line) is not None


def _ends(line: str) -> bool:
    return _NAME in line.lower() and _END.match(line) is not None


_ENOUGH_FULL = 0.8  # of the breaks; wrapped books have 0.98 and more, verse and lists below 0.5
_RAGGED = 0.88  # of the width: how short a full line may be, for texts that were wrapped by hand
_WIDTHS = range(40, 131)
_WIDTHS_WITHOUT_SPACES = range(16, 131)
_FEWEST_BREAKS = 6
_WORDS_A_LINE = 4
_WIDEST = 0.98  # the share of lines that are no longer than the width; a few long ones are no evidence
# a sentence that ends inside a line
_INSIDE = re.compile(r"[.!?؟]['\"”’»)]*[ \t]+\S|[。！？]\S")
_SENTENCE_END = tuple(".!?:;\"”'’»)]…。！？؟")
_LIST_MARK = re.compile(r"(?:[-*•·]|\d{1,3}[.)]|\(?[a-z]\))[ \t]")
_DIVIDED = re.compile(r"(?<![^\W\d_])([^\W\d_]+)-$")  # from the beginning of a word: a line may be endless
_FIRST_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Wrapping:
    """How the lines of a text break. `width` is that of a full line; `wrapped` says whether it is wrapped prose."""

    wrapped: bool
    width: int
    full: float
    """The share of line breaks that lie where the line was full."""
    reason: str
    divided: bool = False
    """Whether hyphens at line ends divide words."""
    compounds: frozenset[str] = frozenset()
    """Words that are written with a hyphen inside lines too: they keep it."""


def measure_wrapping(text: str) -> Wrapping:
    """How the lines of a text break, by a sample of it.

    >>> measure_wrapping("one sentence a line.\\nanother one.\\n").wrapped
    False
    """
    lines = [line.rstrip() for line in text.split("\n")]
    written = [line for line in lines if line]
    breaks = [(line, after) for line, after in pairwise(lines) if _inside_paragraph(line, after)]
    if len(breaks) < _FEWEST_BREAKS or len(breaks) < 0.3 * len(written):
        return Wrapping(False, 0, 0.0, "most lines are paragraphs of their own")
    spaceless = not text.isascii() and len(reading.SPACELESS.findall(text)) > len(text) / 3
    lengths = sorted(map(len, written))
    width = lengths[int(_WIDEST * (len(lengths) - 1))]
    full = sum(_is_full(line, after, width) for line, after in breaks) / len(breaks)
    wrapped, reason = _decide(written, breaks, width, full, spaceless)
    if not wrapped:
        return Wrapping(False, width, full, reason)
    divided, compounds = _read_hyphens(text, breaks)
    return Wrapping(True, width, full, reason, divided, compounds)


def _decide(
    written: list[str], breaks: list[tuple[str, str]], width: int, full: float, spaceless: bool
) -> tuple[bool, str]:
    """Whether the lines are those of wrapped prose, and why."""
    if full < _ENOUGH_FULL:
        return False, f"only {full * 100:.0f} % of the line breaks lie where a line was full"
    if width not in (_WIDTHS_WITHOUT_SPACES if spaceless else _WIDTHS):
        return False, f"lines of {width} characters are too {'short' if width < _WIDTHS.start else 'long'} for a page"
    if not spaceless and sum(len(line.split()) for line in written) < _WORDS_A_LINE * len(written):
        return False, "its lines have too few words to be prose"
    inside = sum(_INSIDE.search(line) is not None for line in written) / len(written)
    if inside < 0.04:
        return False, "no sentence ends inside a line"
    small = sum(after.lstrip()[0].islower() for _, after in breaks) / len(breaks)
    open_ends = sum(not line.endswith(_SENTENCE_END) for line, _ in breaks) / len(breaks)
    if not (small >= 0.3 if _has_case(written) else open_ends >= 0.5):
        return False, "most lines begin anew instead of going on in a sentence"
    return True, f"{full * 100:.0f} % of the line breaks lie where a line of {width} characters was full"


def unwrap(lines: Iterable[str], wrapping: Wrapping) -> Iterator[str]:
    """Paragraphs, one per line without its newline; blank lines are left out.

    A line that was not full keeps its end: headings, verse and addresses inside a book stay lines of their own.
    """
    paragraph: list[str] = []
    before = ""
    for line in chain(lines, [""]):
        line = line.rstrip()
        if paragraph and line and _inside_paragraph(before, line) and _is_full(before, line, wrapping.width):
            _join(paragraph, line.lstrip(), wrapping)
        else:
            if paragraph:
                yield "".join(paragraph)
            paragraph = [line.lstrip()] if line else []
        before = line


def _join(paragraph: list[str], line: str, wrapping: Wrapping) -> None:
    """Append a line to a paragraph: with a space, without one, or in the place of a hyphen."""
    last = paragraph[-1]
    if last.endswith(("--", "—")) or line.startswith(("--", "—")):
        paragraph.append(line)
    elif division := _DIVIDED.search(last):
        rest = _FIRST_LETTERS.match(line)
        word = f"{division[1]}-{rest[0]}".lower() if rest else ""
        if rest and wrapping.divided and rest[0].islower() and word not in wrapping.compounds:
            paragraph[-1] = last[:-1]
        paragraph.append(line)
    elif reading.SPACELESS.match(last[-1]) or reading.SPACELESS.match(line[0]) or last[-1] in "。、，！？":
        paragraph.append(line)
    else:
        paragraph += [" ", line]


def _read_hyphens(text: str, breaks: list[tuple[str, str]]) -> tuple[bool, frozenset[str]]:
    """Whether hyphens at line ends divide words, and which words have one inside lines too.

    They divide where the word without the hyphen is known from inside the lines more often than the one with it. In
    books that were proof-read into files, such as Project Gutenberg's, most are compounds, and stay.
    """
    words = Counter(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text.lower()))
    whole = hyphened = 0
    for line, after in breaks:
        division, rest = _DIVIDED.search(line), _FIRST_LETTERS.match(after.lstrip())
        if division and rest:
            whole += f"{division[1]}{rest[0]}".lower() in words
            hyphened += f"{division[1]}-{rest[0]}".lower() in words
    if whole <= hyphened:
        return False, frozenset()
    return True, frozenset(word for word in words if "-" in word)


def _has_case(lines: list[str]) -> bool:
    """Whether the script has lower-case and capital letters."""
    letters = [letter for letter in "".join(lines[:200]) if letter.isalpha()]
    return sum(letter.lower() != letter.upper() for letter in letters) > len(letters) / 2


def _inside_paragraph(line: str, after: str) -> bool:
    """Whether the break between two lines may lie inside a paragraph: neither is blank, and none begins there."""
    if not line or not after:
        return False
    return _indent(after) <= _indent(line) and _LIST_MARK.match(after.lstrip()) is None


def _is_full(line: str, after: str, width: int) -> bool:
    first = after.split(maxsplit=1)[0]
    room = 1 if reading.SPACELESS.match(first) else 1 + len(first)
    return len(line) + room > _RAGGED * width


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
