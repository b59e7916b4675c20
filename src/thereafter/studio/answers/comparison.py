"""Answers about comparisons: models side by side, and how the training of each went."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.studio.answers.training import CurveAnswer


class PointAnswer(Answer):
    """Verbs in the right number, with so many words between subject and verb; `least` to `most` is the interval."""

    words: str
    mean: float | None
    least: float | None
    most: float | None
    sentences: int


class RunCurveAnswer(Answer):
    """A point for each validation; `perplexity` is empty where only bits per byte are known."""

    seconds: list[float | None]
    tokens: list[float | None]
    bits: list[float | None]
    perplexity: list[float | None]


class LevelAnswer(Answer):
    """The validation of a model that is not trained in steps."""

    bits: float | None
    perplexity: float | None


class RowAnswer(Answer):
    """A model of a comparison: means over its seeds, and their standard deviations where there are several.

    `sees`: words back that it can see, where that is fixed. `apart`: its tokens are others than those of most rows, so
    that only its bits per byte compare. `normalised`: whether its scores are probabilities; else it has neither figure.
    """

    name: str
    kind: str
    tokens: str
    apart: bool
    normalised: bool
    bits_per_byte: float | None
    bits_per_byte_spread: float | None
    perplexity: float | None
    perplexity_spread: float | None
    parameters: int
    tokens_per_second: float | None
    next_ms: float | None
    megabytes: float | None
    seconds: float | None
    seeds: int
    sees: int | None
    curves: list[RunCurveAnswer]
    level: LevelAnswer | None
    agreement: list[PointAnswer]


class ComparisonAnswer(Answer):
    """`advice`: which model to use when. `legend`: what the figures mean."""

    source: str
    rows: list[RowAnswer]
    advice: list[str]
    legend: list[str]
    notes: list[str]


class KeptAnswer(Answer):
    """A comparison in the runs folder, as `thereafter compare --out` wrote it."""

    name: str
    source: str
    models: list[str]


class CurveOfAnswer(CurveAnswer):
    """The curves of a model by its log."""

    model: str
    label: str
    kind: str
