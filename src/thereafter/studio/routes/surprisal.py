"""The verb `surprisal`: what each word of a text cost one model or two."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from thereafter.serving.schema import Asked, FailedAnswer, ModelName
from thereafter.studio.answers.surprisal import SurprisalAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, attempt, make_router, part, reply

if TYPE_CHECKING:
    from thereafter.evaluation.text_reading import TextReading
    from thereafter.language_model import LanguageModel

router = make_router()

LONGEST = 5_000
"""Characters of a text: each token costs a whole prediction."""


class SurprisalAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=2)]
    text: Annotated[str, Field(min_length=1, max_length=LONGEST, examples=["the teachers near the farmer are old ."])]
    top: Annotated[int, Field(ge=0, le=10)] = 3


@router.post("/surprisal", response_model=SurprisalAnswer)
async def surprisal(asked: SurprisalAsked, visitor: TheVisitor) -> Response:
    """Surprisal of every word of a text under one model or two: bits, rank, entropy, alternatives."""

    async def ask(name: str) -> TextReading:
        def read(lm: LanguageModel) -> TextReading:
            from thereafter.studio.verbs import surprisal as verbs

            return verbs.read(lm, asked.text, asked.top, name=name)

        return await visitor.ask(name, read)

    readings, failed = part(await asyncio.gather(*(attempt(name, ask(name)) for name in asked.models)))
    return reply(await run_in_threadpool(_answer, readings, failed))


def _answer(readings: list[TextReading], failed: list[FailedAnswer]) -> bytes:
    from thereafter.studio.verbs import surprisal as verbs

    return as_json(verbs.surprisal(readings).model_copy(update={"failed": failed}))
