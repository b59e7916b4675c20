"""What a `source` is: a path, several paths, a folder, a glob, `-`, or the name of a corpus. Never the text itself.

Raw text is passed as `text=` and becomes `Source.of_text`. A source can be read any number of times, in pieces.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from thereafter.errors import OptionError, SourceError, UnknownNameError
from thereafter.progress import task
from thereafter.text.chunks import WORD_TAIL, last_cut, require_unicode
from thereafter.text.finding import Spool, found_files, nothing_found, spooled_stdin
from thereafter.text.reading import BLOCK, checked_encoding, read_chunks

_NOT_LETTERS = re.compile(r"(?:(?!\n)[\W\d_])+")
DEFAULT_TOKENS = "prose"


@dataclass(frozen=True)
class Source:
    """One text: files read one after the other, or a text held in memory. It can be read again and again.

    `lower` lower-cases; `letters_only` turns every run of characters that are not letters into one space and keeps
    newlines. Where files are joined, one that does not end its last line is given the newline before the next.
    """

    name: str
    files: tuple[Path, ...] = ()
    held: str | None = None
    encoding: str | None = None
    lower: bool = False
    letters_only: bool = False
    spools: tuple[Spool, ...] = field(default=(), repr=False, compare=False)  # kept while the source is

    @classmethod
    def of_text(cls, text: str, *, name: str = "text", lower: bool = False, letters_only: bool = False) -> Source:
        """A text given as it is; line ends are normalised as they would be when read from a file.

        >>> Source.of_text("so\\r\\nlong").text()
        'so\\nlong'
        """
        if not isinstance(text, str):
            raise OptionError(f"text is {type(text).__name__}, expected str; try text=data.decode('utf-8')")
        normal = require_unicode(text).removeprefix("\ufeff")
        if "\r" in normal:
            normal = normal.replace("\r\n", "\n").replace("\r", "\n")
        return cls(name, held=normal, lower=lower, letters_only=letters_only)

    @property
    def size(self) -> int:
        """Bytes on disk, or of the text: what a progress bar counts up to."""
        if self.held is not None:
            return len(self.held) if self.held.isascii() else len(self.held.encode("utf-8"))
        try:
            return sum(path.stat().st_size for path in self.files)
        except OSError as failed:
            raise SourceError(f"{failed.filename} could not be read: {failed.strerror}") from None

    def chunks(self, progress_label: str | None = None) -> Iterator[str]:
        """The text from its beginning, in pieces of about a million characters that may end anywhere."""
        if progress_label is None:
            yield from self._transformed(lambda amount: None)
        else:
            with task(progress_label, total=self.size, unit="B") as advance:
                yield from self._transformed(advance)

    def text(self) -> str:
        """The whole text at once."""
        return "".join(self.chunks())

    def fingerprint(self) -> str:
        """sha256 of the content and of how it is read; the same for equal files whatever their names."""
        digest = hashlib.sha256(f"{self.encoding} {self.lower} {self.letters_only}\n".encode())
        if self.held is not None:
            digest.update(b"text\n" + self.held.encode("utf-8"))
        for path in self.files:
            try:
                with open(path, "rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
            except OSError as failed:
                raise SourceError(f"{path} could not be read: {failed.strerror}") from None
        return digest.hexdigest()

    def text_hash(self) -> str:
        """sha256 of the text as it is read: the same for the same text, whatever holds it.

        The last newline is left out, since a last line without one is a line all the same.

        >>> Source.of_text("so long").text_hash() == Source.of_text("so long\\r\\n").text_hash()
        True
        """
        digest, ended = hashlib.sha256(), False
        for chunk in self.chunks():
            digest.update(b"\n" * ended + chunk.removesuffix("\n").encode("utf-8"))
            ended = chunk.endswith("\n")
        return digest.hexdigest()

    def _transformed(self, advance: Callable[[float], None]) -> Iterator[str]:
        chunks = self._raw(advance)
        if self.lower:
            chunks = _lowered(chunks)
        return _letters(chunks) if self.letters_only else chunks

    def _raw(self, advance: Callable[[float], None]) -> Iterator[str]:
        if self.held is not None:
            for start in range(0, len(self.held), BLOCK):
                chunk = self.held[start : start + BLOCK]
                yield chunk
                advance(len(chunk) if chunk.isascii() else len(chunk.encode("utf-8")))
        open_line = False
        for path in self.files:
            last = ""
            for chunk in read_chunks(path, encoding=self.encoding, advance=advance):
                if open_line and not last:
                    yield "\n"
                yield chunk
                last = chunk[-1]
            open_line = last != "\n" if last else open_line


@dataclass(frozen=True)
class Texts:
    """What a source leads to: one text as `{"text": ...}`, or a corpus with its train, valid and test parts."""

    name: str
    parts: dict[str, Source]
    tokens: str = DEFAULT_TOKENS
    detail: str = ""
    kind: str = "text"
    """Running text, or what a corpus' lines hold instead: "pairs", "tagged", "labelled"."""
    independent_lines: bool = False
    """Whether every line is a text of its own, so that nothing before it says anything about it."""

    @classmethod
    def of_text(cls, text: str, *, lower: bool = False, letters_only: bool = False) -> Texts:
        """The single text given as `text=`."""
        source = Source.of_text(text, lower=lower, letters_only=letters_only)
        return cls("text", {"text": source}, detail=f"{len(source.held or ''):,} characters given as text")


