"""HTML as text: each block is a line; scripts, styles and navigation are left out, entities are characters.

Cells of a table row are separated by tabs, `pre` keeps its lines, the readings of ruby are left out. Soft hyphens are
no characters of the text.

XML is read as events: no tree is built; elements, their depth and the length of a tag have bounds.
"""

from __future__ import annotations

import codecs
import html
import io
import re
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.parsers import expat

from thereafter.data.files import open_content
from thereafter.errors import OptionError, SourceError
from thereafter.text.reading import check_encoding, read_chunks

_DROPPED = re.compile(r"script|style|nav|title|template|svg|iframe|noscript|button|select|rt|rp")
_BLOCK = re.compile(
    r"address|article|aside|blockquote|body|br|caption|center|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure"
    r"|footer|form|h[1-6]|header|hr|html|li|main|menu|ol|p|pre|section|summary|table|tbody|tfoot|thead|tr|ul"
)
_PHRASING = ("button", "select", "rt", "rp")  # of the dropped ones: they contain no block, so that one ends them
_BORDERS = ("br", "hr", "div")  # blocks that are written into buttons all the same
_BEGIN_ANEW = frozenset(("body", "main", "article"))  # ends a navigation that was never closed
_CELLS = ("td", "th")
_ROWS = frozenset(("table", "tbody", "tfoot", "thead", "tr", "body", "html"))
_SPACE = re.compile(r"[ \t\n\r\f]+")
_CHARSET = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9._:-]+)""", re.I)
_HEAD = 1024
_LONGEST_TAG = 1 << 24  # characters; pictures inside a tag have millions
_UNFINISHED = re.compile(r"<[A-Za-z/!?]")
_ANY_TAG = re.compile(r"<[^<>]*>?")
_STRAY = re.compile(r"<(?![A-Za-z/!?])")  # begins no tag; the parser would take each of them by itself
_LONG_NUMBER = re.compile(r"&#[0-9]{640,}(;|\Z)?")  # of no character; Python refuses to read longer ones
_BEGUN = re.compile(r"(?:<|&(?:#[0-9]{0,640})?)\Z")  # what the next piece of a page may continue
_NOT_DECLARED = ("punycode", "idna", "utf-7", "unicode-escape", "raw-unicode-escape")  # no page; slow where it is long
_DEEPEST = 256  # elements left out that are open at once; the end tags of further ones count for those
_END_TAG = 1024  # characters: more than the end tag of a script has
_TAB = "\t"


def read_html(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of an HTML file, in pieces; without `encoding` the encoding that the file declares is used."""
    if encoding is None:
        with open_content(path, _HEAD) as content:
            encoding = declared_encoding(content.head)
    return text_of_html(read_chunks(path, encoding=encoding, advance=advance))


def declared_encoding(head: bytes) -> str | None:
    """The encoding that the first bytes of an HTML or XML file declare; None if there is none that Python knows.

    >>> declared_encoding(b'<meta charset="ISO-8859-1">')
    'cp1252'
    """
    if head.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return None
    declared = _CHARSET.search(head[:_HEAD])
    if declared is None:
        return None
    try:
        name = check_encoding(declared[1].decode("ascii"))
    except OptionError:
        return None
    if name in ("utf-8", "utf-16", "utf-16-le", "utf-16-be"):  # the bytes say it better
        return None
    if name in _NOT_DECLARED:
        return None
    return "cp1252" if name in ("iso8859-1", "ascii") else name  # as every browser has it


def unescape(text: str) -> str:
    """Entities as characters, as `html.unescape`, for numbers of any length."""
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text))


def text_of_html(chunks: Iterable[str]) -> Iterator[str]:
    """The text of HTML that comes in pieces, in pieces."""
    page = _Page()
    for chunk in _tidied(chunks):
        page.feed(chunk)
        page.end_tag(_LONGEST_TAG)
        if text := page.take():
            yield text
    page.end_tag(0)
    page.close()
    page.end_line()
    if text := page.take():
        yield text


def _tidied(chunks: Iterable[str]) -> Iterator[str]:
    """The same page with stray signs and endless numbers written so that the parser is quick with them."""
    begun = ""
    for chunk in chunks:
        text = _LONG_NUMBER.sub(lambda hit: f"&#{'0' * 640}" if hit[1] == "" else "\ufffd", begun + chunk)
        hit = _BEGUN.search(text, max(0, len(text) - 642))
        begun = hit[0] if hit else ""
        yield _STRAY.sub("&lt;", text.removesuffix(begun))
    if begun:
        yield _LONG_NUMBER.sub("\ufffd", begun).replace("<", "&lt;")


def _is_block(tag: str) -> bool:
    return tag in _CELLS or _BLOCK.fullmatch(tag) is not None


