"""Files read as text: `Source` is one text, `Texts` one text or the parts of a corpus.

`data.corpora` finds the files of a source (a path, several paths, a folder, a glob, `-`, the name of a corpus). A
source is never the text itself: raw text is passed as `text=` and becomes `Source.of_text`. A source can be read any
number of times, in pieces.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Protocol, Self

from thereafter.base.progress import task
from thereafter.data.corpora import locate_source
from thereafter.data.files import AnySource, Files, FileState, Parts, file_state
from thereafter.data.finding import TABLE_ENDINGS, FileKind
from thereafter.errors import OptionError, SourceError
from thereafter.text.form import Form, Forming, form_of, form_of_column
from thereafter.text.labelled import describe_table, read_column, read_rows
from thereafter.text.reading import BLOCK, WORD_TAIL, check_encoding, last_cut, read_chunks, require_unicode

_NOT_LETTERS = re.compile(r"(?:(?!\n)[\W\d_])+")
_SMALL = 1 << 23  # bytes, and characters: more than any novel has
_MOST_HASHES = 1 << 8
_text_hashes: dict[object, str] = {}  # of texts that were read to their end, by `Source._state`
DEFAULT_TOKENS = "prose"
TEXT_FILES = FileKind("text files", ((".txt", ".text", ".tokens"), (".md", ".rst", ".tex")), bare=True)
"""The text files of a folder. Markup only if there is no plain text: a README is not mixed into a corpus."""
TAGGED_FILES = FileKind(
    "tagged sentences", ((".conllu", ".conll", ".iob", ".iob2", ".bio"), *TEXT_FILES.groups, (".tsv",)), bare=True
)
"""The tagged sentences of a folder; a treebank may have its plain text beside them."""
LABELLED_TEXTS = FileKind("texts with labels", (*TEXT_FILES.groups, TABLE_ENDINGS), bare=True)
PAIRED_FILES = FileKind("pairs of sentences", (*TEXT_FILES.groups, (".tsv", ".tab")), bare=True, paired=True)
READABLE_FILES = FileKind(
    "text files",
    (
        (".txt", ".text", ".tokens", ".epub", ".docx", ".srt", ".vtt"),
        (".md", ".rst", ".tex"),
        (".html", ".htm", ".xhtml"),
    ),
    columns=True,
    bare=True,
)
"""What of a folder can be read as one running text: `text/documents/` reads what is not plain."""


class Rewriting(Protocol):
    """Rewrites a text, for example in the style of a pre-tokenised corpus. Equal ones do the same."""

    def rewrite(self, chunks: Iterable[str]) -> Iterator[str]:
        """The text rewritten; chunks may end anywhere."""

    def identity(self) -> str:
        """Everything that determines its effect, for the fingerprint of a source."""


@dataclass(frozen=True)
class Source(Files):
    """One text: files read one after the other, or `content`, a text in memory. It can be read any number of times.

    `lower` lower-cases; `letters_only` turns every run of characters that are not letters into one space and keeps
    newlines. Between two files a newline is added if the first does not end with one. With `forming` each file is
    brought into its form first (`text/form.py`): no licence, no hard line breaks. `rewriting` comes last.
    """

    content: str | None = None
    encoding: str | None = None
    lower: bool = False
    letters_only: bool = False
    forming: Forming | None = field(default=None, kw_only=True)
    rewriting: Rewriting | None = field(default=None, kw_only=True)

    @classmethod
    def of_text(cls, text: str, *, name: str = "text", lower: bool = False, letters_only: bool = False) -> Source:
        """A text in memory; line ends are normalised as for files.

        >>> Source.of_text("so\\r\\nlong").text()
        'so\\nlong'
        """
        if not isinstance(text, str):
            raise OptionError(f"text is {type(text).__name__}, expected str; try text=data.decode('utf-8')")
        normal = require_unicode(text).removeprefix("\ufeff")
        if "\r" in normal:
            normal = normal.replace("\r\n", "\n").replace("\r", "\n")
        return cls(name, content=normal, lower=lower, letters_only=letters_only)

    @property
    def size(self) -> int:
        """Bytes on disk, or of the text: what a progress bar counts up to."""
        if self.content is not None:
            return len(self.content) if self.content.isascii() else len(self.content.encode("utf-8"))
        return super().size

    def chunks(self, progress_label: str | None = None) -> Iterator[str]:
        """The text from its beginning, in pieces of about a million characters that may end anywhere."""
        if progress_label is None:
            yield from self._hashed(self._normalised(lambda amount: None))
        else:
            with task(progress_label, total=self.size, unit="B") as advance:
                yield from self._hashed(self._normalised(advance))

    def text(self) -> str:
        """The whole text at once."""
        return "".join(self.chunks())

    def fingerprint(self) -> str:
        """sha256 of the content and of how it is read; the same for equal files whatever their names."""
        # defaults add nothing: runs of earlier versions find their text again
        changed = "".join(f" {form.identity()}" for form in self.forms if form.changes)
        changed += "" if self.column is None else f" column {self.column}"
        changed += "" if self.rewriting is None else f" {self.rewriting.identity()}"
        reading = f"{self.encoding} {self.lower} {self.letters_only}{changed}\n".encode()
        return self.content_hash(
            reading if self.content is None else reading + b"text\n" + self.content.encode("utf-8")
        )

    def text_hash(self) -> str:
        """sha256 of the normalised text: the same for the same text, whatever its files.

        The last newline is left out, since a last line without one counts as a line.

        >>> Source.of_text("so long").text_hash() == Source.of_text("so long\\r\\n").text_hash()
        True
        """
        remembered = _text_hashes.get(self._state())
        if remembered is None:
            hashing = _TextHash()
            for chunk in self.chunks():
                hashing.add(chunk)
            remembered = hashing.hexdigest()
        return remembered

    @property
    def forms(self) -> tuple[Form, ...]:
        """The form of each file; the beginning of each is read for it, once. None where the text stays as it is."""
        if self.forming is None:
            return ()
        if self.column is not None:
            return tuple(form_of_column(path, self.encoding, self.column) for path in self.files)
        return tuple(form_of(path, self.encoding, self.forming) for path in self.files)

    def table_rows(self) -> list[dict[str, object]]:
        """The rows of the table of which this is a column, with all columns, one per line; none for any other text."""
        column = self.column
        if column is None:
            return []
        return [row for path in self.files for row in read_rows(path, column, encoding=self.encoding)]

    def require_column(self) -> None:
        """Refuse a table without a column; its text would be read with commas and numbers."""
        tables = (path for path in self.files if path.name.lower().removesuffix(".gz").endswith(TABLE_ENDINGS))
        if self.column is None and (path := next(tables, None)) is not None:
            described, column = describe_table(path, self.encoding)
            raise SourceError(f"{path} is a table with {described}; expected the one that holds the text; try {column}")

    def _state(self) -> object:
        """Equal as long as the text is unchanged; None for a text in memory, or files that cannot be read."""
        if self.content is not None:
            return None
        try:
            files = tuple(file_state(path) for path in self.files)
        except OSError:
            return None
        rewriting = None if self.rewriting is None else self.rewriting.identity()
        return replace(self, name="", spools=(), rewriting=None), rewriting, files

    def _hashed(self, chunks: Iterable[str]) -> Iterator[str]:
        """The unchanged text; after a full read, `text_hash` has its hash without reading it again."""
        state = self._state()
        if state is None or state in _text_hashes:
            yield from chunks
            return
        hashing = _TextHash()
        for chunk in chunks:
            hashing.add(chunk)
            yield chunk
        if len(_text_hashes) >= _MOST_HASHES:
            _text_hashes.clear()
        _text_hashes[state] = hashing.hexdigest()

    def _normalised(self, advance: Callable[[float], None]) -> Iterator[str]:
        chunks = self._raw(advance)
        if self.lower:
            chunks = lower_case(chunks)
        if self.letters_only:
            chunks = keep_letters(chunks)
        return chunks if self.rewriting is None else self.rewriting.rewrite(chunks)

    def _raw(self, advance: Callable[[float], None]) -> Iterator[str]:
        if self.content is not None:
            for start in range(0, len(self.content), BLOCK):
                chunk = self.content[start : start + BLOCK]
                yield chunk
                advance(len(chunk) if chunk.isascii() else len(chunk.encode("utf-8")))
        open_line = False
        for path, form in zip(self.files, self.forms or repeat(None), strict=False):
            last = ""
            for chunk in self._file(path, form, advance):
                if open_line and not last:
                    yield "\n"
                yield chunk
                last = chunk[-1]
            open_line = last != "\n" if last else open_line

    def _file(self, path: Path, form: Form | None, advance: Callable[[float], None]) -> Iterator[str]:
        size = path.stat().st_size if path.is_file() else _SMALL + 1  # a pipe has no size, and is read once
        chunks = None
        if size <= _SMALL:
            chunks = _remembered_text(path, file_state(path), self.encoding, self.column, form)
        if chunks is None:
            yield from _open_text(path, self.encoding, self.column, form, advance)
            return
        for chunk in chunks:
            yield chunk
            advance(size / len(chunks))


def _open_text(
    path: Path, encoding: str | None, column: str | None, form: Form | None, advance: Callable[[float], None] | None
) -> Iterator[str]:
    """The text of a file, or of a column of a table, in its form."""
    if column is not None:
        return read_column(path, column, encoding=encoding, advance=advance)
    if form is None:
        return read_chunks(path, encoding=encoding, advance=advance)
    return form.read(path, encoding, advance)


@lru_cache(maxsize=4)
def _remembered_text(
    path: Path, state: FileState, encoding: str | None, column: str | None, form: Form | None
) -> tuple[str, ...] | None:
    """The text of a small file, read once as long as its state is the same; None for one that turns out to be large.

    A training run reads its text a dozen times: to split it, to recognise it, to count its words and to encode it.
    """
    pieces: list[str] = []
    length = 0
    for chunk in _open_text(path, encoding, column, form, None):
        pieces.append(chunk)
        length += len(chunk)
        if length > _SMALL:  # packed files become larger
            return None
    return tuple(pieces)


class _TextHash:
    """sha256 of a text that comes in pieces, without its last newline."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._ended = False

    def add(self, chunk: str) -> None:
        self._digest.update(b"\n" * self._ended + chunk.removesuffix("\n").encode("utf-8"))
        self._ended = chunk.endswith("\n")

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


