"""The verbs `next`, `complete` and `examples`: what models expect after a text, and texts to try them with.

People type the same beginnings, and a page asks again whenever its models change: the last answers of every model are
kept for as long as the model is, so they are those it would give again, to the bit.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated
from weakref import WeakKeyDictionary

from fastapi import Request, Response
from pydantic import Field

from thereafter.serving.lanes import Together
from thereafter.serving.schema import Asked, FailedAnswer, ModelName, Prompt
from thereafter.studio.answers.prediction import CompletionAnswer, ExamplesAnswer, PredictionAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, attempt, make_router, reply, reply_list, settle
from thereafter.studio.studio import Studio

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()

KEPT = 1_000
"""Answers of a model that are kept."""
_KEPT_LENGTH = (
    500  # characters of a prompt whose answer is kept: with longer ones memory would be the visitors' to fill
)
Question = tuple[str, int]
"""A prompt, and how many continuations of it."""


class NextAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    prompt: Prompt = ""
    k: Annotated[int, Field(ge=1, le=50)] = 8


@router.post("/next", response_model=list[PredictionAnswer | FailedAnswer])
async def next_words(asked: NextAsked, visitor: TheVisitor, request: Request) -> Response:
    """The likeliest continuations of a prompt under each of several models."""
    questions: Together[str, Question, bytes] = request.app.state.questions
    answers = (attempt(name, questions.ask(name, (asked.prompt, asked.k), visitor.waits)) for name in asked.models)
    return reply_list(settle(await asyncio.gather(*answers)))


@router.post("/complete", response_model=list[CompletionAnswer | FailedAnswer])
async def complete_words(asked: NextAsked, visitor: TheVisitor) -> Response:
    """The likeliest words that begin as the last word of a prompt does, under each of several models."""

    async def ask(name: str) -> bytes:
        def work(lm: LanguageModel) -> bytes:
            from thereafter.studio.verbs.prediction import complete

            return as_json(complete(lm, asked.prompt, asked.k, name=name))

        return await visitor.ask(name, work)

    return reply_list(settle(await asyncio.gather(*(attempt(name, ask(name)) for name in asked.models))))


class ExamplesAsked(Asked):
    model: ModelName


@router.post("/examples", response_model=ExamplesAnswer)
async def example_texts(asked: ExamplesAsked, visitor: TheVisitor) -> Response:
    """Texts to try a model with: from its own text, or written by itself."""

    def work(lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs.prediction import examples

        return as_json(examples(lm))

    return reply(await visitor.ask(asked.model, work))


def questions_of(studio: Studio) -> Together[str, Question, bytes]:
    """Where the questions to each model of a studio gather."""
    predictions = KeptAnswers(studio)
    return Together(studio.lanes, predictions.answer)


class KeptAnswers:
    """Answers as JSON, the last of them kept."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._kept: WeakKeyDictionary[LanguageModel, OrderedDict[Question, bytes]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def answer(self, name: str, questions: Sequence[Question]) -> list[bytes | Exception]:
        """What a model says to each of several questions; one that cannot be answered spoils no other."""
        results: list[bytes | Exception] = []
        with self._studio.shelf.borrow(name) as lm:
            with self._lock:  # the models share the table; each answers on one thread at a time
                kept = self._kept.setdefault(lm, OrderedDict())
            for question in questions:
                try:
                    results.append(_answer(name, lm, question, kept))
                except Exception as error:  # it goes to whoever asked
                    results.append(error)
        return results


def _answer(name: str, lm: LanguageModel, question: Question, kept: OrderedDict[Question, bytes]) -> bytes:
    from thereafter.studio.verbs.prediction import predict

    prompt, k = question
    if question in kept:
        kept.move_to_end(question)
        return kept[question]
    answer = as_json(predict(lm, prompt, k, name=name))
    if len(prompt) <= _KEPT_LENGTH:
        kept[question] = answer
        if len(kept) > KEPT:
            kept.popitem(last=False)
    return answer
