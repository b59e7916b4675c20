"""Sentences with a tag for every word: CoNLL-U, and columns with a word and a tag a line.

CoNLL-U (Universal Dependencies, https://universaldependencies.org/format.html): ten columns between tabs,

    ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC

a blank line after each sentence, comments behind `#`. Lines of multiword tokens (`3-4`) and of empty nodes (`8.1`) are
no words and are passed over. Columns (CoNLL-2000, CoNLL-2003 and whatever looks like them): as many columns as one
likes between tabs or between spaces, the same number on every line; lines that begin with `-DOCSTART-` are passed over.
A `#` is a word there. Several blank lines are one. Columns are counted from 1, or from the end with -1, -2, ...
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from sys import intern

from thereafter.errors import EmptyCorpusError, FormatError, OptionError, UnknownNameError
from thereafter.text.lines import place, read_lines
from thereafter.text.tables import columns

Path = str | os.PathLike[str]

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_MAY_BE_NOTHING = ("lemma", "feats", "deps", "misc")  # where "_" is an answer, not a gap
_ID = re.compile(r"([1-9][0-9]*)|[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")
_DOCUMENT = "-DOCSTART-"


@dataclass(frozen=True)
class TaggedSentence:
    """Words and their tags, as many of one as of the other; `line` is where the first word stands in its file.

    >>> TaggedSentence(("so", "long"), ("ADV", "ADV")).words
    ('so', 'long')
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int = field(default=0, compare=False)

    def __len__(self) -> int:
        return len(self.words)


def read_tagged(
    path: Path, *, column: str | int | None = None, word: int = 1, encoding: str | None = None
) -> list[TaggedSentence]:
    """The sentences of a file in either format. It is CoNLL-U where its name or its first words say so.

    `column` is the column of the tags, by number or, in CoNLL-U, by name; without it UPOS or the last one. `word` is
    the column of the words where the file is not CoNLL-U.
    """
    if isinstance(column, str) and column.removeprefix("-").isdecimal():
        column = int(column)  # as a command line gives it
    shape = _first_row(path, encoding)
    if shape.is_conllu:
        if isinstance(column, int):
            column = COLUMNS[_at(column, len(COLUMNS), place(path, shape.line))]
        return read_conllu(path, column or "upos", encoding=encoding)
    if isinstance(column, str):
        raise FormatError(
            f"{place(path, shape.line)} has {columns(shape.columns)} and is no CoNLL-U, so no column is called "
            f"{column!r}; expected the number of the column with the tags, for instance {shape.columns}"
        )
    return read_columns(path, word=word, tag=-1 if column is None else column, encoding=encoding)


def read_conllu(path: Path, column: str = "upos", *, encoding: str | None = None) -> list[TaggedSentence]:
    """The sentences of a CoNLL-U file with the tags of one column: upos, xpos, deprel, feats, ..."""
    known = COLUMNS[2:]
    if column.lower() not in known:
        raise UnknownNameError("column of tags in CoNLL-U", column, known)
    return _sentences(path, _conllu_rows(path, column.lower(), encoding))


def read_columns(path: Path, *, word: int = 1, tag: int = -1, encoding: str | None = None) -> list[TaggedSentence]:
    """The sentences of a file with a word and a tag on each line, and perhaps more: `word` and `tag` say in which
    columns, counted from 1; -1 is the last."""
    return _sentences(path, _column_rows(path, word, tag, encoding))


def require_known_tags(sentences: Iterable[TaggedSentence], known: Collection[str], path: Path) -> None:
    """FormatError for the first sentence with a tag that a tagger trained on the tags `known` can never give."""
    for sentence in sentences:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            if tag not in known:
                raise FormatError(
                    f"the sentence at {place(path, sentence.line)} has the tag {tag!r} at the word {word!r}, which the "
                    f"training data never has; expected one of {_some(known)}; is it another tag set or column?"
                )


@dataclass(frozen=True)
class _Row:
    """What one line says: a word with its tag, or (without a word) that a sentence ends here."""

    line: int
    word: str = ""
    tag: str = ""


def _sentences(path: Path, rows: Iterator[_Row]) -> list[TaggedSentence]:
    found: list[TaggedSentence] = []
    open_rows: list[_Row] = []
    for row in rows:
        if row.word:
            open_rows.append(row)
        elif open_rows:
            words, tags = tuple(one.word for one in open_rows), tuple(one.tag for one in open_rows)
            found.append(TaggedSentence(words, tags, open_rows[0].line))
            open_rows = []
    if not found:
        raise EmptyCorpusError(f"{os.fspath(path)} holds no words; expected lines with a word and its tag")
    return found


