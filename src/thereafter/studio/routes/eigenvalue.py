"""Repeated multiplication by a matrix of a given spectral radius, and gradients through networks that have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.routes.backprop import DecayAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()


class EigenvalueAsked(Asked):
    """With a `model`, a trained RNN, its recurrent matrix is scaled too and measured over the `text`.

    `forget` is the forget gate of the LSTM that has the same matrix in its candidate.
    """

    radius: Annotated[float, Field(ge=0.5, le=1.5)]
    steps: Annotated[int, Field(ge=10, le=100)] = 50
    units: Annotated[int, Field(ge=2, le=64)] = 32
    seed: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    forget: Annotated[float, Field(ge=0.5, le=1)] = 0.97
    model: ModelName | None = None
    text: Prompt = ""


class GainAnswer(Answer):
    """What is left after 0, 1, 2, ... steps, 1 at the beginning."""

    values: list[float | None]
    decay: DecayAnswer | None


class TrainedAnswer(GainAnswer):
    """`own` is the spectral radius the model was trained to."""

    own: float


class EigenvalueAnswer(Answer):
    """`power` is |W^k x| / |x|; the others are gradients by distance, `gates` along an LSTM's forget gates alone."""

    power: GainAnswer
    linear: GainAnswer
    tanh: GainAnswer
    lstm: GainAnswer
    gates: GainAnswer
    trained: TrainedAnswer | None


@router.post("/eigenvalue", response_model=EigenvalueAnswer)
async def eigenvalue(asked: EigenvalueAsked, visitor: TheVisitor) -> Response:
    """What multiplying again and again by a matrix of a given spectral radius does to a vector and to gradients."""

    def work(lm: LanguageModel | None = None) -> bytes:
        from thereafter.studio.verbs.eigenvalue import multiplied, trained

        found = multiplied(asked.radius, asked.steps, units=asked.units, seed=asked.seed, forget=asked.forget)
        scaled = None if lm is None else TrainedAnswer(**trained(lm, asked.radius, asked.steps, asked.text))
        return as_json(EigenvalueAnswer(**found, trained=scaled))

    if asked.model is None:
        return reply(await visitor.apart("eigenvalue", work))
    return reply(await visitor.ask(asked.model, work))