@dataclass(frozen=True)
class Texts(Parts):
    """One text as `{"text": ...}`, or a corpus with its train, valid and test parts."""

    parts: dict[str, Source]
    tokens: str = DEFAULT_TOKENS
    independent_lines: bool = field(default=False, kw_only=True)
    """Whether every line is a text of its own, independent of the lines before it."""

    @classmethod
    def of_text(cls, text: str, *, lower: bool = False, letters_only: bool = False) -> Self:
        """The single text given as `text=`."""
        source = Source.of_text(text, lower=lower, letters_only=letters_only)
        return cls("text", {"text": source}, detail=f"{len(source.content or ''):,} characters given as text")

    @classmethod
    def of_files(
        cls, located: Parts, *, encoding: str | None, lower: bool, letters_only: bool, forming: Forming | None = None
    ) -> Self:
        """Files read as text with these options. Named corpora keep the form they have, so that no figure moves."""
        corpus = located.corpus
        own = forming if corpus is None else None
        parts = {
            key: Source(
                part.name,
                part.files,
                None,
                encoding,
                lower,
                letters_only,
                forming=own,
                column=part.column,
                spools=part.spools,
            )
            for key, part in located.parts.items()
        }
        return cls(
            located.name,
            parts,
            corpus.tokens if corpus else DEFAULT_TOKENS,
            independent_lines=corpus is not None and corpus.independent_lines,
            detail=located.detail,
            kind=located.kind,
            corpus=corpus,
            notes=located.notes,
            joined=located.joined,
        )