def _conllu_rows(path: Path, column: str, encoding: str | None) -> Iterator[_Row]:
    name, tag_at = os.fspath(path), COLUMNS.index(column)
    words, begun, number = 0, 0, 0  # `begun`: the first line of this sentence, comments included
    tagged = column in _MAY_BE_NOTHING  # whether a tag was ever seen
    for number, line in enumerate(read_lines(path, encoding=encoding), start=1):
        where = place(path, number)
        if not line.strip():
            if begun and not words:
                raise FormatError(
                    f"the sentence at {place(path, begun)} has no words; expected at least one; remove it"
                )
            yield _Row(number)
            words = begun = 0
            continue
        begun = begun or number
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            hint = "; they are separated by tabs, not by spaces" if len(cells) == 1 else ""
            raise FormatError(f"{where} has {columns(len(cells))}, expected the {len(COLUMNS)} of CoNLL-U{hint}")
        found = _ID.fullmatch(cells[0])
        if found is None:
            raise FormatError(f"{where} begins with {cells[0]!r}, expected the number of a word (1, 1-2 or 1.1)")
        if found[1] is None:
            continue
        words += 1
        if int(found[1]) != words:
            missing = "; is the blank line before it missing?" if found[1] == "1" else ""
            raise FormatError(f"{where} is word {found[1]} of its sentence, expected word {words}{missing}")
        if not cells[1]:
            raise FormatError(f"{where} has an empty word (column 2), expected a form")
        tag = cells[tag_at]
        if not tag or (tag == "_" and column not in _MAY_BE_NOTHING):
            if tagged:
                raise FormatError(f"{where} has no tag in the column {column} ({tag!r}); expected one for every word")
            raise FormatError(
                f"{where}: the first word has no tag in the column {column} ({tag!r}), so {name} has perhaps none at "
                "all; expected one for every word; try another column, such as upos or xpos"
            )
        tagged = True
        yield _Row(number, cells[1], intern(tag))
    if begun and not words:
        raise _without_words(path, begun)
    yield _Row(number + 1)


def _without_words(path: Path, begun: int) -> FormatError:
    return FormatError(f"the sentence at {place(path, begun)} has no words; expected at least one; remove it")


def _column_rows(path: Path, word: int, tag: int, encoding: str | None) -> Iterator[_Row]:
    width, first, number = 0, 0, 0
    word_at = tag_at = 0
    tabs = False
    for number, line in enumerate(read_lines(path, encoding=encoding), start=1):
        if not line.strip() or line.startswith(_DOCUMENT):
            yield _Row(number)
            continue
        where = place(path, number)
        if not width:
            # the first line decides for all: a word may hold spaces where tabs part the columns
            tabs, first = "\t" in line, number
        cells = line.split("\t") if tabs else [cell for cell in line.split(" ") if cell]
        if not width:
            width = len(cells)
            word_at, tag_at = _word_and_tag(word, tag, width, where)
        if len(cells) != width:
            raise FormatError(
                f"{where} has {columns(len(cells))} and line {first} has {width}; expected the same on every line, "
                f"separated by {'tabs' if tabs else 'spaces'} as on line {first}"
            )
        if not cells[word_at].strip() or not cells[tag_at].strip():
            gap, at = ("word", word_at) if not cells[word_at].strip() else ("tag", tag_at)
            raise FormatError(f"{where} has an empty {gap} in column {at + 1}; expected a word and a tag")
        yield _Row(number, cells[word_at], intern(cells[tag_at]))
    yield _Row(number + 1)


def _word_and_tag(word: int, tag: int, width: int, where: str) -> tuple[int, int]:
    """Where the words and the tags are, counted from 0."""
    if width < 2:
        raise FormatError(f"{where} has 1 column, so there are no tags; expected a word and its tag on every line")
    word_at, tag_at = _at(word, width, where), _at(tag, width, where)
    if word_at == tag_at:
        raise OptionError(f"words and tags are both in column {word_at + 1} of {width}; expected two different columns")
    return word_at, tag_at


def _at(column: int, width: int, where: str) -> int:
    if column == 0:
        raise OptionError("column 0 does not exist: columns are counted from 1, or from the end with -1, -2, ...")
    at = column - 1 if column > 0 else width + column
    if not 0 <= at < width:
        raise FormatError(f"{where} has {columns(width)}, so there is no column {column}; expected 1 to {width}")
    return at


@dataclass(frozen=True)
class _Shape:
    line: int
    columns: int
    is_conllu: bool


def _first_row(path: Path, encoding: str | None) -> _Shape:
    """How many columns the first line with words has, and which format that means."""
    named = os.fspath(path).removesuffix(".gz").endswith(".conllu")
    for number, line in enumerate(read_lines(path, encoding=encoding), start=1):
        if line.strip() and not line.startswith(("#", _DOCUMENT)):
            cells = line.split("\t") if "\t" in line else line.split()
            like = "\t" in line and len(cells) == len(COLUMNS) and _ID.fullmatch(cells[0]) is not None
            return _Shape(number, len(cells), named or like)
    return _Shape(1, 0, named)


def _some(names: Collection[str], most: int = 20) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:most]) + (f" and {len(ordered) - most} more" if len(ordered) > most else "")
