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

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"  # the same again, for old readers
_LEFT_OUT = frozenset((f"{_WORD}del", f"{_WORD}moveFrom", f"{_WORD}rt", f"{_WORD}sdtPr", f"{_WORD}pPr", _FALLBACK))
_SIGNS = {f"{_WORD}tab": "\t", f"{_WORD}br": "\n", f"{_WORD}cr": "\n", f"{_WORD}noBreakHyphen": "-"}


class _Element(Protocol):
    """An element of lxml; the tag of a comment is no string."""

    tag: object
    text: str | None

    def __iter__(self) -> Iterator[_Element]: ...


def read_word(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of the body in its order; headers, footers, comments and formatting are left out."""
    library = require("docx", "reading Word documents", install="python-docx")
    with open_archive(path) as archive:
        archive.require_bounds()  # python-docx reads all of it into memory
    with ExitStack() as closing:
        try:
            document = library.Document(open_seekable(path, closing))
        except (KeyError, ValueError, SyntaxError, zipfile.BadZipFile) as broken:  # lxml's errors are SyntaxErrors
            raise SourceError(f"{path} is not a Word document ({broken}); save it again as .docx") from None
        if advance is not None:
            advance(path.stat().st_size)
        yield from _lines(document.element.body)


def _lines(block: _Element) -> Iterator[str]:
    """The lines of all paragraphs and rows in a block, in their order."""
    for element in block:
        if element.tag == f"{_WORD}p":
            for line in _text(element).split("\n"):
                if line.strip():
                    yield line.strip() + "\n"
        elif element.tag == f"{_WORD}tr":
            cells = [" ".join(_text(cell).split()) for cell in _cells(element)]
            if any(cells):
                yield "\t".join(cells) + "\n"
        elif element.tag not in _LEFT_OUT:
            yield from _lines(element)


def _cells(row: _Element) -> Iterator[_Element]:
    """The cells of a row, those in content controls too; merged cells are one."""
    for element in row:
        if element.tag == f"{_WORD}tc":
            yield element
        elif element.tag not in _LEFT_OUT:
            yield from _cells(element)


def _text(block: _Element) -> str:
    """All text inside a paragraph or cell: insertions and content controls, but nothing that was deleted."""
    pieces: list[str] = []
    for element in block:
        if element.tag == f"{_WORD}t":
            pieces.append(element.text or "")
        elif element.tag in _SIGNS:
            pieces.append(_SIGNS[str(element.tag)])
        elif element.tag not in _LEFT_OUT:
            text = _text(element)
            pieces.append(f"\n{text}\n" if element.tag == f"{_WORD}p" else text)
    return "".join(pieces)
