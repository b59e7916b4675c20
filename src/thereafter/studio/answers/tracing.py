"""Answers of `trace`: what a model did at every token."""

from __future__ import annotations

from thereafter.serving.schema import Answer


class FieldAnswer(Answer):
    """The values of a field, nested as its axes say; the first axis is always the step."""

    axes: list[str]
    values: list[object]


class WordAnswer(Answer):
    text: str
    p: float


class TraceAnswer(Answer):
    """`top[t]` are the likeliest tokens before token t was read. `cut` says how much of the text was left out."""

    tokens: list[str]
    cut: str
    fields: dict[str, FieldAnswer]
    top: list[list[WordAnswer]]
