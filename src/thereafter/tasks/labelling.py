"""What tasks that answer with one label have in common: classifiers of texts, of series and of pictures.

Shapes: B examples, L labels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, Protocol, TypedDict, TypeVar

import torch
from torch import Tensor

from thereafter.errors import FormatError
from thereafter.evaluation.bootstrap import Resampled
from thereafter.tasks.answers import NamedPrediction
from thereafter.tasks.classify.measures import Classes, ResampledClasses, measure_classes
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.task import Baselines, Comparing, Explaining, N, S, Tabulating, Task, X


class Labelled(Protocol):
    """An example with its class, which is empty where it is asked for."""

    @property
    def label(self) -> str: ...


class LabelCodecs(TypedDict):
    """What numbers the labels; a task adds what numbers its examples."""

    labels: Lexicon


AnyExample = TypeVar("AnyExample")
"""Any example, with labels or without."""
E = TypeVar("E", bound=Labelled)
C = TypeVar("C", bound=LabelCodecs)


class LabelTask(
    Comparing[E, str, C],
    Baselines[E, str],
    Tabulating[E, X, N, str, C],
    Explaining[E, X, N, C],
    Task[S, E, X, N, str, C],
    Generic[S, E, X, N, C],
):
    """An answer is a label, and the likeliest one of `chances`."""

    probabilities: ClassVar[str] = "probabilities are those of the softmax over all labels"

    @abstractmethod
    def chances(self, net: N, batch: X) -> Tensor:
        """The probability of every label, [B, L]."""

    def targets(self, examples: Sequence[E], codecs: C) -> int:
        return len(examples)

    def answers(self, net: N, batch: X, codecs: C) -> list[str]:
        return [codecs["labels"].forms[best] for best in self.chances(net, batch).argmax(-1).tolist()]

    def tabulate(
        self, net: N, batch: X, texts: Sequence[str], examples: Sequence[E], codecs: C, options: Mapping[str, object]
    ) -> list[NamedPrediction]:
        """The label of every example with the probability of all labels, in their order."""
        names, p_BL = codecs["labels"].forms, self.chances(net, batch)
        rows = []
        for text, best, p_L in zip(texts, p_BL.argmax(-1).tolist(), p_BL.tolist(), strict=True):
            columns = {"label": names[best], "probability": p_L[best]}
            columns |= {f"p_{name}": p for name, p in zip(names, p_L, strict=True)}
            rows.append(NamedPrediction(self.unit, text, [columns], names[best]))
        return rows

    def choices(self, codecs: C) -> list[str]:
        return codecs["labels"].forms

    def explain_probabilities(self, net: N) -> str:
        return self.probabilities

    def measure(self, examples: Sequence[E], answers: Sequence[str], codecs: C) -> Classes:
        return measure_classes([one.label for one in examples], answers, codecs["labels"].forms)

    def resampled(self, examples: Sequence[E], answers: Sequence[str], codecs: C) -> Resampled:
        return ResampledClasses.of([one.label for one in examples], answers, codecs["labels"].forms)


def require_known_labels(unit: str, labels: Iterable[tuple[str, str]], known: Collection[str], source: str) -> None:
    """FormatError for the first label that is not among those of the training data; `labels` have the name of their
    example before them, which is a `unit` of a `source`."""
    for name, label in labels:
        if label not in known:
            raise FormatError(
                f"the {unit} {name!r} of {source} has the label {label!r}, which the training data never has; "
                f"expected one of {', '.join(sorted(known))}"
            )


def last_of_each(keys: Sequence[Hashable], share: float) -> set[int]:
    """The places of the last examples of each key, of each its share, rounded."""
    places: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        places.setdefault(key, []).append(at)
    return {at for own in places.values() for at in own[len(own) - round(share * len(own)) :]}


def split_at(examples: Sequence[AnyExample], last: Collection[int]) -> tuple[list[AnyExample], list[AnyExample]]:
    """The examples to learn from, and those of these places."""
    return [one for at, one in enumerate(examples) if at not in last], [examples[at] for at in sorted(last)]


def hold_out_by_label(examples: Sequence[E], share: float) -> tuple[list[E], list[E], str]:
    """The last examples of every label, so that a file that is sorted by label has all of them on both sides."""
    labels = [one.label for one in examples]
    last = last_of_each(labels, share)
    if not last:  # a few of each label: at least one is held out, of the most frequent
        ((frequent, _),) = Counter(labels).most_common(1)
        last = {max(at for at, label in enumerate(labels) if label == frequent)}
    return *split_at(examples, last), ", of each label its share,"


def label_lexicon(examples: Iterable[Labelled]) -> Lexicon:
    """The labels of examples, sorted."""
    return Lexicon(sorted({one.label for one in examples}), opened=False)


def numbered_labels(examples: Sequence[Labelled], labels: Lexicon) -> Tensor | None:
    """The numbers of the labels, [B]; None where they are asked for."""
    if not all(one.label for one in examples):
        return None
    return torch.from_numpy(labels.encode(one.label for one in examples))


def ranked(names: Sequence[str], p_L: Sequence[float]) -> dict[str, float]:
    """The probability of every label, the likeliest first."""
    return {names[at]: p_L[at] for at in sorted(range(len(names)), key=lambda at: -p_L[at])}
