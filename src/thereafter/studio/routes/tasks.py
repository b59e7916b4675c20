"""The task models: which there are, training the ready ones, and asking them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Answer, Asked, ModelName
from thereafter.serving.shelf import READY, TaskModelAnswer
from thereafter.studio.routes.common import LoadedStudio, TheVisitor, as_json, make_router, reply, reply_list
from thereafter.studio.routes.ready import MakingAnswer
from thereafter.studio.studio import Studio

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel

router = make_router()
TaskName = Literal["translate", "tag", "classify"]
Sentence = Annotated[str, Field(min_length=1, max_length=400, examples=["the red house"])]
Translators = Annotated[list[ModelName], Field(min_length=1, max_length=4)]


class TasksAnswer(Answer):
    """`missing`: the tasks whose ready models are not trained yet."""

    models: list[TaskModelAnswer]
    making: MakingAnswer
    missing: list[TaskName]


class TrainTaskAsked(Asked):
    task: TaskName


class SentenceAsked(Asked):
    model: ModelName
    text: Sentence


class TranslatedAnswer(Answer):
    """`weights[t][s]`: how much step t of what is said looked at place s of the source; null without attention."""

    source: list[str]
    said: list[str]
    weights: list[list[float | None]] | None
    text: str


class QualityAsked(Asked):
    models: Translators


class PointAnswer(Answer):
    """Of sentences of one length: the share of words in their places, and of sentences right to the letter."""

    length: int
    sentences: int
    words: float
    exact: float


class QualityAnswer(Answer):
    model: str
    points: list[PointAnswer]


class ExampleAsked(Asked):
    models: Translators
    length: Annotated[int, Field(ge=1, le=60)]
    at: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class JudgedAnswer(Answer):
    """`right[t]`: whether the reference has the same word at place t; `missing` words of it have no place."""

    model: str
    said: list[str]
    right: list[bool]
    missing: int


class ExampleAnswer(Answer):
    """A held-out sentence, one of `count` of its length, with its reference and what each model says."""

    length: int
    count: int
    source: str
    target: str
    answers: list[JudgedAnswer]


class TagAnswer(Answer):
    tag: str
    p: float | None


class TaggedWordAnswer(Answer):
    """`known`: whether training met the word; of others only the letters speak."""

    word: str
    tag: str
    likeliest: list[TagAnswer]
    known: bool


class TaggedAnswer(Answer):
    words: list[TaggedWordAnswer]


class LabelAnswer(Answer):
    label: str
    p: float | None


class EvidenceAnswer(Answer):
    """`evidence` above 0 speaks for the label given, below 0 against it; `weight` is its share in what is pooled."""

    word: str
    evidence: float | None
    weight: float | None


class LabelledAnswer(Answer):
    label: str
    probabilities: list[LabelAnswer]
    words: list[EvidenceAnswer]


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
        from thereafter.studio.verbs.tasks import translated

        return as_json(TranslatedAnswer(**translated(model, asked.text)))

    return reply(await visitor.ask_task(asked.model, work))


@router.post("/tasks/quality", response_model=list[QualityAnswer])
async def quality(asked: QualityAsked, visitor: TheVisitor) -> Response:
    """How good translators are by the length of the source, on sentences that they have not learned from."""

    def work(name: str, model: TaskModel) -> bytes:
        from thereafter.studio.verbs.tasks import quality as by_length

        points = by_length(model, _test(visitor.studio, name))
        return as_json(QualityAnswer.model_validate({"model": name, "points": points}))

    return reply_list([await visitor.ask_task(name, partial(work, name)) for name in dict.fromkeys(asked.models)])


@router.post("/tasks/example", response_model=ExampleAnswer)
async def example(asked: ExampleAsked, visitor: TheVisitor) -> Response:
    """A held-out sentence of the first model, of about so many words, with what each model makes of it."""
    names = list(dict.fromkeys(asked.models))

    def choose(model: TaskModel) -> dict[str, Any]:
        from thereafter.studio.verbs import tasks as verbs

        return verbs.example(verbs.held_out(model, _test(visitor.studio, names[0])), asked.length, asked.at)

    found = await visitor.ask_task(names[0], choose)

    def judge(name: str, model: TaskModel) -> JudgedAnswer:
        from thereafter.studio.verbs import tasks as verbs

        return JudgedAnswer(model=name, **verbs.judged(model, found["source"], found["target"]))

    answers = [await visitor.ask_task(name, partial(judge, name)) for name in names]
    return reply(as_json(ExampleAnswer(**found, answers=answers)))


@router.post("/tasks/tag", response_model=TaggedAnswer)
async def tag(asked: SentenceAsked, visitor: TheVisitor) -> Response:
    """A tag for every word of a sentence, with the likeliest ones."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs.tasks import tagged

        return as_json(TaggedAnswer.model_validate(tagged(model, asked.text)))

    return reply(await visitor.ask_task(asked.model, work))


@router.post("/tasks/classify", response_model=LabelledAnswer)
async def classify(asked: SentenceAsked, visitor: TheVisitor) -> Response:
    """The label of a text, and how much each word spoke for it."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs.tasks import labelled

        return as_json(LabelledAnswer.model_validate(labelled(model, asked.text)))

    return reply(await visitor.ask_task(asked.model, work))


def _tasks(studio: Studio) -> TasksAnswer:
    from thereafter.ready import tasks as ready_tasks

    names: tuple[TaskName, ...] = ("translate", "tag", "classify")
    missing = [name for name in names if ready_tasks.missing(studio.making.folder, name)]
    return TasksAnswer(models=studio.tasks.cards(), making=MakingAnswer(**studio.making.facts()), missing=missing)


def _test(studio: Studio, name: str) -> Path | None:
    """The generated test sentences for a ready model; runs of the user's are measured on their own."""
    from thereafter.ready import tasks as ready_tasks

    return ready_tasks.test_pairs(studio.making.folder) if name.startswith(READY) else None
