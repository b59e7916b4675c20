"""How good answers to sentences are: how many are exactly right, and BLEU and chrF where sacreBLEU is installed.

`words` is the share of the places of all references at which an answer has the same word: a figure for tasks that have
one right answer, such as a reversed sequence. A translation is measured by BLEU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from thereafter.base.config import Table
from thereafter.base.packages import installed
from thereafter.base.tabular import Row, Tabular
from thereafter.tasks.translate.measures import Translation, measure_translation


@dataclass(frozen=True)
class Pairs(Tabular):
    """Shares from 0 to 1; `translation` is None where sacreBLEU is not installed. `answers` are those measured."""

    exact: float
    words: float
    sentences: int
    translation: Translation | None = None
    answers: tuple[str, ...] = field(default=(), repr=False)

    def as_dict(self) -> Table:
        """All figures and the answers, for JSON."""
        figures: Table = {"exact": self.exact, "words": self.words, "sentences": self.sentences}
        return figures | (self.translation.as_dict() if self.translation else {}) | {"answers": list(self.answers)}

    def to_rows(self) -> list[Row]:
        """A row for all sentences; with BLEU, one for each bin of source lengths too, which has BLEU alone."""
        shares: Row = {"exact": self.exact, "words": self.words}
        if self.translation is None:
            return [{"words_of_source": "all", "sentences": self.sentences} | shares]
        whole, *bins = self.translation.to_rows()
        return [whole | shares] + [one | dict.fromkeys(shares) for one in bins]

    def __str__(self) -> str:
        shares = f"{self.exact:.1%} exact, {self.words:.1%} of words in their places"
        if self.translation is not None:
            return f"{self.translation}; {shares}"
        return f"{shares} over {self.sentences:,} sentences (no BLEU: sacrebleu is not installed)"


def measure_pairs(
    answers: Sequence[str], references: Sequence[str], sources: Sequence[str], *, lowercase: bool = False
) -> Pairs:
    """Answers against one reference each; white space between words does not matter for `exact` and `words`."""
    answered, expected = ([_words(text, lowercase) for text in texts] for texts in (answers, references))
    right = sum(a == b for one, other in zip(answered, expected, strict=True) for a, b in zip(one, other, strict=False))
    translation = None
    if installed("sacrebleu"):
        translation = measure_translation(answers, references, lowercase=lowercase, sources=sources)
    exact = sum(one == other for one, other in zip(answered, expected, strict=True))
    words = right / max(1, sum(map(len, expected)))
    return Pairs(exact / max(1, len(expected)), words, len(expected), translation, tuple(answers))


def _words(text: str, lowercase: bool) -> list[str]:
    return (text.lower() if lowercase else text).split()
