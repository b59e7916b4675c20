"""Answers of the window panel: the network over the last few words, part by part."""

from __future__ import annotations

from typing import Literal

from thereafter.serving.schema import Answer
from thereafter.studio.answers.prediction import CandidateAnswer

PartName = Literal["words", "embedding", "joined", "hidden", "output"]


class SlotAnswer(Answer):
    """A place of the window: `<s>` where nothing was read; `known` is false for a word the model never met."""

    text: str
    known: bool
    vector: list[float | None]


class WeightAnswer(Answer):
    """A learned array, shaped as what comes in by what goes out."""

    name: str
    shape: list[int]


class PartAnswer(Answer):
    """A component: the shapes of what it takes and gives for one text, and what it learns."""

    name: PartName
    input: list[int]
    weights: list[WeightAnswer]
    output: list[int]
    parameters: int


class WindowAnswer(Answer):
    """`tokens` are the last of the text, of which the model sees the last `seen`; `earlier` more are not listed."""

    window: int
    tokens: list[str]
    earlier: int
    seen: int
    slots: list[SlotAnswer]
    hidden: list[float | None]
    candidates: list[CandidateAnswer]
    parts: list[PartAnswer]
    parameters: int
