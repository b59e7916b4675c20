"""Answers about trainings, ready models and exports: how far they are, and their curves."""

from __future__ import annotations

from typing import Literal

from thereafter.serving.schema import Answer

State = Literal["running", "elsewhere", "pausing", "paused", "stopping", "stopped", "finished", "failed"]
"""Of a training, as the page shows it."""


class StatusAnswer(Answer):
    """`making` is the ready model being trained, "" when all are there; `share` of them is done, 0 to 1."""

    loaded: bool
    making: str
    share: float
    note: str


class MakingAnswer(Answer):
    """`task` is the one whose ready models are being trained, "anew" where `model` is trained anew, "" when nothing is;
    `share` of that is done, and `status` says how far it is."""

    task: str
    model: str
    share: float
    status: str
    error: str


class ExportAnswer(Answer):
    """The model that is being exported, "" if none is; `share` of the `task` is done, 0 to 1, if that is known."""

    model: str
    task: str
    share: float | None


class ReadyModelAnswer(Answer):
    """`learns` is how much it is trained on, `score` what the shipped one reaches on
    what no training has seen; both in words.

    `minutes` is about what its training takes on one core of a processor of today.
    """

    name: str
    learns: str
    score: str
    shipped: bool
    minutes: float


class ReadyAnswer(Answer):
    models: list[ReadyModelAnswer]
    making: MakingAnswer


class JobAnswer(Answer):
    """A training; `run` is the name of the model it makes, `share` of its budget is used, 0 to 1.

    One that runs elsewhere, in a terminal or in another studio, has an `owner` and cannot be changed from here.
    """

    name: str
    model: str
    state: State
    share: float
    status: str
    note: str
    error: str
    owner: str
    run: str
    resumable: bool


class CurveAnswer(Answer):
    """Losses in nats a token by step and by tokens read (`seen`), while training and on the validation text."""

    step: list[int]
    seen: list[float | None]
    loss: list[float | None]
    valid_step: list[int]
    valid_seen: list[float | None]
    valid_seconds: list[float | None]
    valid_loss: list[float | None]
    valid_perplexity: list[float | None]


class SnapshotAnswer(Answer):
    """All that changes by itself: the start, the names of the models, the trainings."""

    stage: StatusAnswer
    models: list[str]
    jobs: list[JobAnswer]
