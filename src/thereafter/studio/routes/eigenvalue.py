"""Repeated multiplication by a matrix of a given spectral radius, and gradients through networks that have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName, Prompt
from thereafter.studio.answers.eigenvalue import EigenvalueAnswer
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


@router.post("/eigenvalue", response_model=EigenvalueAnswer)
async def eigenvalue(asked: EigenvalueAsked, visitor: TheVisitor) -> Response:
    """What multiplying again and again by a matrix of a given spectral radius does to a vector and to gradients."""

    def work(lm: LanguageModel | None = None) -> bytes:
        from thereafter.studio.verbs.eigenvalue import multiply, scale_trained

        scaled = None if lm is None else scale_trained(lm, asked.radius, asked.steps, asked.text)
        options = {"units": asked.units, "seed": asked.seed}
        return as_json(multiply(asked.radius, asked.steps, **options, forget=asked.forget, trained=scaled))

    if asked.model is None:
        return reply(await visitor.apart("eigenvalue", work))
    return reply(await visitor.ask(asked.model, work))
