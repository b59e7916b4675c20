"""The verb `next`: what several models expect after a text."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from thereafter.studio.routes.common import LoadedStudio, make_router
from thereafter.studio.schema import Answer, Asked, ModelName, Prompt

router = make_router()


class NextAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    prompt: Prompt = ""
    k: Annotated[int, Field(ge=1, le=50)] = 8


class CandidateAnswer(Answer):
    """A continuation: how it reads, what to append to the prompt, its probability."""

    text: str
    append: str
    p: float


class PredictionAnswer(Answer):
    """`tokens` are the last of the prompt as the model reads it; `unknown` of them it has never met."""

    model: str
    tokens: list[str]
    unknown: int
    candidates: list[CandidateAnswer]


@router.post("/next")
def next_words(asked: NextAsked, studio: LoadedStudio) -> list[PredictionAnswer]:
    """The likeliest continuations of a prompt under each of several models."""
    from thereafter.studio.verbs.prediction import predict

    answers = []
    for name in asked.models:
        with studio.shelf.held(name) as lm:
            answers.append(PredictionAnswer(model=name, **predict(lm, asked.prompt, asked.k)))
    return answers
