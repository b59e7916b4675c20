"""The verb `window`: the network over the last few words, with its shapes and its activations after a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply
from thereafter.studio.routes.prediction import CandidateAnswer

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()


class WindowAsked(Asked):
    model: Annotated[ModelName, Field(examples=["ready:window"])]
    text: Prompt = ""
    k: Annotated[int, Field(ge=1, le=50)] = 10


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

    name: Literal["words", "embedding", "joined", "hidden", "output"]
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


@router.post("/window", response_model=WindowAnswer)
async def window(asked: WindowAsked, visitor: TheVisitor) -> Response:
    """Word vectors, hidden layer and likeliest words of a window model after a text."""

    def work(lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs.window import look

        return as_json(WindowAnswer(**look(lm, asked.text, asked.k)))

    return reply(await visitor.ask(asked.model, work))
