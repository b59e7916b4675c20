"""How frequent a word is in a text, whatever its case and the punctuation around it.

    log2 frequency = log2 (count + 1) / (words + different words)

so that a word that never occurs has a frequency too (Laplace; Brysbaert and Diependaele 2013 for frequency norms).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from thereafter.evaluation.text_units import words_alone
from thereafter.text.lines import lines_of
from thereafter.text.scripts import has_characters

_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def bare_word(word: str) -> str:
    """A word without the punctuation around it; "" where it is nothing else.

    >>> bare_word('"well-known,"'), bare_word("--")
    ('well-known', '')
    """
    return _EDGES.sub("", word)


@dataclass(frozen=True)
class WordCounts:
    """The words of a text without punctuation and case, with their counts; `total` counts all of them."""

    counts: Mapping[str, int]
    total: int

    @classmethod
    def of_text(cls, chunks: Iterable[str]) -> Self:
        """Count the words of a text that comes in chunks."""
        written: Counter[str] = Counter()
        for line in lines_of(chunks):
            written.update(words_alone(line).texts if has_characters(line) else line.split())
        counts: Counter[str] = Counter()
        for word, count in written.items():
            counts[bare_word(word).casefold()] += count
        del counts[""]
        return cls(counts, counts.total())

    def log_frequency(self, word: str) -> float:
        """log2 of the frequency of a word.

        >>> WordCounts.of_text(['The cat saw "the" dog.']).log_frequency("The,")
        -1.5849625007211563
        """
        count = self.counts.get(bare_word(word).casefold(), 0)
        return math.log2((count + 1) / (self.total + len(self.counts)))
