"""The verbs beside completion: /score, /next, /tag, /classify, /translate, /forecast, by what a run holds.

Each checks a request, waits for the run's turn on the event loop and works on a thread, the making of its JSON included
(`verb_work.py`). Models may be asked by several threads, so a verb does not wait for the completions of its model. What
nobody waits for any more when its turn comes is not begun; what takes too long is refused, though its thread goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from thereafter.serving.lanes import ModelLanes
from thereafter.serving.server import verb_work
from thereafter.serving.server.refusals import in_time
from thereafter.serving.server.verb_work import (
    ForecastsAnswer,
    LabelsAnswer,
    NextTokenAsked,
    NextTokensAnswer,
    ScoreAsked,
    ScoresAnswer,
    TableAsked,
    TagsAnswer,
    TextsAsked,
    TranslateAsked,
    TranslationsAnswer,
)

if TYPE_CHECKING:
    from thereafter.serving.server.models import ServedModel, ServedModels

ROUTER = APIRouter(tags=["verbs"])
LARGER_BODIES = {"/forecast": 1_500_000}
"""Bytes of a body by path, where that is more than elsewhere: a table in JSON, whose line ends are escaped."""


@ROUTER.post("/score", response_model=ScoresAnswer)
async def score(asked: ScoreAsked, request: Request) -> Response:
    """The log probability of texts under a language model, with perplexity and bits per byte."""
    served = served_model(request, asked.model)
    lm = served.language_model_for("/score")
    return await _answer(request, served, lambda: verb_work.score(lm, asked.texts, served.name, each=asked.tokens))


@ROUTER.post("/next", response_model=NextTokensAnswer)
async def next_tokens(asked: NextTokenAsked, request: Request) -> Response:
    """The likeliest tokens after each of several prompts, with their probabilities."""
    served = served_model(request, asked.model)
    lm = served.language_model_for("/next")
    return await _answer(request, served, lambda: verb_work.next_tokens(lm, asked.texts, asked.k, served.name))


@ROUTER.post("/tag", response_model=TagsAnswer)
async def tag(asked: TextsAsked, request: Request) -> Response:
    """A tag for every word of sentences."""
    served = served_model(request, asked.model)
    model = served.task_for("/tag")
    return await _answer(request, served, lambda: verb_work.tag(model, asked.texts, served.name))


@ROUTER.post("/classify", response_model=LabelsAnswer)
async def classify(asked: TextsAsked, request: Request) -> Response:
    """The label of texts, with the probability of all labels."""
    served = served_model(request, asked.model)
    model = served.task_for("/classify")
    return await _answer(request, served, lambda: verb_work.classify(model, asked.texts, served.name))


@ROUTER.post("/translate", response_model=TranslationsAnswer)
async def translate(asked: TranslateAsked, request: Request) -> Response:
    """Translations of texts, greedy or by a beam search."""
    served = served_model(request, asked.model)
    model = served.task_for("/translate")
    return await _answer(request, served, lambda: verb_work.translate(model, asked, served.name))


@ROUTER.post("/forecast", response_model=ForecastsAnswer)
async def forecast(asked: TableAsked, request: Request) -> Response:
    """What comes after the last row of every series of a table, with bands."""
    served = served_model(request, asked.model)
    model = served.task_for("/forecast")
    return await _answer(request, served, lambda: verb_work.forecast(model, asked, served.name))


def served_model(request: Request, name: str | None) -> ServedModel:
    """The run that a request names."""
    models: ServedModels = request.app.state.models
    return models.get(name)


async def _answer(request: Request, served: ServedModel, work: Callable[[], BaseModel]) -> Response:
    """What a function makes of a run, as JSON, when it is its turn."""
    lanes: ModelLanes = request.app.state.lanes

    async def waits() -> bool:
        return not await request.is_disconnected()

    async with in_time(request.app.state.seconds):
        content = await lanes.run(served.name, lambda: work().model_dump_json().encode(), waits)
    return Response(content, media_type="application/json")