AnySource = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Source | Texts
"""What a user may name a text by."""


def resolve(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Source | Texts,
    *,
    encoding: str | None = None,
    lower: bool = False,
    letters_only: bool = False,
    part: str | None = None,
) -> Texts:
    """Find what a source means, without reading it (standard input excepted, which can be read only once).

    A corpus name wins over a path of the same name; `./ptb` is always the path. `ptb:valid`, or `part="valid"`,
    is one part of a corpus, as a single text.
    """
    if isinstance(source, Texts):
        return _narrowed(source, part)
    if isinstance(source, Source):
        return _narrowed(Texts(source.name, {"text": source}), part)
    options = Source("", encoding=checked_encoding(encoding), lower=lower, letters_only=letters_only)
    if isinstance(source, str):
        if source == "-":
            spool = spooled_stdin()
            given = replace(options, name="standard input", files=(spool.path,), spools=(spool,))
            return _narrowed(Texts(given.name, {"text": given}, detail="standard input"), part)
        named = _corpus(source, options, part)
        if named is not None:
            return named
    elif not isinstance(source, os.PathLike | Sequence) or isinstance(source, bytes):
        raise SourceError(
            f"a source is a path, several paths, a folder, a glob, - or the name of a corpus, got "
            f"{type(source).__name__}; raw text is passed as text="
        )
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    return _narrowed(_from_paths(paths, options), part)


def _from_paths(paths: Sequence[str | os.PathLike[str]], options: Source) -> Texts:
    if not paths:
        raise SourceError("the list of paths is empty, expected at least one; raw text is passed as text=")
    files: list[Path] = []
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise SourceError(f"a list of paths holds {type(path).__name__}, expected str or Path")
        if isinstance(path, str) and path == "-":
            raise SourceError("- (standard input) cannot be one of several paths; pass it alone, or write it to a file")
        here = found_files(path)
        if not here:
            raise nothing_found(os.fspath(path), _corpora_names())
        files += here
    name = os.fspath(paths[0]) if len(paths) == 1 else f"{len(paths)} paths"
    # A pipe, as in <(zcat ...), can be read once, and texts are read twice.
    spools = {file: Spool.of_file(file) for file in files if not file.is_file()}
    files = [spools[file].path if file in spools else file for file in files]
    joined = replace(options, name=name, files=tuple(files), spools=tuple(spools.values()))
    count = f"{len(files):,} files" if len(files) > 1 else "1 file"
    return Texts(name, {"text": joined}, detail=f"{count}, {joined.size:,} bytes")


def _corpora_names() -> list[str]:
    from thereafter.text import corpora  # here, so that reading a plain file does not load the catalogue

    return list(corpora.names())


def _corpus(source: str, options: Source, part: str | None) -> Texts | None:
    name, _, suffix = source.partition(":")
    if name not in _corpora_names():
        return None
    from thereafter.text import corpora

    if suffix and part is not None and suffix != part:
        raise OptionError(f"{source!r} and part={part!r} name two different parts; give one of them")
    corpus = corpora.locate(name)
    parts = {
        key: replace(options, name=name if key == "text" else f"{name}:{key}", files=(path,))
        for key, path in corpus.parts.items()
    }
    texts = Texts(name, parts, corpus.tokens, corpus.detail, corpus.kind, corpus.independent_lines)
    return _narrowed(texts, suffix or part)


def _narrowed(texts: Texts, part: str | None) -> Texts:
    """One part as a single text; a text that has no parts is refused, not handed out as its own part."""
    if part is None:
        return texts
    if part not in texts.parts:
        raise UnknownNameError(f"part of {texts.name}", part, texts.parts)
    one = texts.parts[part]
    return replace(texts, name=one.name, parts={"text": one}, kind="text")


def _letters(chunks: Iterable[str]) -> Iterator[str]:
    spaced = False
    for chunk in chunks:
        text = _NOT_LETTERS.sub(" ", chunk)
        if spaced and text.startswith(" "):
            text = text[1:]  # the run began in the chunk before
        if text:
            spaced = text.endswith(" ")
            yield text


def _lowered(chunks: Iterable[str]) -> Iterator[str]:
    """Lower case, cut between words: a sigma is written differently where its word ends."""
    rest = ""
    for chunk in chunks:
        text = rest + chunk
        cut = last_cut(text, WORD_TAIL) if len(text) < 4 * BLOCK else len(text)
        rest = text[cut:]
        if cut:
            yield text[:cut].lower()
    if rest:
        yield rest.lower()
