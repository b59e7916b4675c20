"""Answers of `surprisal`: what each word of a text cost several models."""

from __future__ import annotations

from pydantic import Field

from thereafter.serving.schema import Answer, FailedAnswer


class AlternativeAnswer(Answer):
    """A token that was expected, and how much."""

    text: str
    p: float


class WordSurprisalAnswer(Answer):
    """A word under one model. `bits` is null where its probability was 0.

    `rank`, `entropy` (bits), `context` (tokens the model saw) and `alternatives` are those of the prediction where the
    word begins. `unknown`: how many of its tokens the model has never met.
    """

    bits: float | None
    spelling_bits: float
    unknown: int
    tokens: list[str]
    rank: int
    entropy: float
    context: int
    alternatives: list[AlternativeAnswer]


class ModelSurprisalAnswer(Answer):
    """One model: its sums, and a row for each word; null for a line end that it does not read."""

    model: str
    bits: float | None
    spelling_bits: float
    tokens: int
    unknown: int
    words: list[WordSurprisalAnswer | None]


class SurprisalAnswer(Answer):
    """`words` as they are written, a line end as a newline; every model has a row for each of them."""

    words: list[str]
    models: list[ModelSurprisalAnswer]
    failed: list[FailedAnswer] = Field(default_factory=list)
