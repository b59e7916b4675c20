"""The verbs beside completion: /score, /next, /tag, /classify, /translate, /forecast, by what a run holds.

Each checks a request, waits for the run's turn on the event loop and works on a thread, the making of its JSON included
(`verb_work.py`). Models may be asked by several threads, so a verb does not wait for the completions of its model. What
nobody waits for any more when its turn comes is not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from thereafter.server import verb_work
from thereafter.server.verb_wire import (
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
from thereafter.serving.errors import NotThereError
from thereafter.serving.lanes import ModelLanes

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel
    from thereafter.server.models import ServedModel, ServedModels
    from thereafter.task_model import TaskModel

ROUTER = APIRouter(tags=["verbs"])
TASK_VERBS = {"tag": "/tag", "classify": "/classify", "translate": "/translate", "forecast": "/forecast"}
"""The verb of each task that has one."""
TEXT_VERBS = ("/v1/completions", "/score", "/next")
"""The verbs of language models."""
LARGER_BODIES = {"/forecast": 1_500_000}
"""Bytes of a body by path, where that is more than elsewhere: a table in JSON, whose line ends are escaped."""


@ROUTER.post("/score", response_model=ScoresAnswer)
async def score(asked: ScoreAsked, request: Request) -> Response:
    """The log probability of texts under a language model, with perplexity and bits per byte."""
    served = _served(request, asked.model)
    lm = _language_model(served, "/score")
    return await _answer(request, served, lambda: verb_work.score(lm, asked.texts, served.name, each=asked.tokens))


@ROUTER.post("/next", response_model=NextTokensAnswer)
async def next_tokens(asked: NextTokenAsked, request: Request) -> Response:
    """The likeliest tokens after each of several prompts, with their probabilities."""
    served = _served(request, asked.model)
    lm = _language_model(served, "/next")
    return await _answer(request, served, lambda: verb_work.next_tokens(lm, asked.texts, asked.k, served.name))


@ROUTER.post("/tag", response_model=TagsAnswer)
async def tag(asked: TextsAsked, request: Request) -> Response:
    """A tag for every word of sentences."""
    served = _served(request, asked.model)
    model = _task(served, "/tag")
    return await _answer(request, served, lambda: verb_work.tag(model, asked.texts, served.name))


@ROUTER.post("/classify", response_model=LabelsAnswer)
async def classify(asked: TextsAsked, request: Request) -> Response:
    """The label of texts, with the probability of all labels."""
    served = _served(request, asked.model)
    model = _task(served, "/classify")
    return await _answer(request, served, lambda: verb_work.classify(model, asked.texts, served.name))


@ROUTER.post("/translate", response_model=TranslationsAnswer)
async def translate(asked: TranslateAsked, request: Request) -> Response:
    """Translations of texts, greedy or by a beam search."""
    served = _served(request, asked.model)
    model = _task(served, "/translate")
    return await _answer(request, served, lambda: verb_work.translate(model, asked, served.name))


@ROUTER.post("/forecast", response_model=ForecastsAnswer)
async def forecast(asked: TableAsked, request: Request) -> Response:
    """What comes after the last row of every series of a table, with bands."""
    served = _served(request, asked.model)
    model = _task(served, "/forecast")
    return await _answer(request, served, lambda: verb_work.forecast(model, asked, served.name))


def verbs_of(served: ServedModel) -> tuple[str, ...]:
    """The addresses that answer for a run."""
    if served.task is None:
        return TEXT_VERBS
    verb = TASK_VERBS.get(served.task.task.name)
    return () if verb is None else (verb,)


def _served(request: Request, name: str | None) -> ServedModel:
    models: ServedModels = request.app.state.models
    return models.get(name)


def _language_model(served: ServedModel, verb: str) -> LanguageModel:
    if served.language_model is None:
        raise _wrong_kind(served, verb, "a language model")
    return served.language_model


def _task(served: ServedModel, verb: str) -> TaskModel:
    if served.task is None or TASK_VERBS.get(served.task.task.name) != verb:
        raise _wrong_kind(served, verb, f"a run of the task {verb.removeprefix('/')!r}")
    return served.task


def _wrong_kind(served: ServedModel, verb: str, expected: str) -> NotThereError:
    holds = "a language model" if served.task is None else f"the task {served.task.task.name!r}"
    verbs = " or ".join(verbs_of(served))
    hint = f"try {verbs}" if verbs else "no address of this server answers for it; try thereafter predict"
    return NotThereError(f"the run {served.name!r} holds {holds}; {verb} expects {expected}; {hint}")


async def _answer(request: Request, served: ServedModel, work: Callable[[], BaseModel]) -> Response:
    """What a function makes of a run, as JSON, when it is its turn."""
    lanes: ModelLanes = request.app.state.lanes

    async def waits() -> bool:
        return not await request.is_disconnected()

    content = await lanes.run(served.name, lambda: work().model_dump_json().encode(), waits)
    return Response(content, media_type="application/json")
