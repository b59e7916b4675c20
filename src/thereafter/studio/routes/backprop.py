"""The gradient of one loss back through a sentence, for several models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, FailedAnswer, ModelName, Prompt
from thereafter.studio.answers.backprop import BackpropAnswer, VerbGradientsAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, attempt, make_router, reply_list, settle

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()


class BackpropAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    text: Prompt
    limit: Annotated[int, Field(ge=3, le=80)] = 40


@router.post("/backprop", response_model=list[BackpropAnswer | FailedAnswer])
async def backprop(asked: BackpropAsked, visitor: TheVisitor) -> Response:
    """What the loss at the last token of a text sends back to every state, under each of several recurrent models."""

    def work(name: str, lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs import backprop as verbs

        return as_json(verbs.backprop(lm, asked.text, limit=asked.limit, name=name))

    return reply_list(settle([await attempt(name, visitor.ask(name, partial(work, name))) for name in asked.models]))


class VerbsAsked(Asked):
    """`between`: words between subject and verb, the same in all sentences."""

    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    between: Annotated[int, Field(ge=2, le=40)] = 6
    count: Annotated[int, Field(ge=1, le=200)] = 60


@router.post("/verb-gradients", response_model=list[VerbGradientsAnswer | FailedAnswer])
async def verb_gradients(asked: VerbsAsked, visitor: TheVisitor) -> Response:
    """What the loss at the verbs of new agreement sentences sends back to their subjects, under several models."""

    def work(name: str, lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs import backprop as verbs

        return as_json(verbs.verb_gradients(lm, between=asked.between, count=asked.count, name=name))

    return reply_list(settle([await attempt(name, visitor.ask(name, partial(work, name))) for name in asked.models]))
