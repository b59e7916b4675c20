"""The verb `window`: the network over the last few words, with its shapes and its activations after a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName, Prompt
from thereafter.studio.answers.window import WindowAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()


class WindowAsked(Asked):
    model: Annotated[ModelName, Field(examples=["ready:window"])]
    text: Prompt = ""
    k: Annotated[int, Field(ge=1, le=50)] = 10


@router.post("/window", response_model=WindowAnswer)
async def window(asked: WindowAsked, visitor: TheVisitor) -> Response:
    """Word vectors, hidden layer and likeliest words of a window model after a text."""

    def work(lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs.window import look

        return as_json(look(lm, asked.text, asked.k))

    return reply(await visitor.ask(asked.model, work))