class _Page(HTMLParser):
    """Collects the lines of a page as it is parsed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[str] = []
        self._line = io.StringIO()
        self._last = ""  # what was last written to it
        self._left_out: list[str] = []
        self._blocks_left_out = 0  # that are open inside a button or the like
        self._verbatim = 0
        self._space = False
        self._in_cell = False
        self._break = False  # a block ended in a cell: the line ends if the cell continues

    def take(self) -> str:
        """The lines that are finished, and forget them."""
        lines, self._lines = self._lines, []
        return "".join(lines)

    def end_line(self) -> None:
        """End a line, if there is anything in it."""
        if self._last:
            if text := self._line.getvalue().strip(" \t"):
                self._lines.append(text + "\n")
            self._line, self._last = io.StringIO(), ""
        self._space, self._break = False, False

    def _write(self, text: str) -> None:
        self._line.write(text)
        self._last = text or self._last

    def end_tag(self, longest: int) -> None:
        """Continue after a longer tag that was never closed; the parser would search for its end again and again.

        What follows it is text, all further tags left out.
        """
        if self.cdata_elem and self._left_out:
            self.rawdata = self.rawdata[-_END_TAG:]  # of a script whose end is to come
        elif len(self.rawdata) > longest and _UNFINISHED.match(self.rawdata):
            rest, self.rawdata = self.rawdata, ""
            self.handle_data(unescape(_ANY_TAG.sub("", rest)))

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """`<![CDATA[...]]>` is left out; any other `<![` is a comment, as for browsers, and no error."""
        if self.rawdata.startswith("<![CDATA[", i):
            return super().parse_marked_section(i, report)
        return self.parse_bogus_comment(i, report)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BEGIN_ANEW:
            self._left_out = []
        if tag in ("rt", "rp"):
            self._end_phrasing("rt", "rp")
        elif _is_block(tag) and tag not in _BORDERS:
            self._end_phrasing(*_PHRASING)
        if _DROPPED.fullmatch(tag):
            if len(self._left_out) < _DEEPEST:
                self._left_out.append(tag)
            self._blocks_left_out *= tag not in _PHRASING
        elif tag == "div" and self._in_phrasing():
            self._blocks_left_out += 1
        if self._left_out:
            return
        if tag in _CELLS:
            if self._last:
                self._write(_TAB)
            self._in_cell, self._space, self._break = True, False, False
        elif _BLOCK.fullmatch(tag):
            self._end_block(tag)
        if tag == "pre":
            if not self._verbatim:
                self.end_line()
            self._verbatim += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._in_phrasing() and self._blocks_left_out:
            self._blocks_left_out -= 1
        elif tag == "ruby" or _is_block(tag):
            self._end_phrasing(*_PHRASING)
        if self._left_out:
            if tag in self._left_out:
                while self._left_out.pop() != tag:
                    pass
            return
        if tag == "pre" and self._verbatim:
            self._end_verbatim()
        elif tag in _CELLS:
            self._in_cell, self._break = False, False
        elif _BLOCK.fullmatch(tag):
            self._end_block(tag)

    def handle_data(self, data: str) -> None:
        if self._left_out:
            return
        data = data.replace("\u00ad", "")
        if self._verbatim:
            self._write(data)
            return
        text = _SPACE.sub(" ", data)
        if text.startswith(" "):
            self._space = True
            text = text[1:]
        if not text:
            return
        if self._break:
            self.end_line()
        if self._space and self._last and self._last != _TAB:
            self._write(" ")
        self._space = text.endswith(" ")
        self._write(text.removesuffix(" "))

    def _in_phrasing(self) -> bool:
        return bool(self._left_out) and self._left_out[-1] in _PHRASING

    def _end_phrasing(self, *tags: str) -> None:
        """Close elements that are left out and whose end tags were omitted."""
        while self._left_out and self._left_out[-1] in tags:
            self._left_out.pop()

    def _end_block(self, tag: str) -> None:
        """End the line; inside the cell of a table only if more follows in it, so that a row stays a line."""
        if self._in_cell and tag not in _ROWS:
            self._break = self._last not in ("", _TAB)
        else:
            self._in_cell = False
            self.end_line()

    def _end_verbatim(self) -> None:
        """The lines of `pre` as they are, without the newlines at its edges."""
        self._verbatim -= 1
        if not self._verbatim:
            text = self._line.getvalue().strip("\n").rstrip()
            if text:
                self._lines.append(text + "\n")
            self._line, self._last, self._space = io.StringIO(), "", False


MOST_ELEMENTS = 5_000_000
"""Of one XML file: a Word document of 1,500 pages has a few hundred thousand."""
DEEPEST = 1_000
"""Elements inside each other; real documents have a few dozen."""
LONGEST_TAG = 1 << 20
"""Bytes of one tag, comment or instruction: its attributes are all in memory at once."""

Start = Callable[[str, dict[str, str]], None]
End = Callable[[str], None]


def parse_events(
    name: str,
    blocks: Iterable[bytes],
    start: Start,
    end: End | None = None,
    text: Callable[[str], None] | None = None,
    *,
    most: int | None = None,
) -> Iterator[None]:
    """Parse XML that comes in pieces and call a function for each event; yields after each piece.

    Names of elements are `namespace name`, with a space between. Declarations of the file's own are refused, not
    expanded. `name` is the name of the file in errors, `most` how many elements it may have.
    """
    limit = MOST_ELEMENTS if most is None else most
    count = depth = fed = 0

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count, depth
        count, depth = count + 1, depth + 1
        if count > limit or depth > DEEPEST:
            reason = f"more than {limit:,} elements" if count > limit else f"elements nested over {DEEPEST:,} deep"
            raise SourceError(f"{name} has {reason}, which no document needs; try to save it again, or pass the text")
        start(tag, attributes)

    def finish(tag: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end(tag)

    def refuse(*declared: object) -> None:
        raise SourceError(
            f"{name} declares elements or entities of its own, which no document needs; fetch it elsewhere"
        )

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = begin, finish
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = parser.AttlistDeclHandler = parser.ElementDeclHandler = refuse
    try:
        for block in blocks:
            parser.Parse(block, False)
            fed += len(block)
            if 0 <= parser.CurrentByteIndex < fed - LONGEST_TAG:
                raise SourceError(
                    f"{name} has a tag of more than {LONGEST_TAG >> 20} MiB, which no document needs; try to save it "
                    "again, or pass the text"
                )
            yield
        parser.Parse(b"", True)
        yield
    except expat.ExpatError as broken:
        raise SourceError(f"{name} is not XML ({broken}); the file is damaged: fetch or save it again") from None
