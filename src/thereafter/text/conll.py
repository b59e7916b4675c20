"""Sentences with a tag for every word, read from CoNLL-U or columns; and running text as sentences without tags.

CoNLL-U (Universal Dependencies, https://universaldependencies.org/format.html): ten columns between tabs,

    ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC

a blank line after each sentence, comments after `#`. Lines of multiword tokens (`3-4`) and of empty nodes (`8.1`) are
no words and are skipped. Columns (CoNLL-2000, CoNLL-2003 and similar formats): any number of columns separated by tabs
or by spaces, the same number on every line; lines that begin with `-DOCSTART-` are skipped.
A `#` is a word there. Several blank lines are one. Words are in the first column, tags in the last; of CoNLL-U the
words are forms and the tags UPOS.

Raw text is cut into sentences (`sentences.py`) and these into words and marks (`pretokenised_words.py`): `wretch,` is
two words. Pre-tokenised text has one sentence per line, with spaces between its words. A sentence whose marks already
stand alone, such as `so long , he said .`, is never cut further.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from sys import intern

from thereafter.errors import EmptyCorpusError, FormatError
from thereafter.text.pretokenised_words import CLITICS, ENGLISH, Habits, Splitter, is_abbreviation
from thereafter.text.reading import lines_of, place, read_lines
from thereafter.text.sentences import find_sentences
from thereafter.text.tables import columns

Path = str | os.PathLike[str]

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_ID = re.compile(r"([1-9][0-9]*)|[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")
_DOCUMENT = "-DOCSTART-"


@dataclass(frozen=True)
class TaggedSentence:
    """Words and a tag for each; `line` is the line of the first word in its file.

    >>> TaggedSentence(("so", "long"), ("ADV", "ADV")).words
    ('so', 'long')
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int = field(default=0, compare=False)

    def __len__(self) -> int:
        return len(self.words)


def read_tagged(path: Path) -> list[TaggedSentence]:
    """The sentences of a file in either format: CoNLL-U if its name or its first line looks like it."""
    return read_conllu(path) if _is_conllu(path) else read_columns(path)


def read_conllu(path: Path) -> list[TaggedSentence]:
    """The sentences of a CoNLL-U file with their universal parts of speech."""
    return _sentences(path, _conllu_rows(path))


def read_columns(path: Path) -> list[TaggedSentence]:
    """The sentences of a file with a word on each line, perhaps more columns, and a tag in the last."""
    return _sentences(path, _column_rows(path))


def require_known_tags(sentences: Iterable[TaggedSentence], tag_set: Collection[str], path: Path) -> None:
    """FormatError for the first sentence with a tag that is not in the `tag_set` of the training data."""
    for sentence in sentences:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            if tag not in tag_set:
                raise FormatError(
                    f"the sentence at {place(path, sentence.line)} has the tag {tag!r} at the word {word!r}, which the "
                    f"training data never has; expected one of {_some(tag_set)}; is it another tag set or column?"
                )


@dataclass(frozen=True)
class _TaggedLine:
    """One line: a word with its tag or, without a word, the end of a sentence."""

    line: int
    word: str = ""
    tag: str = ""


def _sentences(path: Path, rows: Iterator[_TaggedLine]) -> list[TaggedSentence]:
    sentences: list[TaggedSentence] = []
    open_rows: list[_TaggedLine] = []
    for row in rows:
        if row.word:
            open_rows.append(row)
        elif open_rows:
            words, tags = tuple(row.word for row in open_rows), tuple(row.tag for row in open_rows)
            sentences.append(TaggedSentence(words, tags, open_rows[0].line))
            open_rows = []
    if not sentences:
        raise EmptyCorpusError(f"{os.fspath(path)} holds no words; expected lines with a word and its tag")
    return sentences


def _conllu_rows(path: Path) -> Iterator[_TaggedLine]:
    words = begun = 0  # `begun`: the first line of this sentence, comments included
    tagged = False  # whether any tag has been seen
    for number, line in enumerate(chain(read_lines(path), [""]), start=1):
        where = place(path, number)
        if not line.strip():
            if begun and not words:
                raise FormatError(
                    f"the sentence at {place(path, begun)} has no words; expected at least one; remove it"
                )
            yield _TaggedLine(number)
            words = begun = 0
            continue
        begun = begun or number
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            hint = "; they are separated by tabs, not by spaces" if len(cells) == 1 else ""
            raise FormatError(f"{where} has {columns(len(cells))}, expected the {len(COLUMNS)} of CoNLL-U{hint}")
        if (match := _ID.fullmatch(cells[0])) is None:
            raise FormatError(f"{where} begins with {cells[0]!r}, expected the number of a word (1, 1-2 or 1.1)")
        if match[1] is None:  # the line of a multiword token or an empty node
            continue
        word = int(match[1])
        words += 1
        if word != words:
            missing = "; is the blank line before it missing?" if word == 1 else ""
            raise FormatError(f"{where} is word {word} of its sentence, expected word {words}{missing}")
        if not cells[1]:
            raise FormatError(f"{where} has an empty word (column 2), expected a form")
        tag = cells[COLUMNS.index("upos")]
        if tag in ("", "_"):
            hint = (
                ""
                if tagged
                else "; there may be none at all: try another treebank, or a file with a word and its tag on each line"
            )
            raise FormatError(f"{where} has no tag in the column upos ({tag!r}), expected one for every word{hint}")
        tagged = True
        yield _TaggedLine(number, cells[1], intern(tag))


