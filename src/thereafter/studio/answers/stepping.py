"""Answers of `step`: states and gates before and after each token."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.studio.answers.prediction import CandidateAnswer

Vectors = dict[str, list[float | None]]
"""Vectors by the names they have in a trace: "l0.h", "l0.forget"."""


class BeforeAnswer(Answer):
    state: Vectors
    next: list[CandidateAnswer]


class TakenAnswer(Answer):
    """A step: `token` as the model reads it, `form` as it is written, `log_prob` what the model gave it."""

    token: str
    form: str
    known: bool
    log_prob: float | None
    state: Vectors
    gates: Vectors
    next: list[CandidateAnswer]


class GateAnswer(Answer):
    """`meaning` is what the gate says at 1. A candidate is no gate: `letter` is its name in the equations, else ""."""

    name: str
    meaning: str
    letter: str


class EquationAnswer(Answer):
    """`_x` and `_{...}` are subscripts; `field` is what it computes, `keeps` the gate that multiplies its old value."""

    text: str
    field: str
    keeps: str


class StepAnswer(Answer):
    """`left` tokens of the text were not read; `twin` is the text with every number turned round, or ""."""

    layers: list[str]
    gates: list[GateAnswer]
    equations: list[EquationAnswer]
    twin: str
    before: BeforeAnswer
    steps: list[TakenAnswer]
    left: int
