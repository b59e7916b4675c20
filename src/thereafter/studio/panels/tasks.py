"""The verbs of the task models: translations with where each word looked, quality by length, tags, labels and evidence.

All figures are the library's own: `TaskModel.predict` and `explain`, `measure_pairs`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, get_args
from weakref import WeakKeyDictionary

from pydantic import Field

from thereafter.errors import OptionError
from thereafter.ready import tasks as ready_tasks
from thereafter.serving.schema import Answer, Asked, FailedAnswer, ModelName
from thereafter.serving.shelf import READY, TaskModelAnswer
from thereafter.studio import asking
from thereafter.studio.asking import TheStudio, Visitor, number, rows
from thereafter.studio.studio import MakingAnswer, Studio
from thereafter.task_model import TaskModel
from thereafter.tasks import finding
from thereafter.tasks.answers import LabelExplained, TagsExplained
from thereafter.tasks.lexicon import Wording
from thereafter.tasks.translate.measures import measure_pairs
from thereafter.tasks.translate.task import Aligned
from thereafter.text.tables import SentencePair

EACH = 20
"""Sentences of one length that are translated for a point of the chart."""
MOST_LENGTH = 60
"""Words of a source that the chart goes up to."""
ByLength = dict[int, list[SentencePair]]
"""Sentence pairs by the words of the source."""
_pairs: WeakKeyDictionary[TaskModel, ByLength] = WeakKeyDictionary()
_points: WeakKeyDictionary[TaskModel, list[QualityPointAnswer]] = WeakKeyDictionary()


class TasksAnswer(Answer):
    """`missing`: the tasks whose ready models are not trained yet."""

    models: list[TaskModelAnswer]
    making: MakingAnswer
    missing: list[TaskName]


class TranslatedAnswer(Answer):
    """`weights[t][s]`: how much step t of the target looked at place s of the source; null without attention."""

    source: list[str]
    target: list[str]
    weights: list[list[float | None]] | None
    text: str


class QualityPointAnswer(Answer):
    """Of sentences of one length: the share of words in their places, and of sentences right to the letter."""

    length: int
    sentences: int
    words: float
    exact: float


class QualityAnswer(Answer):
    model: str
    points: list[QualityPointAnswer]


class JudgedAnswer(Answer):
    """`right[t]`: whether the reference has the same word at place t; `missing` words of it have no place."""

    model: str
    words: list[str]
    right: list[bool]
    missing: int


class ExampleAnswer(Answer):
    """A held-out sentence, one of `count` of its length, with its reference and what each model says."""

    length: int
    count: int
    source: str
    target: str
    answers: list[JudgedAnswer] = Field(default_factory=list)
    failed: list[FailedAnswer] = Field(default_factory=list)


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


TaskName = Literal["translate", "tag", "classify", "forecast", "caption", "video", "next-frames", "glimpse", "draw"]
Sentence = Annotated[str, Field(min_length=1, max_length=400, examples=["the red house"])]
Translators = Annotated[list[ModelName], Field(min_length=1, max_length=4)]


class TrainTaskAsked(Asked):
    task: TaskName


class QualityAsked(Asked):
    models: Translators


class ExampleAsked(Asked):
    models: Translators
    length: Annotated[int, Field(ge=1, le=60)]
    at: Annotated[int, Field(ge=0, le=1_000_000)] = 0


@asking.of_task_model("/tasks/translate")
def translate(model: TaskModel, text: Sentence) -> TranslatedAnswer:
    """A translation token by token, and where each token of it looked.

    `weights[t][s]`: how much step t looked at place s, None without attention.
    """
    _check(model, "translate")
    settings = model.config["translate"]
    if settings["model"] == "transformer" or settings["attention"] != "none":  # it looks back at the source
        aligned = model.explain(text)
        assert isinstance(aligned, Aligned)
        read, written = list(aligned.source), list(aligned.target)
        return TranslatedAnswer(source=read, target=written, weights=rows(aligned.weights), text=aligned.answer)
    source, target = _sides(model)
    translation = model.predict(text)
    return TranslatedAnswer(
        source=source.forms(source.encode(text)),
        target=target.forms(target.encode(translation)),
        weights=None,
        text=translation,
    )


def _sides(model: TaskModel) -> tuple[Wording, Wording]:
    """How a translator spells what it reads and what it writes."""
    source, target = model.codecs["source"], model.codecs["target"]
    assert isinstance(source, Wording)
    assert isinstance(target, Wording)
    return source, target


def quality(model: TaskModel, test: Path | None = None, *, name: str = "") -> QualityAnswer:
    """For every number of source words how good the translations are; see `held_out` for `test`. Computed once.

    `name` is what the answer calls the model.
    """

    if model not in _points:
        chosen = {length: group[:EACH] for length, group in held_out(model, test).items()}
        translations = iter(model.predict([one for group in chosen.values() for one in group]))
        points = []
        for length, group in chosen.items():
            scores = measure_pairs(
                [next(translations) for _ in group],
                [one.target for one in group],
                [one.source for one in group],
                lowercase=_sides(model)[1].lower,
            )
            points.append(
                QualityPointAnswer(length=length, sentences=len(group), words=scores.words, exact=scores.exact)
            )
        _points[model] = points
    return QualityAnswer(model=name, points=_points[model])


def held_out(model: TaskModel, test: Path | None = None) -> ByLength:
    """Sentence pairs that the training has not learned from, by the words of the source.

    Those of the file `test`; without it those that the run was validated on.
    """
    _check(model, "translate")
    if model not in _pairs:
        if test is not None:
            examples = model.task.read([test])
        else:
            examples = finding.learned_from(model.task, model.config, "the training")[1].examples
        by_length: ByLength = {}
        for one in examples:
            if isinstance(one, SentencePair) and (length := len(one.source.split())) <= MOST_LENGTH:
                by_length.setdefault(length, []).append(one)
        if not by_length:
            raise OptionError(f"no sentence has {MOST_LENGTH} words or fewer; pick another translator")
        _pairs[model] = dict(sorted(by_length.items()))
    return _pairs[model]


def example(by_length: ByLength, length: int, at: int) -> ExampleAnswer:
    """One of the sentences with so many words, or with the nearest number of words that there is; `at` chooses among
    them. No model has answered it yet."""
    nearest = min(by_length, key=lambda have: (abs(have - length), have))
    group = by_length[nearest]
    pair = group[at % len(group)]
    return ExampleAnswer(length=nearest, count=len(group), source=pair.source, target=pair.target)


def judge(model: TaskModel, source: str, target: str, *, name: str = "") -> JudgedAnswer:
    """A model's translation word by word, each with whether the reference has the same word at that place.

    That is how `measure_pairs` counts; `missing` words of the reference have no place in it at all. `name` is what the
    answer calls the model.
    """
    _check(model, "translate")
    lower = _sides(model)[1].lower
    words = model.predict(source).split()
    reference = (target.lower() if lower else target).split()
    right = [
        at < len(reference) and (word.lower() if lower else word) == reference[at] for at, word in enumerate(words)
    ]
    return JudgedAnswer(model=name, words=words, right=right, missing=max(0, len(reference) - len(words)))


@asking.of_task_model("/tasks/tag")
def tag(model: TaskModel, text: Sentence) -> TaggedAnswer:
    """A tag for every word of a sentence, with the likeliest ones."""
    _check(model, "tag")
    tags = model.explain(text)
    assert isinstance(tags, TagsExplained)
    words = zip(tags.words, tags.tags, tags.likeliest, tags.known, strict=True)
    return TaggedAnswer(
        words=[
            TaggedWordAnswer(word=word, tag=tag, likeliest=[TagAnswer(tag=one, p=p) for one, p in best], known=known)
            for word, tag, best, known in words
        ]
    )


@asking.of_task_model("/tasks/classify")
def classify(model: TaskModel, text: Sentence) -> LabelledAnswer:
    """The label of a text, and how much each word spoke for it."""
    _check(model, "classify")
    label = model.explain(text)
    assert isinstance(label, LabelExplained)
    return LabelledAnswer(
        label=label.label,
        probabilities=[LabelAnswer(label=one, p=p) for one, p in label.probabilities.items()],
        words=[
            EvidenceAnswer(word=word, evidence=number(evidence), weight=number(weight))
            for word, evidence, weight in zip(label.words, label.evidence, label.weights, strict=True)
        ],
    )


def _check(model: TaskModel, task: str) -> None:
    if model.task.name != task:
        raise asking.wrong_task(model, task)


def _test(studio: Studio, name: str) -> Path | None:
    """The generated test sentences for a ready model; runs of the user's are measured on their own."""
    return ready_tasks.test_pairs(studio.making.folder) if name.startswith(READY) else None


