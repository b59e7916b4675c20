"""The gradient of one loss back through a sentence, for several models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply_list

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
    """One field of one layer: the size of the state after every step, and of the gradient of the last loss in it.

    Of a memory with a direct path `direct` is what comes along it alone, `gates` the mean product of gates up to there.
    """

    layer: str
    field: str
    size: list[float | None]
    norm: list[float | None]
    direct: list[float | None] | None
    gates: list[float | None] | None
    decay: DecayAnswer | None


class BackpropAnswer(Answer):
    """`tokens[t]` is read before state t; the last state expects `target`. `share[n - 1]` is kept by n steps."""

    model: str
    tokens: list[str]
    target: str
    loss: float | None
    p: float | None
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


class VerbsAsked(Asked):
    """`between`: words between subject and verb, the same in all sentences."""

    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    between: Annotated[int, Field(ge=2, le=40)] = 6
    count: Annotated[int, Field(ge=1, le=200)] = 60


class VerbStateAnswer(Answer):
    """One field of one layer, by steps back from the verb; the last state has just read the subject."""

    layer: str
    field: str
    norm: list[float | None]
    direct: list[float | None] | None
    gates: list[float | None] | None
    decay: DecayAnswer | None


class VerbsAnswer(Answer):
    """Means over `sentences`; `right` is the share of verbs whose right form is the likelier one."""

    model: str
    sentences: int
    right: float | None
    loss: float | None
    states: list[VerbStateAnswer]


@router.post("/verb-gradients", response_model=list[VerbsAnswer])
async def verb_gradients(asked: VerbsAsked, visitor: TheVisitor) -> Response:
    """What the loss at the verbs of new agreement sentences sends back to their subjects, under several models."""

    def work(name: str, lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs.backprop import at_verbs

        return as_json(VerbsAnswer(model=name, **at_verbs(lm, between=asked.between, count=asked.count)))

    return reply_list([await visitor.ask(name, partial(work, name)) for name in asked.models])
