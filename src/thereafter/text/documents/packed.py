"""Documents in zip files: EPUB and Word.

An EPUB has chapters in XHTML and a list of them, the spine, which is the reading order. Of a .docx a paragraph is a
line, and a row of a table; of its XML only that of the body is read. The zip files are read with bounds: nothing is
unpacked to disk, no member may grow without end.
"""

from __future__ import annotations

import io
import lzma
import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from thereafter.data.files import open_content
from thereafter.errors import SourceError
from thereafter.text.documents.hypertext import MOST_ELEMENTS, declared_encoding, parse_events, text_of_html
from thereafter.text.reading import read_chunks

_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, ValueError, OSError)
ZIP_MAGIC = b"PK\x03\x04"
MOST_MEMBERS = 20_000
MOST_BYTES = 64 << 20
"""Of one member, unpacked: no real chapter has 64 MiB."""
MOST_TOTAL = 1 << 28
"""Of everything read from one archive."""
_BLOCK = 1 << 18
_MOST_PACKED = 1 << 28  # of an archive that is itself gzipped, which has to be unpacked into memory


class Archive:
    """The members of an open zip file by name."""

    def __init__(self, path: Path, members: zipfile.ZipFile, advance: Callable[[float], None] | None) -> None:
        self._path = path
        self._members = members
        self._advance = advance
        self._total = 0
        entries = members.infolist()
        if len(entries) > MOST_MEMBERS:
            raise SourceError(f"{path} holds {len(entries):,} files, expected at most {MOST_MEMBERS:,}; is it a book?")
        self._entries = {entry.filename: entry for entry in entries}

    @property
    def names(self) -> list[str]:
        """The names of all members."""
        return list(self._entries)

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """The bytes of a member, up to a maximum; errors as of `blocks`."""
        return b"".join(self.blocks(name, most))

    def blocks(self, name: str, most: int = MOST_BYTES) -> Iterator[bytes]:
        """The bytes of a member in pieces; SourceError where it is not there, damaged, locked or too large."""
        entry = self._entries.get(name)
        if entry is None:
            raise SourceError(f"{self._path} has no {name}, which its list of contents names; fetch it again")
        if entry.flag_bits & 1:
            raise SourceError(f"{self._path} is protected by a password; try a copy without one")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # Python unpacks the others unbounded
            raise SourceError(
                f"{name} in {self._path} is packed by method {entry.compress_type} of zip, expected deflate, as in "
                "every book; try to unpack the file and to zip it again"
            )
        most, size = min(most, MOST_BYTES), 0
        try:
            with self._members.open(entry) as member:
                while block := member.read(_BLOCK):  # the declared size may be false
                    size += len(block)
                    self._total += len(block)
                    if size > most or self._total > MOST_TOTAL:
                        raise SourceError(
                            f"{self._path} unpacks to more than {_in_words(most)} in {name} (or "
                            f"{_in_words(MOST_TOTAL)} in all), which no document needs; try to unpack it and pass the "
                            "text"
                        )
                    yield block
        except _DAMAGE as broken:
            raise _damage_error(self._path, broken) from None
        if self._advance is not None:
            self._advance(entry.compress_size)


@contextmanager
def open_archive(path: Path, advance: Callable[[float], None] | None = None) -> Iterator[Archive]:
    """The zip file of that path, which may itself be gzipped."""
    with ExitStack() as closing:
        try:
            members = closing.enter_context(zipfile.ZipFile(_open_seekable(path, closing)))
        except _DAMAGE as broken:
            raise _damage_error(path, broken) from None
        yield Archive(path, members, advance)


def _open_seekable(path: Path, closing: ExitStack) -> IO[bytes]:
    with open_content(path, len(ZIP_MAGIC)) as content:
        with open(path, "rb") as file:
            zipped_again = file.read(2) == b"\x1f\x8b"
        if zipped_again:
            unpacked = content.read(_MOST_PACKED + 1)
            if len(unpacked) > _MOST_PACKED:
                raise SourceError(f"{path} unpacks to more than {_MOST_PACKED >> 20} MiB; try: gunzip {path.name}")
            return io.BytesIO(unpacked)
    return closing.enter_context(open(path, "rb"))


