"""Documents read as plain text, by format.

recognising  which format a file has, by its ending and its first bytes; what is refused, and the way out
hypertext    HTML: one block per line, no scripts, styles or navigation, tables as lines, `pre` as it is; XML as events
markup       Markdown: no markup, one paragraph per line, code as it is; .srt and .vtt: the speech, one cue per line
packed       EPUB: the chapters in reading order, by the rules of hypertext; .docx: paragraphs and rows of tables

Plain text is no document: `text/reading.py` reads it.

>>> import pathlib, tempfile
>>> page = pathlib.Path(tempfile.mkdtemp(), "page.html")
>>> _ = page.write_text("<h1>Title</h1><p>So <b>long</b> &amp; thanks.</p>", encoding="utf-8")
>>> "".join(read_document(page))
'Title\\nSo long & thanks.\\n'
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from thereafter.text.documents.recognising import recognise_document
from thereafter.text.reading import check_encoding

__all__ = ["document_format", "read_document"]


_ROOM = "thereafter.text.documents"
_READERS = {
    "HTML": "hypertext:read_html",
    "Markdown": "markup:read_markdown",
    "subtitles": "markup:read_subtitles",
    "EPUB": "packed:read_epub",
    "Word": "packed:read_word",
}
ALWAYS = ("EPUB", "Word")
"""Formats that contain no text unless they are read as documents."""


def document_format(path: str | os.PathLike[str], *, markup: bool = False, head: bytes | None = None) -> str | None:
    """The format that a file is read by, None for plain text; with `markup` marked-up text is plain text too.

    `head`: the first bytes of its content, 1,024 or more; without them the file is opened.

    >>> document_format("novel.txt") is None
    True
    """
    name = recognise_document(Path(path), head)
    return None if markup and name not in ALWAYS else name


def read_document(
    path: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    advance: Callable[[float], None] | None = None,
    format: str | None = None,
) -> Iterator[str]:
    """The text of a document in reading order, in pieces that may end anywhere; lines end with a newline.

    `advance` is called with the number of bytes read from the disk. SourceError for a file that is not a document.
    """
    name = format or recognise_document(Path(path))
    if name is None:
        from thereafter.text.reading import read_chunks

        return read_chunks(path, encoding=encoding, advance=advance)
    module, _, function = _READERS[name].partition(":")
    reader: Callable[..., Iterator[str]] = vars(import_module(f"{_ROOM}.{module}"))[function]
    return reader(Path(path), encoding=check_encoding(encoding), advance=advance)


def declares_encoding(head: bytes, format: str | None) -> bool:
    """Whether a file says itself how its characters are written: packed formats do, and HTML that declares it."""
    if format != "HTML":
        return format in ALWAYS
    from thereafter.text.documents.hypertext import declared_encoding

    return declared_encoding(head) is not None


def describe_document(path: str | os.PathLike[str], format: str) -> str:
    """One sentence on how a document was read."""
    if format == "EPUB":
        from thereafter.text.documents.packed import chapters_of

        count = len(chapters_of(Path(path)))
        return f"EPUB: {count} chapter{'s' * (count != 1)}, markup left out"
    if format == "subtitles":
        return "subtitles: times, numbers and tags left out, one cue a line (--keep-markup keeps them)"
    if format == "Word":
        return "Word document: paragraphs and tables, formatting left out"
    return f"{format}: markup left out (--keep-markup keeps it)"
