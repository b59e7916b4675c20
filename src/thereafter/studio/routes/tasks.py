"""The task models: which there are, training the ready ones, and asking them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, FailedAnswer, ModelName
from thereafter.serving.shelf import READY
from thereafter.studio.answers.tasks import (
    ExampleAnswer,
    JudgedAnswer,
    LabelledAnswer,
    QualityAnswer,
    TaggedAnswer,
    TaskName,
    TasksAnswer,
    TranslatedAnswer,
)
from thereafter.studio.routes.common import (
    LoadedStudio,
    TheVisitor,
    as_json,
    attempt,
    make_router,
    part,
    reply,
    reply_list,
    settle,
)
from thereafter.studio.studio import Studio

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel

router = make_router()
Sentence = Annotated[str, Field(min_length=1, max_length=400, examples=["the red house"])]
Translators = Annotated[list[ModelName], Field(min_length=1, max_length=4)]


class TrainTaskAsked(Asked):
    task: TaskName


class SentenceAsked(Asked):
    model: ModelName
    text: Sentence


class QualityAsked(Asked):
    models: Translators


class ExampleAsked(Asked):
    models: Translators
    length: Annotated[int, Field(ge=1, le=60)]
    at: Annotated[int, Field(ge=0, le=1_000_000)] = 0


@router.get("/tasks")
def tasks(studio: LoadedStudio) -> TasksAnswer:
    """Every task model that can be picked, and how far the training of the ready ones has got."""
    return _tasks(studio)


@router.post("/tasks/train")
def train_task(asked: TrainTaskAsked, studio: LoadedStudio) -> TasksAnswer:
    """Train the ready models of a task from generated examples; what is there already is not trained again."""
    studio.making.begin(asked.task)
    return _tasks(studio)


@router.post("/tasks/translate", response_model=TranslatedAnswer)
async def translate(asked: SentenceAsked, visitor: TheVisitor) -> Response:
    """A translation token by token, and where each token of it looked."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import tasks as verbs

        return as_json(verbs.translate(model, asked.text))

    return reply(await visitor.ask_task(asked.model, work))


@router.post("/tasks/quality", response_model=list[QualityAnswer | FailedAnswer])
async def quality(asked: QualityAsked, visitor: TheVisitor) -> Response:
    """How good translators are by the length of the source, on sentences that they have not learned from."""

    def work(name: str, model: TaskModel) -> bytes:
        from thereafter.studio.verbs import tasks as verbs

        return as_json(verbs.quality(model, _test(visitor.studio, name), name=name))

    names = dict.fromkeys(asked.models)
    return reply_list(settle([await attempt(name, visitor.ask_task(name, partial(work, name))) for name in names]))


@router.post("/tasks/example", response_model=ExampleAnswer)
async def example(asked: ExampleAsked, visitor: TheVisitor) -> Response:
    """A held-out sentence of the first model, of about so many words, with what each model makes of it."""
    names = list(dict.fromkeys(asked.models))
    chosen: ExampleAnswer | None = None

    def judge(name: str, model: TaskModel) -> JudgedAnswer:
        from thereafter.studio.verbs import tasks as verbs

        nonlocal chosen
        if chosen is None:
            chosen = verbs.example(verbs.held_out(model, _test(visitor.studio, name)), asked.length, asked.at)
        return verbs.judge(model, chosen.source, chosen.target, name=name)

    answers, failed = part([await attempt(name, visitor.ask_task(name, partial(judge, name))) for name in names])
    assert chosen is not None
    return reply(as_json(chosen.model_copy(update={"answers": answers, "failed": failed})))


@router.post("/tasks/tag", response_model=TaggedAnswer)
async def tag(asked: SentenceAsked, visitor: TheVisitor) -> Response:
    """A tag for every word of a sentence, with the likeliest ones."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import tasks as verbs

        return as_json(verbs.tag(model, asked.text))

    return reply(await visitor.ask_task(asked.model, work))


@router.post("/tasks/classify", response_model=LabelledAnswer)
async def classify(asked: SentenceAsked, visitor: TheVisitor) -> Response:
    """The label of a text, and how much each word spoke for it."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import tasks as verbs

        return as_json(verbs.classify(model, asked.text))

    return reply(await visitor.ask_task(asked.model, work))


def _tasks(studio: Studio) -> TasksAnswer:
    from thereafter.ready import tasks as ready_tasks

    missing = [name for name in get_args(TaskName) if ready_tasks.missing(studio.making.folder, name)]
    return TasksAnswer(models=studio.tasks.cards(), making=studio.making.answer(), missing=missing)


def _test(studio: Studio, name: str) -> Path | None:
    """The generated test sentences for a ready model; runs of the user's are measured on their own."""
    from thereafter.ready import tasks as ready_tasks

    return ready_tasks.test_pairs(studio.making.folder) if name.startswith(READY) else None