def resolve(
    source: AnySource,
    *,
    encoding: str | None = None,
    lower: bool = False,
    letters_only: bool = False,
    part: str | None = None,
    forming: Forming | None = None,
    parts: bool = True,
) -> Texts:
    """The files that `data.corpora.locate_source` finds, as text; a `Source` or `Texts` keeps its own options."""
    if isinstance(source, Source):
        source = Texts(source.name, {"text": source})
    if isinstance(source, Texts):
        return source.only(part)
    encoding = check_encoding(encoding)
    located = locate_source(source, READABLE_FILES, part, parts=parts)
    return Texts.of_files(located, encoding=encoding, lower=lower, letters_only=letters_only, forming=forming)


def keep_letters(chunks: Iterable[str]) -> Iterator[str]:
    """Every run of characters that are not letters as one space, newlines kept; chunks may end anywhere."""
    spaced = False
    for chunk in chunks:
        text = _NOT_LETTERS.sub(" ", chunk)
        if spaced and text.startswith(" "):
            text = text[1:]  # the run began in the chunk before
        if text:
            spaced = text.endswith(" ")
            yield text


def lower_case(chunks: Iterable[str]) -> Iterator[str]:
    """Lower case, word by word: the lower case of a sigma depends on whether its word ends."""
    rest = ""
    for chunk in chunks:
        text = rest + chunk
        cut = last_cut(text, WORD_TAIL) if len(text) < 4 * BLOCK else len(text)
        rest = text[cut:]
        if cut:
            yield text[:cut].lower()
    if rest:
        yield rest.lower()
