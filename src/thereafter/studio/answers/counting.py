"""Answers of the counting panel: the table of word pairs, and a sentence drawn from it."""

from __future__ import annotations

from typing import Literal

from thereafter.serving.schema import Answer


class PairAnswer(Answer):
    """The pair that was counted last, and how often it was seen by now."""

    before: str
    word: str
    count: int


class CountRowAnswer(Answer):
    """What followed a word: `counts` and `p` by column, `other_...` in words without a column, `sum` of all counts.
    Without smoothing a row that nothing was counted in has no probabilities."""

    word: str
    counts: list[int]
    other_count: int
    sum: int
    p: list[float] | None
    other_p: float | None


class DrawAnswer(Answer):
    before: str
    word: str
    p: float


class DrawnAnswer(Answer):
    """A drawn sentence: `p` is the product of its steps; a dead end is a word (`after`) that nothing can follow."""

    steps: list[DrawAnswer]
    ended: Literal["sentence", "dead end", "length"]
    after: str
    p: float


class CountAnswer(Answer):
    """`around` are the tokens of the text from number `first` on; `next_end` is the end of the sentence being read.
    `words` were met so far; `pairs_shown` of the `at` pairs stand in the table. `vocabulary` is how many words the
    smoothing takes there to be; `discount` is Kneser-Ney's."""

    at: int
    length: int
    sentences: int
    sentences_read: int
    next_end: int
    first: int
    around: list[str]
    pair: PairAnswer | None
    columns: list[str]
    rows: list[CountRowAnswer]
    words: int
    pairs_shown: int
    vocabulary: int
    discount: float | None
    drawn: DrawnAnswer | None
