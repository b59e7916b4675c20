"""Word documents, .docx, with python-docx: a paragraph a line, a row of a table a line."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from thereafter.errors import SourceError
from thereafter.packages import require
from thereafter.text.documents.archive import open_archive, open_seekable


class _Paragraph(Protocol):
    text: str


class _Cell(Protocol):
    text: str


class _Row(Protocol):
    cells: tuple[_Cell, ...]


class _Table(Protocol):
    rows: list[_Row]


def read_word(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of the body in its order; headers, footers, comments and formatting are left out."""
    library = require("docx", "reading Word documents", install="python-docx")
    tables = require("docx.table", "reading Word documents", install="python-docx")
    with open_archive(path) as archive:
        archive.require_bounds()  # python-docx reads all of it into memory
    with ExitStack() as closing:
        try:
            document = library.Document(open_seekable(path, closing))
        except (KeyError, ValueError, SyntaxError, zipfile.BadZipFile) as broken:  # lxml's errors are SyntaxErrors
            raise SourceError(f"{path} is not a Word document ({broken}); save it again as .docx") from None
        if advance is not None:
            advance(path.stat().st_size)
        for block in document.iter_inner_content():
            if isinstance(block, tables.Table):
                yield from _rows(block)
            else:
                yield from _lines(block)


def _lines(paragraph: _Paragraph) -> Iterator[str]:
    for line in paragraph.text.split("\n"):
        if line.strip():
            yield line.strip() + "\n"


def _rows(table: _Table) -> Iterator[str]:
    for row in table.rows:
        cells: list[str] = []
        before: _Cell | None = None
        for cell in row.cells:
            text = " ".join(cell.text.split())
            if cell is not before:  # a merged cell is listed once for each place it takes
                cells.append(text)
            before = cell
        if any(cells):
            yield "\t".join(cells) + "\n"
