"""The verbs of the task models: translations with where each word looked, quality by length, tags, labels and evidence.

All figures are the library's own: `TaskModel.predict` and `explain`, `measure_pairs`.
"""

from __future__ import annotations

from pathlib import Path
from weakref import WeakKeyDictionary

from thereafter.errors import OptionError
from thereafter.studio.answers.tasks import (
    EvidenceAnswer,
    ExampleAnswer,
    JudgedAnswer,
    LabelAnswer,
    LabelledAnswer,
    QualityAnswer,
    QualityPointAnswer,
    TagAnswer,
    TaggedAnswer,
    TaggedWordAnswer,
    TranslatedAnswer,
)
from thereafter.studio.verbs.numbers import number, rows
from thereafter.task_model import TaskModel
from thereafter.tasks import store
from thereafter.tasks.answers import LabelExplained, TagsExplained
from thereafter.tasks.translate.task import Aligned
from thereafter.tasks.wording import Wording
from thereafter.text.pairs import SentencePair

EACH = 20
"""Sentences of one length that are translated for a point of the chart."""
MOST_LENGTH = 60
"""Words of a source that the chart goes up to."""
ByLength = dict[int, list[SentencePair]]
"""Sentence pairs by the words of the source."""
_pairs: WeakKeyDictionary[TaskModel, ByLength] = WeakKeyDictionary()
_points: WeakKeyDictionary[TaskModel, list[QualityPointAnswer]] = WeakKeyDictionary()


def translate(model: TaskModel, text: str) -> TranslatedAnswer:
    """A translation token by token; `weights[t][s]`: how much step t looked at place s, None without attention."""
    _check(model, "translate")
    if has_attention(model):
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


def has_attention(model: TaskModel) -> bool:
    """Whether a translator looks back at the source at every step."""
    settings = model.config["translate"]
    return bool(settings["model"] == "transformer" or settings["attention"] != "none")


def quality(model: TaskModel, test: Path | None = None, *, name: str = "") -> QualityAnswer:
    """For every number of source words how good the translations are; see `held_out` for `test`. Computed once.

    `name` is what the answer calls the model.
    """
    from thereafter.tasks.translate.measures import measure_pairs

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
            examples = store.learned_from(model.task, model.config, "the training")[1].examples
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
    return ExampleAnswer(length=nearest, count=len(group), source=pair.source, target=pair.target, answers=[])


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


def tag(model: TaskModel, text: str) -> TaggedAnswer:
    """The tags of a sentence, with the likeliest ones of each word."""
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


def classify(model: TaskModel, text: str) -> LabelledAnswer:
    """The label of a text, p of all labels, and how much each word spoke for the label."""
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
        raise OptionError(f"this model was trained to {model.task.name}; expected one trained to {task}; pick another")