def _in_words(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size:,} bytes"


def _damage_error(path: Path, broken: Exception) -> SourceError:
    return SourceError(
        f"{path} begins like a zip file but is damaged or cut short ({broken}); fetch it again, or test it with: "
        f"unzip -t {path.name}"
    )


_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_CHAPTERS = ("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document")
_LISTED = frozenset(("rootfile", "item", "itemref", "CipherReference"))
_ATTRIBUTES = frozenset(("full-path", "id", "href", "media-type", "properties", "idref", "linear", "URI"))
_MOST_LIST = 1 << 23  # bytes of a list of contents
_MOST_LISTED = 50_000  # its elements: two for each file that an archive may have, and more
Elements = list[tuple[str, dict[str, str]]]


def read_epub(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of the chapters in the order of the spine, a chapter at a time."""
    tags = 0
    with open_archive(path, advance) as archive:
        for name in _chapters(path, archive):
            content = archive.read(name)
            if content.startswith(b"\x1f\x8b"):  # it would be unpacked once more, without a bound
                raise SourceError(f"{name} in {path} is a gzip file, expected a chapter in XHTML; fetch it again")
            tags += content.count(b"<") + content.count(b"&")
            if tags > MOST_ELEMENTS:
                raise SourceError(
                    f"{path} has more than {MOST_ELEMENTS:,} tags and entities, which no book needs; try to unpack it "
                    "and pass the text"
                )
            chosen = encoding or declared_encoding(content[:1024])
            yield from text_of_html(read_chunks(_ChapterFile(content, f"{name} in {path}"), encoding=chosen))


def chapters_of(path: Path) -> list[str]:
    """The names of the chapters in reading order."""
    with open_archive(path) as archive:
        return _chapters(path, archive)


class _ChapterFile(io.BytesIO):
    """Bytes with a name for errors."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name


def _chapters(path: Path, archive: Archive) -> list[str]:
    package = next(
        (
            attributes["full-path"]
            for tag, attributes in _elements(path, _CONTAINER, archive)
            if tag == "rootfile" and "full-path" in attributes
        ),
        None,
    )
    if package is None:
        raise SourceError(f"{path} does not say where its list of chapters is ({_CONTAINER}); fetch it again")
    elements = _elements(path, package, archive)
    items = {attributes["id"]: attributes for tag, attributes in elements if tag == "item" and "id" in attributes}
    folder = posixpath.dirname(package)
    names: list[str] = []
    for tag, attributes in elements:
        item = items.get(attributes.get("idref", "")) if tag == "itemref" else None
        if item is None or attributes.get("linear") == "no" or "nav" in item.get("properties", "").split():
            continue
        if item.get("media-type", _CHAPTERS[0]) in _CHAPTERS and item.get("href"):
            names.append(_inside(path, folder, item["href"]))
    if not names:
        raise SourceError(f"{path} is an EPUB without chapters (its spine names none); is it a book of pictures?")
    encrypted = _elements(path, _ENCRYPTION, archive) if _ENCRYPTION in archive.names else []
    references = [attributes.get("URI", "") for tag, attributes in encrypted if tag == "CipherReference"]
    locked = set(map(unquote, references)) & set(names)
    if locked:
        raise SourceError(
            f"{path} is locked by its seller (DRM): {min(locked)} is encrypted; try a copy without a lock"
        )
    return names


def _inside(path: Path, folder: str, href: str) -> str:
    """The name of a member that a list of contents refers to; it never leaves the archive."""
    parts = urlsplit(href)
    name = posixpath.normpath(posixpath.join(folder, unquote(parts.path)))
    if parts.scheme or parts.netloc or name.startswith(("/", "..")):
        raise SourceError(
            f"{path} names a chapter outside of itself ({href!r}), expected one in the file; fetch it again"
        )
    return name


def _elements(path: Path, name: str, archive: Archive) -> Elements:
    """The elements of a list of contents by their local names, in order, with those of their attributes that count."""
    elements: Elements = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        if tag in _LISTED:
            by_name = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
            elements.append((tag, {key: by_name[key] for key in _ATTRIBUTES & by_name.keys()}))

    for _ in parse_events(f"{name} in {path}", archive.blocks(name, _MOST_LIST), start, most=_MOST_LISTED):
        pass
    return elements


_BODY = "word/document.xml"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_FALLBACK = "http://schemas.openxmlformats.org/markup-compatibility/2006 Fallback"  # the same again, for old readers
_LEFT_OUT = frozenset((f"{_WORD}del", f"{_WORD}moveFrom", f"{_WORD}rt", f"{_WORD}sdtPr", f"{_WORD}pPr", _FALLBACK))
_SIGNS = {f"{_WORD}tab": "\t", f"{_WORD}br": "\n", f"{_WORD}cr": "\n", f"{_WORD}noBreakHyphen": "-"}
_PARAGRAPH, _ROW, _CELL, _RUN = f"{_WORD}p", f"{_WORD}tr", f"{_WORD}tc", f"{_WORD}t"


def read_word(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of the body in its order; headers, footers, comments and formatting are left out."""
    body = _Body()
    with open_archive(path) as archive:
        for _ in parse_events(f"{_BODY} in {path}", archive.blocks(_BODY), body.start, body.end, body.text):
            yield from body.take()
    if not body.seen:
        raise SourceError(f"{path} is not a Word document ({_BODY} has no body); save it again as .docx")
    if advance is not None:
        advance(path.stat().st_size)


class _Body:
    """Collects the lines of a document from the events of its XML.

    A paragraph, or a row outside of one, is a unit of lines; text stands in paragraphs and in the cells of rows.
    """

    def __init__(self) -> None:
        self.seen = False
        self._lines: list[str] = []
        self._depth = 0
        self._unit: tuple[str, int] | None = None  # the current paragraph or row, and its depth
        self._cell: int | None = None  # the depth of the current cell
        self._cells: list[str] = []
        self._written = io.StringIO()  # the text of the current paragraph or cell
        self._skipped: int | None = None  # the depth of an element of which nothing inside is read
        self._in_run = False

    def take(self) -> list[str]:
        """The lines that are finished, and forget them."""
        lines, self._lines = self._lines, []
        return lines

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._skipped is not None:
            return
        if self._depth == 2 and tag == f"{_WORD}body":
            self.seen = True
        elif self._depth <= 2 or tag in _LEFT_OUT:
            self._skipped = self._depth if self._depth > 1 else None
        elif self._unit is None:
            if tag in (_PARAGRAPH, _ROW):
                self._unit, self._written, self._cells = (tag, self._depth), io.StringIO(), []
        elif self._unit[0] == _ROW and self._cell is None:
            if tag == _CELL:
                self._cell, self._written = self._depth, io.StringIO()
        elif tag == _RUN or tag in _SIGNS:
            self._written.write(_SIGNS.get(tag, ""))
            self._skipped, self._in_run = self._depth, tag == _RUN
        elif tag == _PARAGRAPH:
            self._written.write("\n")

    def text(self, data: str) -> None:
        if self._in_run and self._skipped == self._depth:
            self._written.write(data)

    def end(self, tag: str) -> None:
        depth, self._depth = self._depth, self._depth - 1
        if self._skipped is not None:
            if self._skipped == depth:
                self._skipped, self._in_run = None, False
        elif self._unit == (tag, depth):
            self._end_unit(tag)
        elif self._cell == depth:
            self._cells.append(" ".join(self._written.getvalue().split()))
            self._cell = None
        elif self._unit is not None and tag == _PARAGRAPH:
            self._written.write("\n")

    def _end_unit(self, tag: str) -> None:
        self._unit = None
        if tag == _ROW:
            self._lines += ["\t".join(self._cells) + "\n"] if any(self._cells) else []
        else:
            lines = (line.strip() for line in self._written.getvalue().split("\n"))
            self._lines += [line + "\n" for line in lines if line]
