"""A sentence that knows its long-range dependency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from thereafter.base.config import Table
from thereafter.errors import FormatError

Number = Literal["singular", "plural"]


class Attractor(NamedTuple):
    """A noun between the two ends of a dependency, which may attract the second end to its own number."""

    position: int
    number: Number


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, and the pair of words in it that depend on each other.

    In kind `agreement` the opener is the subject noun and the closer the verb; in `reflexive` and `reflexive-gender`
    the subject noun and the pronoun; in `filler-gap` the word that opens the clause and the one after its verb; in
    `either-or`, `quotes` and `brackets` the opening and the closing word. Positions count words from 0. `number` is the
    subject's, None where the opener has none.

    >>> words = ("the", "dog", "near", "the", "cats", "is", "old", ".")
    >>> one = Sentence(words, "agreement", 1, 5, "are", "singular", (Attractor(4, "plural"),))
    >>> one.distance, one.congruent, one.right, one.wrong
    (3, False, 'the dog near the cats is', 'the dog near the cats are')
    """

    words: tuple[str, ...]
    kind: str
    opener: int
    closer: int
    wrong_form: str
    number: Number | None
    attractors: tuple[Attractor, ...]

    @property
    def text(self) -> str:
        """The sentence as a line of the corpus: words and punctuation, separated by single spaces."""
        return " ".join(self.words)

    @property
    def subject(self) -> int:
        """Position of the word that decides: another name of `opener`."""
        return self.opener

    @property
    def verb(self) -> int:
        """Position of the word that must agree: another name of `closer`."""
        return self.closer

    @property
    def distance(self) -> int:
        """Number of words between the two."""
        return self.closer - self.opener - 1

    @property
    def correct_form(self) -> str:
        """The closing word as it must be."""
        return self.words[self.closer]

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words before the closing word: what a model may see before it decides."""
        return self.words[: self.closer]

    @property
    def right(self) -> str:
        """The text up to and including the correct closing word: one half of the minimal pair."""
        return " ".join(self.words[: self.closer + 1])

    @property
    def wrong(self) -> str:
        """The same text with the wrong closing word: the other half."""
        return " ".join((*self.prefix, self.wrong_form))

    @property
    def congruent(self) -> bool | None:
        """Whether the last attractor has the subject's number; None where there is no attractor or no number."""
        if self.number is None or not self.attractors:
            return None
        return self.attractors[-1].number == self.number

    def record(self) -> Table:
        """The sentence as plain JSON values; `from_record` reads them back."""
        return {
            "text": self.text,
            "kind": self.kind,
            "opener": self.opener,
            "closer": self.closer,
            "distance": self.distance,
            "number": self.number,
            "correct": self.correct_form,
            "wrong": self.wrong_form,
            "attractors": [[position, number] for position, number in self.attractors],
            "congruent": self.congruent,
        }


def from_record(record: Table) -> Sentence:
    """A sentence from what `Sentence.record` made of it; FormatError where it contradicts itself."""
    try:
        sentence = Sentence(
            words=tuple(record["text"].split(" ")),
            kind=record["kind"],
            opener=record["opener"],
            closer=record["closer"],
            wrong_form=record["wrong"],
            number=record["number"],
            attractors=tuple(Attractor(position, number) for position, number in record["attractors"]),
        )
        sound = 0 <= sentence.opener < sentence.closer and sentence.correct_form == record["correct"]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as fault:
        raise FormatError(f"not the record of an agreement sentence ({fault!r}); write the corpus again") from fault
    if not sound:
        raise FormatError(
            f"the record of {sentence.text!r} puts its pair at words {sentence.opener} and {sentence.closer}, "
            f"where it should find {record['correct']!r}; write the corpus again"
        )
    return sentence
