"""Predictions as a table: a row a word of tagged text, a row a text of any other task; tagged text as CoNLL-U too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Protocol, overload

from thereafter.base.storage import write_text
from thereafter.base.tabular import ENDINGS, Row, Tabular, check_ending, write_table
from thereafter.errors import OptionError
from thereafter.series.classifying.answers import SeriesPrediction
from thereafter.text.conll import join_words
from thereafter.vision.captioning.answers import CaptionPrediction
from thereafter.vision.clips.answers import ClipPrediction, FramesPrediction

CONLLU = ".conllu"


class PredictedRows(Protocol):
    """The answer to one example as rows of a table."""

    def rows(self) -> list[Row]:
        """The rows, of the same columns for every example."""

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class TaggedWords:
    """A sentence with a tag for every word and its probability; `joined`: the next word follows without a space.

    `known`: whether training met the word often enough to learn it; of any other word only its characters are read.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    known: tuple[bool, ...]
    joined: tuple[bool, ...]

    def rows(self) -> list[Row]:
        columns = zip(self.words, self.tags, self.probabilities, self.known, self.joined, strict=True)
        return [
            {"position": place, "word": word, "tag": tag, "probability": p, "known": known, "space_after": not close}
            for place, (word, tag, p, known, close) in enumerate(columns, start=1)
        ]

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


@dataclass(frozen=True)
class LabelledPrediction:
    """A text with its label and the probability of every label, in the order of the labels."""

    text: str
    label: str
    probabilities: dict[str, float]

    def rows(self) -> list[Row]:
        row: Row = {"text": self.text, "label": self.label, "probability": self.probabilities[self.label]}
        return [row | {f"p_{label}": p for label, p in self.probabilities.items()}]

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True)
class PlainPrediction:
    """A text with its answer."""

    text: str
    answer: str

    def rows(self) -> list[Row]:
        return [{"text": self.text, "answer": self.answer}]

    def __str__(self) -> str:
        return self.answer


@dataclass(frozen=True, repr=False)
class PredictionTable(Tabular):
    """The answers to all examples of a text, in order, each with its number; `numbered` is the column that has it.

    The numbers are those of the lines in the text, blank ones counted; of tagged text they count the sentences.
    `name` is that of the text; `choices` are the tags or labels there are; `note` says what the probabilities are.
    """

    items: tuple[PredictedRows, ...]
    numbers: tuple[int, ...]
    name: str = "text"
    numbered: str = "number"
    choices: tuple[str, ...] = ()
    note: str = ""

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        choices = f", {len(self.choices):,} labels to choose from" if self.choices else ""
        return f"<PredictionTable of {self.name}: {summarise(self.items)}{choices}; see to_rows()>"

    def to_rows(self) -> list[Row]:
        """A row a word of tagged text, a row a text of any other task."""
        numbered = zip(self.numbers, self.items, strict=True)
        return [{self.numbered: number} | row for number, one in numbered for row in one.rows()]

    @overload
    def to_conllu(self, path: None = None) -> str: ...
    @overload
    def to_conllu(self, path: str | PathLike[str]) -> Path: ...
    def to_conllu(self, path: str | PathLike[str] | None = None) -> str | Path:
        """Tagged text as CoNLL-U: written to a file, or returned as text where no path is given.

        Universal parts of speech are in the column UPOS, other tags in XPOS.
        """
        chunks = conllu_chunks(self._tagged(), column=column_of(self.choices), name=self.name)
        if path is None:
            return "".join(chunks)
        write_text(Path(path), "".join(chunks))
        return Path(path)

    def write(self, path: str | PathLike[str]) -> Path:
        """Write in the format that the name says: `.csv`, `.tsv` or `.json`, and `.conllu` for tagged text."""
        if Path(path).suffix.lower() == CONLLU:
            return self.to_conllu(path)
        check_ending(path)
        return write_table(self.to_rows(), path)

    def _tagged(self) -> list[TaggedWords]:
        tagged = [one for one in self.items if isinstance(one, TaggedWords)]
        if len(tagged) != len(self.items):
            raise OptionError(f"only tagged text can be CoNLL-U; expected a name that ends in {', '.join(ENDINGS)}")
        return tagged


def check_file(path: Path, kind: str | None = None) -> None:
    """Refuse a file name that predictions cannot be written to, before anything is predicted; `kind` is the task's."""
    ending = path.suffix.lower()
    if ending not in (*ENDINGS, CONLLU):
        raise OptionError(
            f"{path.name!r} ends in {path.suffix!r}; expected {', '.join(ENDINGS)}, or {CONLLU} for tagged text; "
            f"try {path.stem}.csv"
        )
    if ending == CONLLU and kind not in (None, "tagged"):
        raise OptionError(f"{path.name!r} is CoNLL-U, which holds tags, and the run tags no words; try {path.stem}.csv")


def summarise(items: Sequence[PredictedRows]) -> str:
    """How much was predicted, in words."""
    words = sum(len(one.words) for one in items if isinstance(one, TaggedWords))
    if words:
        return f"{words:,} words in {len(items):,} {'sentence' if len(items) == 1 else 'sentences'}"
    if items and all(isinstance(one, SeriesPrediction) for one in items):
        return f"{len(items):,} series"
    if items and all(isinstance(one, CaptionPrediction) for one in items):
        return f"{len(items):,} {'picture' if len(items) == 1 else 'pictures'}"
    if items and all(isinstance(one, ClipPrediction | FramesPrediction) for one in items):
        return f"{len(items):,} {'clip' if len(items) == 1 else 'clips'}"
    return f"{len(items):,} {'text' if len(items) == 1 else 'texts'}"


# Tagged sentences as CoNLL-U: ten columns, with the text of each sentence and where no space follows a word.
#
# Tags that are all universal parts of speech stand in the column UPOS, any others in XPOS, as the format asks for
# (https://universaldependencies.org/format.html). What was not predicted is `_`.


UNIVERSAL = frozenset(
    {
        "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
        "SYM", "VERB", "X",
    }
)  # fmt: skip


class TaggedWritten(Protocol):
    """A sentence with tags, and with where its spaces were."""

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def probabilities(self) -> Sequence[float]: ...
    @property
    def joined(self) -> Sequence[bool]: ...


def column_of(tags: Collection[str]) -> str:
    """The column for these tags: "upos" if all are universal parts of speech, else "xpos"."""
    return "upos" if UNIVERSAL.issuperset(tags) else "xpos"


def conllu_chunks(sentences: Iterable[TaggedWritten], *, column: str, name: str = "") -> Iterator[str]:
    """The file sentence by sentence; `name` is that of the document."""
    for number, one in enumerate(sentences, start=1):
        lines = [f"# newdoc id = {name}"] if name and number == 1 else []
        lines += [f"# sent_id = {number}", f"# text = {join_words(one.words, one.joined)}"]
        cells = zip(one.words, one.tags, one.probabilities, one.joined, strict=True)
        for place, (word, tag, p, close) in enumerate(cells, start=1):
            upos, xpos = (tag, "_") if column == "upos" else ("_", tag)
            misc = f"Prob={p:.4f}" + ("|SpaceAfter=No" if close else "")
            lines.append(f"{place}\t{word}\t_\t{upos}\t{xpos}\t_\t_\t_\t_\t{misc}")
        yield "\n".join(lines) + "\n\n"
