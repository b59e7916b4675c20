"""Word documents, .docx: a paragraph a line, a row of a table a line. Of the XML only that of the body is read."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

from thereafter.errors import SourceError
from thereafter.text.documents.archive import open_archive
from thereafter.text.documents.hypertext import parse_events

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
        self._unit: tuple[str, int] | None = None  # the paragraph or row at hand, and its depth
        self._cell: int | None = None  # the depth of the cell at hand
        self._cells: list[str] = []
        self._written = io.StringIO()  # the text of the paragraph or cell at hand
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
