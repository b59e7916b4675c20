"""The verbs of the task models: translations with where each word looked, quality by length, tags, labels and evidence.

All figures are the library's own: `TaskModel.predict` and `explain`, `measure_pairs`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from thereafter.errors import OptionError
from thereafter.studio.verbs.tracing import plain
from thereafter.task_model import TaskModel
from thereafter.tasks import store
from thereafter.tasks.wording import Wording
from thereafter.text.pairs import SentencePair

EACH = 20
"""Sentences of one length that are translated for a point of the chart."""
MOST_LENGTH = 60
"""Words of a source that the chart goes up to."""
_pairs: WeakKeyDictionary[TaskModel, dict[int, list[SentencePair]]] = WeakKeyDictionary()
_points: WeakKeyDictionary[TaskModel, list[dict[str, Any]]] = WeakKeyDictionary()


def translated(model: TaskModel, text: str) -> dict[str, Any]:
    """A translation token by token; `weights[t][s]`: how much step t looked at place s, None without attention."""
    _check(model, "translate")
    if has_attention(model):
        found = model.explain(text)
        return {"source": found.source, "said": found.said, "weights": plain(found.weights), "text": found.answer}
    source, target = _sides(model)
    said = model.predict(text)
    return {
        "source": source.forms(source.encode(text)),
        "said": target.forms(target.encode(said)),
        "weights": None,
        "text": said,
    }


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


def quality(model: TaskModel, test: Path | None = None) -> list[dict[str, Any]]:
    """For every number of source words how good the translations are; see `held_out` for `test`. Worked out once."""
    from thereafter.evaluation.pairs import measure_pairs

    if model not in _points:
        by_length = held_out(model, test)
        chosen = {length: group[:EACH] for length, group in by_length.items()}
        said = iter(model.predict([one for group in chosen.values() for one in group]))
        points = []
        for length, group in chosen.items():
            answers = [next(said) for _ in group]
            found = measure_pairs(
                answers,
                [one.target for one in group],
                [one.source for one in group],
                lowercase=_sides(model)[1].lower,
            )
            points.append({"length": length, "sentences": len(group), "words": found.words, "exact": found.exact})
        _points[model] = points
    return _points[model]


def held_out(model: TaskModel, test: Path | None = None) -> dict[int, list[SentencePair]]:
    """Sentence pairs that the training has not learned from, by the words of the source.

    Those of the file `test`; without it those that the run was validated on.
    """
    _check(model, "translate")
    if model not in _pairs:
        if test is not None:
            examples = model.task.read([test])
        else:
            examples = store.learned_from(model.task, model.config, "the training")[1].examples
        pairs = [one for one in examples if isinstance(one, SentencePair)]
        found: dict[int, list[SentencePair]] = {}
        for one in pairs:
            length = len(one.source.split())
            if length <= MOST_LENGTH:
                found.setdefault(length, []).append(one)
        if not found:
            raise OptionError(f"no sentence has {MOST_LENGTH} words or fewer; pick another translator")
        _pairs[model] = dict(sorted(found.items()))
    return _pairs[model]


def example(by_length: dict[int, list[SentencePair]], length: int, at: int) -> dict[str, Any]:
    """One of the sentences with so many words, or with the next number of words that there is; `at` turns the pages."""
    nearest = min(by_length, key=lambda have: (abs(have - length), have))
    group = by_length[nearest]
    pair = group[at % len(group)]
    return {"length": nearest, "count": len(group), "source": pair.source, "target": pair.target}


def judged(model: TaskModel, source: str, target: str) -> dict[str, Any]:
    """A model's translation word by word, each with whether the reference has the same word at that place.

    That is how `measure_pairs` counts; `missing` words of the reference have no place in it at all.
    """
    _check(model, "translate")
    lower = _sides(model)[1].lower
    said = model.predict(source).split()
    meant = (target.lower() if lower else target).split()
    right = [at < len(meant) and (word.lower() if lower else word) == meant[at] for at, word in enumerate(said)]
    return {"said": said, "right": right, "missing": max(0, len(meant) - len(said))}


def tagged(model: TaskModel, text: str) -> dict[str, Any]:
    """The tags of a sentence, with the likeliest ones of each word."""
    _check(model, "tag")
    found: dict[str, Any] = model.explain(text).as_dict()
    for word in found["words"]:
        word["likeliest"] = [{"tag": tag, "p": p} for tag, p in word["likeliest"]]
    return found


def labelled(model: TaskModel, text: str) -> dict[str, Any]:
    """The label of a text, p of all labels, and how much each word spoke for the label."""
    _check(model, "classify")
    found: dict[str, Any] = model.explain(text).as_dict()
    found["probabilities"] = [{"label": label, "p": p} for label, p in found["probabilities"].items()]
    for word in found["words"]:
        word |= {"evidence": plain(word["evidence"]), "weight": plain(word["weight"])}
    return found


def _check(model: TaskModel, task: str) -> None:
    if model.task.name != task:
        raise OptionError(f"this model was trained to {model.task.name}; expected one trained to {task}; pick another")
