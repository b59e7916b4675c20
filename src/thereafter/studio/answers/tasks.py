"""Answers of the task models: translations, tags, labels, and how good they are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from thereafter.serving.schema import Answer, FailedAnswer
from thereafter.serving.shelf import TaskModelAnswer
from thereafter.studio.answers.training import MakingAnswer

TaskName = Literal["translate", "tag", "classify", "forecast", "caption", "video", "next-frames", "glimpse", "draw"]


class TasksAnswer(Answer):
    """`missing`: the tasks whose ready models are not trained yet."""

    models: list[TaskModelAnswer]
    making: MakingAnswer
    missing: list[TaskName]


class TranslatedAnswer(Answer):
    """`weights[t][s]`: how much step t of the target looked at place s of the source; null without attention."""

    source: list[str]
    target: list[str]
    weights: list[list[float | None]] | None
    text: str


class QualityPointAnswer(Answer):
    """Of sentences of one length: the share of words in their places, and of sentences right to the letter."""

    length: int
    sentences: int
    words: float
    exact: float


class QualityAnswer(Answer):
    model: str
    points: list[QualityPointAnswer]


class JudgedAnswer(Answer):
    """`right[t]`: whether the reference has the same word at place t; `missing` words of it have no place."""

    model: str
    words: list[str]
    right: list[bool]
    missing: int


class ExampleAnswer(Answer):
    """A held-out sentence, one of `count` of its length, with its reference and what each model says."""

    length: int
    count: int
    source: str
    target: str
    answers: list[JudgedAnswer]
    failed: list[FailedAnswer] = Field(default_factory=list)


class TagAnswer(Answer):
    tag: str
    p: float | None


class TaggedWordAnswer(Answer):
    """`known`: whether training met the word; of others only the letters speak."""

    word: str
    tag: str
    likeliest: list[TagAnswer]
    known: bool


class TaggedAnswer(Answer):
    words: list[TaggedWordAnswer]


class LabelAnswer(Answer):
    label: str
    p: float | None


class EvidenceAnswer(Answer):
    """`evidence` above 0 speaks for the label given, below 0 against it; `weight` is its share in what is pooled."""

    word: str
    evidence: float | None
    weight: float | None


class LabelledAnswer(Answer):
    label: str
    probabilities: list[LabelAnswer]
    words: list[EvidenceAnswer]
