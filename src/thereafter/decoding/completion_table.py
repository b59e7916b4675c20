"""The answer of a completion: words with their probabilities, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thereafter.tabular import Row, Tabular


@dataclass(frozen=True)
class Completion:
    """A word that begins as typed, the text to append to have it, its probability among all such words."""

    word: str
    append: str
    p: float


@dataclass(frozen=True)
class Completions(Tabular):
    """Words that begin as the last word of a text does, likeliest first.

    `typed`: what the text has of its last word, with the space before it where that belongs to the word's token.
    `mass`: the model's probability of going on so after the context; the `p` of the words are shares of it.
    `covered`: the share of the mass that the search has followed to the ends of words; 1 where the sum is exact.
    `ending`: the share of the word as it stands, ended where the text ends; 0 where that is no word of the vocabulary.
    """

    typed: str
    words: tuple[Completion, ...]
    mass: float
    covered: float = 1.0
    ending: float = 0.0

    @property
    def half_typed(self) -> bool:
        """Whether a word is begun that the model expects to go on: other words that begin so are likelier than it."""
        return self.typed.strip() != "" and bool(self.words) and self.ending < 0.5

    def to_rows(self) -> list[Row]:
        """A row a word."""
        return [{"word": one.word, "append": one.append, "p": one.p} for one in self.words]

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[Completion]:
        return iter(self.words)

    def __getitem__(self, place: int) -> Completion:
        return self.words[place]
