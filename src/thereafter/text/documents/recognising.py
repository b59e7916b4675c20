"""Which format a file has: by its first bytes if they are conclusive, else by its ending."""

from __future__ import annotations

import re
from pathlib import Path

from thereafter.data.files import open_content
from thereafter.errors import SourceError
from thereafter.text.documents.packed import ZIP_MAGIC, open_archive

_HEAD = 1024
ENDINGS = {
    ".html": "HTML",
    ".htm": "HTML",
    ".xhtml": "HTML",
    ".md": "Markdown",
    ".markdown": "Markdown",
    ".srt": "subtitles",
    ".vtt": "subtitles",
    ".epub": "EPUB",
    ".docx": "Word",
}
PLAIN = (".txt", ".text", ".tokens", ".rst", ".tex", ".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".log")
_HTML_HEAD = re.compile(
    rb"\s*(?:<\?xml[^>]*\?>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html)[\s>]", re.I | re.S
)
# what is refused: first bytes, what it is, the way out
_REFUSED = (
    (b"%PDF-", "a PDF file, which has places of letters instead of running text", "pdftotext {name} {text}"),
    (b"{\\rtf", "a file in Rich Text Format", "soffice --headless --convert-to docx {name}"),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "a file of an old office program",
        "soffice --headless --convert-to docx {name}",
    ),
    (b"BOOKMOBI", "a Kindle book", "ebook-convert {name} {stem}.epub"),
)


def recognise_document(path: Path, head: bytes | None = None) -> str | None:
    """The name of the format; None for plain text. SourceError for what cannot be read, with the way out."""
    ending = ending_of(path)
    if ending in PLAIN and not path.is_file():
        return None
    if not path.is_file():
        return ENDINGS.get(ending)
    if head is None:
        with open_content(path, _HEAD) as content:
            head = content.head
    _refuse(path, head)
    if head.startswith(ZIP_MAGIC):
        return _archive_format(path)
    named = ENDINGS.get(ending)
    if named in ("EPUB", "Word"):
        what = "is empty" if not head else f"does not begin like a zip file (its first bytes are {head[:4]!r})"
        raise SourceError(f"{path} {what}, expected {named} ({ending}); fetch or save it again")
    if named is None and ending not in PLAIN:
        if _HTML_HEAD.match(head.removeprefix(b"\xef\xbb\xbf")):
            return "HTML"
        if head.removeprefix(b"\xef\xbb\xbf").startswith(b"WEBVTT"):
            return "subtitles"
    return named


def ending_of(path: Path) -> str:
    """The ending of a file in small letters, before `.gz`.

    >>> ending_of(Path("PAGE.HTML.gz"))
    '.html'
    """
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _refuse(path: Path, head: bytes) -> None:
    for magic, what, way in _REFUSED:
        at = 60 if magic == b"BOOKMOBI" else 0
        if head[at : at + len(magic)] == magic:
            text = f"{path.stem}.txt" if path.suffix.lower() != ".txt" else f"{path.stem}-text.txt"
            command = way.format(name=path.name, stem=path.stem, text=text)
            raise SourceError(
                f"{path} is {what}; expected text, HTML, Markdown, EPUB, .docx or subtitles; try: {command}"
            )


def _archive_format(path: Path) -> str:
    with open_archive(path) as archive:
        names = archive.names
        kind = archive.read("mimetype", _HEAD).strip() if "mimetype" in names else b""
    if "META-INF/container.xml" in names or kind == b"application/epub+zip":
        return "EPUB"
    if "word/document.xml" in names:
        return "Word"
    if kind.startswith(b"application/vnd.oasis.opendocument"):
        raise SourceError(
            f"{path} is an OpenDocument file; expected text, HTML, Markdown, EPUB, .docx or subtitles; "
            f"try: soffice --headless --convert-to docx {path.name}"
        )
    raise SourceError(
        f"{path} is a zip file and neither EPUB nor .docx; try unpacking it: unzip {path.name} -d {path.stem}, "
        f"and then the folder {path.stem}"
    )
