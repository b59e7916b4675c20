"""EPUB: a zip file with chapters in XHTML and a list of them, the spine, which is the reading order."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

from thereafter.errors import SourceError
from thereafter.text.documents.archive import Archive, open_archive
from thereafter.text.documents.hypertext import declared_encoding, text_of_html
from thereafter.text.reading import read_chunks

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_CHAPTERS = ("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document")
Elements = list[tuple[str, dict[str, str]]]


def read_epub(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of the chapters in the order of the spine, a chapter at a time."""
    with open_archive(path, advance) as archive:
        for name in _chapters(path, archive):
            content = archive.read(name)
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
            for tag, attributes in _elements(path, _CONTAINER, archive.read(_CONTAINER))
            if tag == "rootfile" and "full-path" in attributes
        ),
        None,
    )
    if package is None:
        raise SourceError(f"{path} does not say where its list of chapters is ({_CONTAINER}); fetch it again")
    elements = _elements(path, package, archive.read(package))
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
    locked = _locked(path, archive) & set(names)
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


def _locked(path: Path, archive: Archive) -> set[str]:
    if _ENCRYPTION not in archive.names:
        return set()
    elements = _elements(path, _ENCRYPTION, archive.read(_ENCRYPTION))
    return {unquote(attributes.get("URI", "")) for tag, attributes in elements if tag == "CipherReference"}


def _elements(path: Path, name: str, content: bytes) -> Elements:
    """The elements of an XML file by their local names, in order; entities of its own are refused, not expanded."""
    elements: Elements = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        elements.append((tag.rpartition(" ")[2], {key.rpartition(" ")[2]: value for key, value in attributes.items()}))

    def refuse(*declared: object) -> None:
        raise SourceError(f"{name} in {path} declares entities of its own, which no book needs; fetch it elsewhere")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as broken:
        raise SourceError(f"{name} in {path} is not XML ({broken}); the file is damaged: fetch it again") from None
    return elements
