"""The contract of a corpus probe: what a built-in corpus offers to be asked of every model that was trained on it.

The lines of such a corpus have something in them that must be remembered, and the corpus knows what. A probe turns
that into questions whose answers are known, and says in which words the answers are shown. `comparing` takes whatever
probes a corpus offers (`offered.py` is the table) and knows none of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from thereafter.evaluation.verdicts import Tally, Verdicts
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.sources import Source


@dataclass(frozen=True)
class ProbeWords:
    """How a probe is spoken of, in tables, pictures and advice.

    Of `agreement`, for instance: `items` are "sentences", `span` is "words in between", `answer` is "its verb".
    """

    heading: str
    """Over its section of a report."""
    title: str
    """Of the picture, for those who do not see it."""
    x_label: str
    y_label: str
    caption: str
    """What is counted as right, a sentence."""
    remark: str
    """Who guesses, and why, a sentence."""
    items: str
    """What is counted, in the plural."""
    span: str
    """What a distance is a number of: "with 20 to 40 SPAN"."""
    lesson: str
    """What is to be learned: "No model has learned LESSON"."""
    purpose: str
    """When the best model is the one to use: "PURPOSE, use lstm"."""
    answer: str
    """What is right or wrong: "ANSWER is right in 97 %"."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, and which of the answers it counts."""

    label: str
    count: Callable[[Verdicts], Tally]


@dataclass(frozen=True)
class ProbeTable:
    """A table with a line for each model."""

    title: str
    columns: tuple[Column, ...]


class Questions(Protocol):
    """Questions about one test text, ready to be put to models."""

    def ask(self, reader: SentenceReader) -> Verdicts | None:
        """The answers of a model; None where it cannot be asked, such as one that reads other tokens."""


class CorpusProbe(Protocol):
    """Questions that a corpus can ask about itself."""

    @property
    def name(self) -> str:
        """That of the corpus; results are stored under it."""

    @property
    def words(self) -> ProbeWords:
        """How its results are spoken of."""

    @property
    def chance(self) -> float | None:
        """The share that guessing gets right; None where it is not the same over all distances."""

    def questions(self, test: Source) -> Questions | None:
        """The questions about a test text; None where the text is not one of this corpus."""

    def tables(self, results: Sequence[Verdicts]) -> list[ProbeTable]:
        """The tables that these results are shown in."""


def name_span(low: int, high: int) -> str:
    """`3-5`, or `3` where both are the same."""
    return str(low) if low == high else f"{low}-{high}"


def distance_columns(bins: Sequence[tuple[int, int]], results: Sequence[Verdicts]) -> tuple[Column, ...]:
    """A column for each of the bins that the results reach."""
    longest = max((one.longest for one in results if one.distance), default=0)
    return tuple(Column(name_span(low, high), _over(low, high)) for low, high in bins if low <= longest)


def _over(low: int, high: int) -> Callable[[Verdicts], Tally]:
    return lambda verdicts: verdicts.between(low, high)
