"""The verb `step`: one more word, and what it did to the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName, Prompt
from thereafter.studio.answers.stepping import StepAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()


class StepAsked(Asked):
    """`text` is read after `prompt`, of it the first `limit` tokens; `layer` chooses one of several."""

    model: ModelName
    prompt: Prompt = ""
    text: Annotated[Prompt, Field(min_length=1, examples=["farmers"])]
    k: Annotated[int, Field(ge=1, le=50)] = 5
    limit: Annotated[int, Field(ge=1, le=200)] = 1
    layer: Annotated[int, Field(ge=0, le=63)] | None = None
    gates: bool = True


@router.post("/step", response_model=StepAnswer)
async def step(asked: StepAsked, visitor: TheVisitor) -> Response:
    """Read one more word after a prompt: the state before and after, the gates, and what is expected next."""

    def work(lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs import stepping as verbs

        options = {"k": asked.k, "limit": asked.limit}
        return as_json(verbs.step(lm, asked.prompt, asked.text, **options, layer=asked.layer, gates=asked.gates))

    return reply(await visitor.ask(asked.model, work))
