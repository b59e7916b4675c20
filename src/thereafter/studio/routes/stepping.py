"""The verb `step`: one more word, and what it did to the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply
from thereafter.studio.routes.prediction import CandidateAnswer

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()

Vectors = dict[str, list[float | None]]
"""Vectors by the names they have in a trace: "l0.h", "l0.forget"."""


class StepAsked(Asked):
    """`text` is read after `prompt`, of it the first `limit` tokens; `layer` chooses one of several."""

    model: ModelName
    prompt: Prompt = ""
    text: Annotated[Prompt, Field(min_length=1, examples=["farmers"])]
    k: Annotated[int, Field(ge=1, le=50)] = 5
    limit: Annotated[int, Field(ge=1, le=200)] = 1
    layer: Annotated[int, Field(ge=0, le=63)] | None = None
    gates: bool = True


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
    """`meaning` is what the gate says at 1."""

    name: str
    meaning: str


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


@router.post("/step", response_model=StepAnswer)
async def step(asked: StepAsked, visitor: TheVisitor) -> Response:
    """Read one more word after a prompt: the state before and after, the gates, and what is expected next."""

    def work(lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs.stepping import step as stepped

        found = stepped(
            lm,
            asked.prompt,
            asked.text,
            k=asked.k,
            limit=asked.limit,
            layer=asked.layer,
            gates=asked.gates,
        )
        return as_json(StepAnswer(**found))

    return reply(await visitor.ask(asked.model, work))
