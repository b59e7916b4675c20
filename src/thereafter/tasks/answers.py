"""Answers of a task as their users get them: as rows of a table, explained, or as the arrays of a trace.

A table has a row a word of tagged text, a row a text of any other task; tagged text can be CoNLL-U too. An explained
answer says how likely each choice was and which words mattered, as text and as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.storage import write_text
from thereafter.base.tabular import ENDINGS, Row, Tabular, check_ending, write_table
from thereafter.errors import OptionError
from thereafter.text.conll import join_words

CONLLU = ".conllu"
TOGETHER = "together"
"""The name of the figure of all columns of labels at once."""


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
class NamedPrediction:
    """The answer to an example that has a name, or is a text: `columns` of its rows, and the line that is printed.

    `unit` is what an example is, such as "picture": the column that has its name.
    """

    unit: str
    name: str
    columns: Sequence[Row]
    line: str

    def rows(self) -> list[Row]:
        return [{self.unit: self.name} | row for row in self.columns]

    def __str__(self) -> str:
        return self.line


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
        tagged = [one for one in self.items if isinstance(one, TaggedWords)]
        if len(tagged) != len(self.items):
            raise OptionError(f"only tagged text can be CoNLL-U; expected a name that ends in {', '.join(ENDINGS)}")
        column = "upos" if UNIVERSAL.issuperset(self.choices) else "xpos"
        chunks = conllu_chunks(tagged, column=column, name=self.name)
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
    units = {one.unit for one in items if isinstance(one, NamedPrediction)}
    unit = units.pop() if len(units) == 1 else "text"
    return f"{len(items):,} {unit if len(items) == 1 or unit == 'series' else f'{unit}s'}"


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


def conllu_chunks(sentences: Iterable[TaggedWords], *, column: str, name: str = "") -> Iterator[str]:
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


_BAR = 20  # characters of the longest bar


@dataclass(frozen=True, eq=False)
class LabelProbabilities:
    """A label, and the probability of all labels, the likeliest first."""

    label: str
    probabilities: dict[str, float]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        return {"label": self.label, "probabilities": self.probabilities}

    def __str__(self) -> str:
        return ", ".join(f"{label} {percent(p)}" for label, p in self.probabilities.items())


@dataclass(frozen=True)
class LabelExplained(LabelProbabilities):
    """A label, the probability of all labels (the likeliest first), and how much each word supports the label.

    `evidence` is the gradient of the label's score in a word's vector, times that vector: above 0 the word supports
    the label, below 0 it speaks against it. `weights`: the share of each word in the pooled vector; they sum to 1.
    """

    words: tuple[str, ...]
    evidence: tuple[float, ...]
    weights: tuple[float, ...]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        listed = zip(self.words, self.evidence, self.weights, strict=True)
        words = [{"word": word, "evidence": evidence, "weight": weight} for word, evidence, weight in listed]
        return super().as_dict() | {"words": words}

    def __str__(self) -> str:
        most = max(map(abs, self.evidence), default=0.0)
        width = max(map(len, self.words), default=0)
        lines = [super().__str__()]
        for word, evidence in zip(self.words, self.evidence, strict=True):
            lines.append(f"  {word:<{width}} {evidence:+8.3f} {bar_of(evidence, most)}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True)
class TagsExplained:
    """The tag of each word, with the probabilities of its likeliest tags (of a CRF its marginals).

    `known`: whether training met the word often enough to learn it; of any other word only its characters are read.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    likeliest: tuple[tuple[tuple[str, float], ...], ...]
    known: tuple[bool, ...]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        listed = zip(self.words, self.tags, self.likeliest, self.known, strict=True)
        return {
            "words": [
                {"word": word, "tag": tag, "likeliest": [[name, p] for name, p in best], "known": known}
                for word, tag, best, known in listed
            ]
        }

    def __str__(self) -> str:
        width, tag_width = max(map(len, self.words)), max(map(len, self.tags))
        return "\n".join(
            f"  {word:<{width}} {tag:<{tag_width}}  {', '.join(f'{name} {percent(p)}' for name, p in best)}"
            + ("" if known else "  (unknown word)")
            for word, tag, best, known in zip(self.words, self.tags, self.likeliest, self.known, strict=True)
        )


def bar_of(evidence: float, most: float) -> str:
    """Evidence as a bar of + or -, beside the largest there is."""
    return ("+" if evidence > 0 else "-") * (round(_BAR * abs(evidence) / most) if most else 0)


def percent(p: float) -> str:
    """A share to read: 12.5 %."""
    return f"{p:.1%}".replace("%", " %")


Fields = dict[str, tuple[tuple[str, ...], NDArray[np.generic]]]
"""Arrays by name, each with the names of its axes."""


class Explained(Protocol):
    """One answer, explained: lines to read, and plain JSON values."""

    def __str__(self) -> str: ...

    def as_dict(self) -> Table:
        """The same as plain JSON values."""


@dataclass(frozen=True)
class Shown:
    """What a trace says of an example: the words that are its steps, the forms that `fields` number, the answer."""

    tokens: list[str]
    vocabulary: list[str]
    fields: Fields
    about: Table = field(default_factory=dict)
