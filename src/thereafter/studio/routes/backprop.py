"""The gradient of one loss back through a sentence, for several models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Response
from pydantic import Field

from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply_list
from thereafter.studio.schema import Answer, Asked, ModelName, Prompt

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()


class BackpropAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    text: Prompt
    limit: Annotated[int, Field(ge=3, le=80)] = 40


class DecayAnswer(Answer):
    """`share` of the value at distance 1 was measured at `distance`, the farthest; `verdict` is the word for it.

    From `under` steps on every measured value is under 1 %; null where that was not seen. `rate` is the factor a step
    of the power that fits the curve best.
    """

    verdict: Literal["vanishing", "fading", "kept", "exploding", "cut off"]
    share: float | None
    distance: int
    under: int | None
    rate: float
    words: str
    measured: str


class StateAnswer(Answer):
    """One field of one layer: the size of the state after every step, and of the gradient of the last loss in it."""

    layer: str
    field: str
    size: list[float | None]
    norm: list[float | None]
    decay: DecayAnswer | None


class BackpropAnswer(Answer):
    """`tokens[t]` is read before state t; the last state expects `target`. `share[n - 1]` is kept by n steps."""

    model: str
    tokens: list[str]
    target: str
    loss: float | None
    states: list[StateAnswer]
    share: list[float | None]
    left_out: int


@router.post("/backprop", response_model=list[BackpropAnswer])
async def backprop(asked: BackpropAsked, visitor: TheVisitor) -> Response:
    """What the loss at the last token of a text sends back to every state, under each of several recurrent models."""

    def work(name: str, lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs.backprop import backprop as taken_back

        return as_json(BackpropAnswer(model=name, **taken_back(lm, asked.text, limit=asked.limit)))

    return reply_list([await visitor.ask(name, partial(work, name)) for name in asked.models])
