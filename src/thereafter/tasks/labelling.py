"""What tasks that answer with labels have in common: classifiers of texts, of series, of pictures and of clips.

How well examples are sorted into classes, with one label each or several: for each class, with `right` the texts that
have it and were given it,

    precision = right / given it        recall = right / have it        F1 = 2 right / (given it + have it)

Zero division: a quotient over 0 is 0, as in scikit-learn's default. Macro F1 is the plain mean of F1 over all classes
that occur on either side (or over `labels`, where they are given): one that is only ever predicted counts with F1 0.

An example may have several labels: a clip of a moving digit has two, the digit and the direction. Each has its
accuracy, with Wilson's 95 % interval (`bootstrap.py`); an example counts as right in `together` where every label is.

Shapes: B examples, L labels; N texts, K classes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypedDict, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError, FormatError, OptionError
from thereafter.evaluation.bootstrap import Floats, Resampled, wilson
from thereafter.tasks.answers import TOGETHER, NamedPrediction
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.task import Baselines, Comparing, Explaining, N, S, Tabulating, Task, X


@dataclass(frozen=True)
class ClassScore:
    """One class (or tag, or kind of span): `right` of the `support` that there are, with `predicted` given.

    >>> print(ClassScore(right=3, predicted=4, support=6))
    precision 75.0 %, recall 50.0 %, F1 60.0 % (3 right of 6, 4 predicted)
    """

    right: int = 0
    predicted: int = 0
    support: int = 0

    @property
    def precision(self) -> float:
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        both = self.predicted + self.support
        return 2 * self.right / both if both else 0.0

    def __add__(self, other: ClassScore) -> ClassScore:
        return ClassScore(self.right + other.right, self.predicted + other.predicted, self.support + other.support)

    def row(self, by: str, name: str) -> Row:
        """A row of a table of several: what it is one of, which, its figures."""
        return {"by": by, "name": name, **self.as_dict()}

    def as_dict(self) -> dict[str, float]:
        """Counts and quotients, for JSON."""
        counts = {"right": self.right, "predicted": self.predicted, "support": self.support}
        return counts | {"precision": self.precision, "recall": self.recall, "f1": self.f1}

    def __str__(self) -> str:
        return (
            f"precision {self.precision:.1%}, recall {self.recall:.1%}, F1 {self.f1:.1%} "
            f"({self.right:,} right of {self.support:,}, {self.predicted:,} predicted)"
        ).replace("%", " %")


@dataclass(frozen=True)
class Classes(Tabular):
    """The verdicts over many texts: how often a text of one class was given another (`counts`, gold first)."""

    labels: tuple[str, ...]
    counts: Mapping[tuple[str, str], int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def right(self) -> int:
        return sum(count for (gold, given), count in self.counts.items() if gold == given)

    @property
    def accuracy(self) -> float:
        return self.right / self.total

    @property
    def per_class(self) -> dict[str, ClassScore]:
        """Precision, recall and F1 of each class."""
        support: Counter[str] = Counter()
        predicted: Counter[str] = Counter()
        for (gold, given), count in self.counts.items():
            support[gold] += count
            predicted[given] += count
        return {
            label: ClassScore(self.counts.get((label, label), 0), predicted[label], support[label])
            for label in self.labels
        }

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes, each counting the same however rare it is."""
        return math.fsum(score.f1 for score in self.per_class.values()) / len(self.labels)

    @property
    def confusion(self) -> NDArray[np.int64]:
        """How often, [K, K]: rows are the right classes, columns the predicted ones, both in the order of `labels`."""
        at = {label: k for k, label in enumerate(self.labels)}
        matrix_KK = np.zeros((len(at), len(at)), dtype=np.int64)
        for (gold, given), count in self.counts.items():
            matrix_KK[at[gold], at[given]] = count
        return matrix_KK

    def confusions(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: the right class, the predicted one, how often."""
        wrong = ((gold, given, count) for (gold, given), count in self.counts.items() if gold != given)
        return sorted(wrong, key=lambda mistake: (-mistake[2], mistake[:2]))[:most]

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "total": self.total,
            "classes": {label: score.as_dict() for label, score in self.per_class.items()},
            "labels": list(self.labels),
            "confusion": self.confusion.tolist(),
        }

    def to_rows(self) -> list[Row]:
        """A row for all texts, whose precision, recall and F1 are the accuracy, and one for each class."""
        rows = [ClassScore(self.right, self.total, self.total).row("all", "")]
        return rows + [score.row("class", label) for label, score in self.per_class.items()]

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy:.2%} ({self.right:,} of {self.total:,}), "
            f"macro F1 {self.macro_f1:.2%} over {len(self.labels):,} classes"
        ).replace("%", " %")


def measure_classes(gold: Sequence[str], predicted: Sequence[str], labels: Iterable[str] | None = None) -> Classes:
    """Predicted labels against the right ones; `labels` names and orders all classes there are.

    >>> print(measure_classes(["pos", "neg", "pos", "pos"], ["pos", "pos", "pos", "neg"]))
    accuracy 50.00 % (2 of 4), macro F1 33.33 % over 2 classes
    """
    if len(gold) != len(predicted):
        raise OptionError(f"there are {len(gold):,} labels and {len(predicted):,} predictions, expected one for each")
    if not gold:
        raise EmptyCorpusError("there are no labels to judge predictions by; expected at least one")
    counts = Counter(zip(gold, predicted, strict=True))
    present = {label for pair in counts for label in pair}
    known = tuple(sorted(present) if labels is None else dict.fromkeys(labels))
    if strange := present.difference(known):
        raise OptionError(f"labels names {', '.join(known)}, but {', '.join(sorted(strange))} occurs; expected all")
    return Classes(known, dict(counts))


Labels = Mapping[str, str]
"""A label for each column."""


@dataclass(frozen=True)
class SeveralLabels(Tabular):
    """The verdicts over many examples: those of each column, and in how many examples all columns are right."""

    columns: Mapping[str, Classes]
    all_right: int
    total: int

    @property
    def together(self) -> float:
        """The share of examples that are right in every column."""
        return self.all_right / self.total

    @property
    def shares(self) -> dict[str, tuple[int, int]]:
        """How many are right of how many, by column; all columns at once, where there are several, last."""
        counted = {name: (classes.right, classes.total) for name, classes in self.columns.items()}
        return counted | ({TOGETHER: (self.all_right, self.total)} if len(self.columns) > 1 else {})

    def interval(self, name: str) -> tuple[float, float]:
        """The 95 % interval of a share of `shares`."""
        right, total = self.shares[name]
        low, high = wilson(right / total, total)
        return max(0.0, float(low)), min(1.0, float(high))

    def confusions(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent mistakes over all columns: the right label, the predicted one, how often."""
        named = len(self.columns) > 1
        wrong = [
            (f"{name} {gold}" if named else gold, given, count)
            for name, classes in self.columns.items()
            for gold, given, count in classes.confusions(most)
        ]
        return sorted(wrong, key=lambda mistake: (-mistake[2], mistake[:2]))[:most]

    def as_dict(self) -> Table:
        """All figures, for JSON: the accuracy of each column by its name."""
        figures: Table = {name: right / total for name, (right, total) in self.shares.items()}
        figures |= {"total": self.total}
        figures["intervals"] = {name: list(self.interval(name)) for name in self.shares}
        return figures | {"columns": {name: classes.as_dict() for name, classes in self.columns.items()}}

    def to_rows(self) -> list[Row]:
        """A row for each column and all of them, and one for each label."""
        rows = [ClassScore(right, total, total).row("column", name) for name, (right, total) in self.shares.items()]
        return rows + [
            score.row(name, label)
            for name, classes in self.columns.items()
            for label, score in classes.per_class.items()
        ]

    def __str__(self) -> str:
        parts = []
        for name, counted in self.shares.items():
            low, high = self.interval(name)
            parts.append(f"{name} {counted[0] / counted[1]:.2%} ({100 * low:.2f} to {100 * high:.2f})")
        return f"{', '.join(parts)} of {self.total:,} right".replace("%", " %")


def measure_labels(
    gold: Sequence[Labels], predicted: Sequence[Labels], names: Mapping[str, Sequence[str]]
) -> SeveralLabels:
    """Predicted labels against the right ones, a mapping for each example; `names` has all labels of each column.

    >>> gold, given = ([{"digit": "7", "way": way} for way in several] for several in ("EW", "EE"))
    >>> print(measure_labels(gold, given, {"digit": ["7"], "way": ["E", "W"]}))
    digit 100.00 % (34.24 to 100.00), way 50.00 % (9.45 to 90.55), together 50.00 % (9.45 to 90.55) of 2 right
    """
    if len(gold) != len(predicted):
        raise OptionError(f"there are {len(gold):,} examples and {len(predicted):,} predictions; expected one for each")
    if not gold or not names:
        raise EmptyCorpusError("there are no labels to judge predictions by; expected at least one")
    columns = {
        name: measure_classes([one[name] for one in gold], [one[name] for one in predicted], known)
        for name, known in names.items()
    }
    right = sum(all(one[name] == other[name] for name in names) for one, other in zip(gold, predicted, strict=True))
    return SeveralLabels(columns, right, len(gold))


@dataclass(frozen=True, eq=False)
class ResampledClasses:
    """Accuracy and macro F1 of labels. Statistics of a text: whether it is right, and for each of K classes whether it
    was given it rightly, was given it, and has it."""

    statistics_NS: Floats
    classes: int

    @classmethod
    def of(cls, gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> ResampledClasses:
        """Predicted labels against the right ones; `labels` are all classes there are."""
        at = {label: k for k, label in enumerate(labels)}
        gold_N, given_N = (np.array([at[label] for label in several]) for several in (gold, predicted))
        eye = np.eye(len(at))
        has_NK, given_NK = eye[gold_N], eye[given_N]
        return cls(np.hstack([has_NK * given_NK, given_NK, has_NK]), len(at))

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        right_RK, given_RK, has_RK = np.split(sums_RS, 3, axis=1)
        f1_RK = 2 * right_RK / np.maximum(given_RK + has_RK, 1)
        return {"accuracy": right_RK.sum(axis=1) / has_RK.sum(axis=1), "macro_f1": f1_RK.mean(axis=1)}


@dataclass(frozen=True, eq=False)
class ResampledLabels:
    """The accuracy of each column and of all together; statistics of an example: whether it is right in each, and 1.
    See `bootstrap.Resampled`."""

    statistics_NS: Floats
    names: tuple[str, ...]

    @classmethod
    def of(cls, gold: Sequence[Labels], predicted: Sequence[Labels], names: Sequence[str]) -> ResampledLabels:
        """Predicted labels against the right ones."""
        right_NC = np.array(
            [[one[name] == other[name] for name in names] for one, other in zip(gold, predicted, strict=True)], bool
        )
        columns = [right_NC] + ([right_NC.all(1, keepdims=True)] if len(names) > 1 else [])
        statistics = np.hstack([*columns, np.ones((len(right_NC), 1), bool)]).astype(np.float64)
        return cls(statistics, (*names, TOGETHER) if len(names) > 1 else tuple(names))

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        total_R = sums_RS[:, -1]
        return {name: sums_RS[:, at] / total_R for at, name in enumerate(self.names)}


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


def most_frequent(labels: Sequence[str]) -> str:
    """The most frequent label; of equal ones the first in the alphabet."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))
