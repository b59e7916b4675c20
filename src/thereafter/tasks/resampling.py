"""The answers of a task ready to be resampled, so that differences between networks get intervals.

A task that is not in the table has figures without intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from thereafter.evaluation.resampled import Resampled, ResampledClasses, ResampledTags, ResampledTranslations
from thereafter.tasks.codecs import Codecs
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.wording import Wording
from thereafter.text.conll import TaggedSentence
from thereafter.text.labelled import LabelledText
from thereafter.text.pairs import SentencePair

Answers = Sequence[object]


def resampled_answers(task: str, examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled | None:
    """What is summed over examples, and the figures of the sums; None for a task that has none."""
    known = _RESAMPLED.get(task)
    return None if known is None else known(examples, answers, codecs)


def _classes(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    labels = codecs["labels"]
    gold = [one.label for one in examples if isinstance(one, LabelledText)]
    predicted = [str(answer) for answer in answers]
    names = labels.forms if isinstance(labels, Lexicon) else sorted({*gold, *predicted})
    return ResampledClasses.of(gold, predicted, names)


def _tags(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    gold = [list(one.tags) for one in examples if isinstance(one, TaggedSentence)]
    return ResampledTags.of(gold, [list(map(str, answer)) for answer in answers if isinstance(answer, list | tuple)])


def _translations(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    target = codecs["target"]
    references = [one.target for one in examples if isinstance(one, SentencePair)]
    lowercase = isinstance(target, Wording) and target.lower
    return ResampledTranslations.of(list(map(str, answers)), references, lowercase=lowercase)


_RESAMPLED: Mapping[str, Callable[[Sequence[object], Answers, Codecs], Resampled]] = {
    "classify": _classes,
    "tag": _tags,
    "translate": _translations,
}
