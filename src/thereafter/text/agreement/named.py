"""The corpora made of such sentences: which kinds each mixes, how far apart, how many.

A corpus keeps one long dependency. Every question in it is between two forms, and each form is the right one of such a
pair as often as the other, so that any rule that does not look at the opener is right half the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypedDict

from thereafter.errors import UnknownNameError
from thereafter.text.agreement.generator import DEFAULT_SENTENCES, LONGEST, sentences
from thereafter.text.agreement.parts import Part
from thereafter.text.agreement.sentence import Sentence

_FEWER = MappingProxyType({"train": 20_000, "valid": 1_000, "test": 2_000})


class CorpusOptions(TypedDict):
    """Arguments of `write_corpus`."""

    name: str
    pairs: tuple[str, ...]
    max_distance: int
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class SentenceCorpus:
    """A built-in corpus by its name; `question` says what its sentences ask a model."""

    name: str
    question: str
    pairs: tuple[str, ...]
    max_distance: int = LONGEST
    sizes: Mapping[str, int] = field(default_factory=lambda: DEFAULT_SENTENCES)

    @property
    def options(self) -> CorpusOptions:
        """What `write_corpus` takes to write this corpus."""
        return {"name": self.name, "pairs": self.pairs, "max_distance": self.max_distance, "sizes": self.sizes}

    def sentences(
        self, count: int, *, seed: int, part: Part = "test", longest: int | None = None
    ) -> Iterator[Sentence]:
        """New sentences of this sort, with up to `longest` words between, by default as many as the corpus has."""
        most = self.max_distance if longest is None else longest
        return sentences(count, seed=seed, part=part, pairs=self.pairs, max_distance=most)


CORPORA = {
    one.name: one
    for one in (
        SentenceCorpus("agreement", "which number the verb has", ("agreement",)),
        # half of the pairs differ in number and half in gender
        SentenceCorpus("reflexives", "whose reflexive pronoun comes", ("reflexive", "reflexive-gender"), 20, _FEWER),
        SentenceCorpus("filler-gap", "whether the verb's object is missing", ("filler-gap",), 20, _FEWER),
    )
}


def sentence_corpus(name: str) -> SentenceCorpus:
    """The corpus of that name; UnknownNameError with the nearest ones for any other.

    >>> next(sentence_corpus("filler-gap").sentences(1, seed=0)).kind
    'filler-gap'
    """
    if name not in CORPORA:
        raise UnknownNameError("corpus of sentences that know their dependency", name, CORPORA)
    return CORPORA[name]