def _column_rows(path: Path) -> Iterator[_TaggedLine]:
    width = first = 0
    tabs = False
    for number, line in enumerate(chain(read_lines(path), [""]), start=1):
        if not line.strip() or line.startswith(_DOCUMENT):
            yield _TaggedLine(number)
            continue
        where = place(path, number)
        tabs = tabs if width else "\t" in line  # the first line decides for all: with tabs a word may contain spaces
        cells = line.split("\t") if tabs else [cell for cell in line.split(" ") if cell]
        if not width:
            width, first = len(cells), number
        if width < 2:
            raise FormatError(f"{where} has 1 column, so there are no tags; expected a word and its tag on every line")
        if len(cells) != width:
            raise FormatError(
                f"{where} has {columns(len(cells))} and line {first} has {width}; expected the same on every line, "
                f"separated by {'tabs' if tabs else 'spaces'} as on line {first}"
            )
        if not cells[0].strip() or not cells[-1].strip():
            gap = "tag" if cells[0].strip() else "word"
            raise FormatError(f"{where} has an empty {gap} in column {1 if gap == 'word' else width}; expected both")
        yield _TaggedLine(number, cells[0], intern(cells[-1]))


def _is_conllu(path: Path) -> bool:
    """Whether a file is CoNLL-U, by its name or its first line with words."""
    if os.fspath(path).removesuffix(".gz").endswith(".conllu"):
        return True
    written = (line for line in read_lines(path) if line.strip() and not line.startswith(("#", _DOCUMENT)))
    cells = next(written, "").split("\t")
    return len(cells) == len(COLUMNS) and _ID.fullmatch(cells[0]) is not None


def _some(names: Collection[str], most: int = 20) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:most]) + (f" and {len(ordered) - most} more" if len(ordered) > most else "")


_ALONE = frozenset(",.;:!?")
_OPENED = re.compile(r"[“‘\"(\[«]\w")
_CLOSED = re.compile(r".*\w(?:[,;:!?]|[.]?[”\")\]»])[”’\")\]»]*")


@dataclass(frozen=True)
class WrittenSentence(TaggedSentence):
    """A sentence without tags: `words` as they are read, `written` as they stood (where that is not the same).

    `joined[k]` says that the next word follows word k without a space.
    """

    written: tuple[str, ...] = field(default=(), compare=False)
    joined: tuple[bool, ...] = field(default=(), compare=False)

    @property
    def forms(self) -> tuple[str, ...]:
        """The words as they stood in the text."""
        return self.written or self.words

    @property
    def text(self) -> str:
        """The sentence as it stood, with one space where there was any."""
        return join_words(self.forms, self.joined)


def join_words(words: Sequence[str], joined: Sequence[bool]) -> str:
    """The words as text, with a space after each word unless the next is joined to it.

    >>> join_words(["So", "long", "."], [False, True, False])
    'So long.'
    """
    if not joined:
        return " ".join(words)
    return "".join(word if close else f"{word} " for word, close in zip(words, joined, strict=True)).rstrip(" ")


def split_text(
    chunks: Iterable[str], *, pretokenised: bool = False, habits: Habits = ENGLISH
) -> Iterator[WrittenSentence]:
    """The sentences of a text that comes in pieces, with their words.

    `pretokenised`: a line is a sentence, and spaces are between words. `habits`: how words are cut; only what keeps
    every character is used of it.

    >>> [one.words for one in split_text(["The wretch, he said, fled. So what?"])]
    [('The', 'wretch', ',', 'he', 'said', ',', 'fled', '.'), ('So', 'what', '?')]
    """
    if pretokenised:
        for line in lines_of(chunks):
            if words := tuple(line.split()):
                yield WrittenSentence(words, (), joined=(False,) * len(words))
        return
    splitter = Splitter(habits)
    for sentence in find_sentences(chunks):
        yield split_sentence(sentence.text, splitter)


def split_sentence(text: str, splitter: Splitter | None = None) -> WrittenSentence:
    """The words of one sentence; one whose marks stand alone already keeps its spaces."""
    splitter = splitter or Splitter(ENGLISH)
    runs = text.split()
    if is_set_off(runs):
        return WrittenSentence(tuple(runs), (), joined=(False,) * len(runs))
    words: list[str] = []
    joined: list[bool] = []
    splitter.end_line()
    for run, coming in zip(runs, [*runs[1:], ""], strict=False):
        parts = splitter.split(run, coming)
        if "".join(parts) != run:  # nothing is lost of a text
            parts = (run,)
        words += parts
        joined += [True] * (len(parts) - 1) + [False]
    return WrittenSentence(tuple(words), (), joined=tuple(joined))


def is_set_off(runs: Sequence[str]) -> bool:
    """Whether the runs between spaces are words already: some marks stand alone, and none stands at a word.

    >>> is_set_off("so long , he said .".split()), is_set_off("so long, he said.".split())
    (True, False)
    """
    if not any(run in _ALONE or run.lower() in CLITICS for run in runs):
        return False
    if any(_OPENED.match(run) or _CLOSED.fullmatch(run) for run in runs):
        return False
    last = runs[-1]
    return len(last) < 2 or last[-1] != "." or not last[-2].isalnum() or is_abbreviation(last)