@asking.of_studio("GET", "/tasks")
def tasks(studio: TheStudio) -> TasksAnswer:
    """Every task model that can be picked, and how far the training of the ready ones has got."""
    missing = [name for name in get_args(TaskName) if ready_tasks.missing(studio.making.folder, name)]
    return TasksAnswer(models=studio.tasks.cards(), making=studio.making.answer(), missing=missing)


@asking.of_studio("POST", "/tasks/train")
def train_task(asked: TrainTaskAsked, studio: TheStudio) -> TasksAnswer:
    """Train the ready models of a task from generated examples; what is there already is not trained again."""
    studio.making.begin(asked.task)
    return tasks(studio)


@asking.answers("/tasks/quality", list[QualityAnswer | FailedAnswer], "quality")
async def quality_of_each(asked: QualityAsked, visitor: Visitor) -> bytes:
    """How good translators are by the length of the source, on sentences that they have not learned from."""

    def ask(name: str) -> Awaitable[bytes]:
        test = _test(visitor.studio, name)
        return visitor.ask_task(name, lambda model: asking.as_json(quality(model, test, name=name)))

    return asking.join(await asking.attempt_each(dict.fromkeys(asked.models), ask))


@asking.answers("/tasks/example", ExampleAnswer, "example")
async def example_judged(asked: ExampleAsked, visitor: Visitor) -> bytes:
    """A held-out sentence of the first model, of about so many words, with what each model makes of it."""
    chosen: ExampleAnswer | None = None

    def work(name: str, model: TaskModel) -> JudgedAnswer:
        nonlocal chosen
        if chosen is None:
            chosen = example(held_out(model, _test(visitor.studio, name)), asked.length, asked.at)
        return judge(model, chosen.source, chosen.target, name=name)

    def ask(name: str) -> Awaitable[JudgedAnswer]:
        return visitor.ask_task(name, partial(work, name))

    judged, failed = asking.part(await asking.attempt_each(dict.fromkeys(asked.models), ask))
    assert chosen is not None
    return asking.as_json(chosen.model_copy(update={"answers": judged, "failed": failed}))
