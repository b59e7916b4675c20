"""How well words are tagged: accuracy, on words that training knew and on others, by tag, and whole spans.

Span F1 is that of seqeval's default mode, which is conlleval's (Tjong Kim Sang and Buchholz 2000): a span is right
where its kind, its first and its last word all are. Tags are `B-kind`, `I-kind`, `O` (also `E-kind` and `S-kind`, and
without a kind). Tags that break the scheme still make spans: between two words

    one ends    after E or S, where B, S or O follows B or I, or where the kind changes
    one begins  at B or S, where I or E follows O, E or S, or where the kind changes

so an `I-PER` after `O` or after `I-LOC` begins a span. A quotient over 0 is 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import OptionError
from thereafter.evaluation.agreement import Tally
from thereafter.evaluation.bootstrap import Floats
from thereafter.tasks.labelling import Classes, ClassScore, measure_classes

Tags = Sequence[Sequence[str]]

RARE = 5
"""Words that training saw so many times at most are rare."""

_SPAN_TAG = re.compile(r"O|[BIES](?:-.*)?", re.DOTALL)


@dataclass(frozen=True)
class Spans:
    """Right, predicted and existing spans by kind."""

    per_kind: dict[str, ClassScore]

    @property
    def overall(self) -> ClassScore:
        """All kinds together: the F1 that papers report (micro average)."""
        return sum(self.per_kind.values(), ClassScore())

    @property
    def macro_f1(self) -> float:
        return sum(score.f1 for score in self.per_kind.values()) / len(self.per_kind) if self.per_kind else 0.0

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        return {
            **self.overall.as_dict(),
            "macro_f1": self.macro_f1,
            "kinds": {kind: score.as_dict() for kind, score in self.per_kind.items()},
        }

    def __str__(self) -> str:
        return f"spans: {self.overall}"


@dataclass(frozen=True)
class TaggingScore(Tabular):
    """The verdicts over tagged sentences. `unknown`, `known` and `rare` are None where no training words were given."""

    tags: Classes
    sentences: Tally
    unknown: Tally | None = None
    known: Tally | None = None
    rare: Tally | None = None
    spans: Spans | None = None

    @property
    def accuracy(self) -> float:
        """The share of words with the right tag."""
        return self.tags.accuracy

    @property
    def per_tag(self) -> dict[str, ClassScore]:
        return self.tags.per_class

    def confusions(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: the right tag, the one given, how often."""
        return self.tags.confusions(most)

    def _groups(self) -> dict[str, Tally | None]:
        return {"sentences": self.sentences, "unknown": self.unknown, "known": self.known, "rare": self.rare}

    def to_rows(self) -> list[Row]:
        """A row for all words, for whole sentences, for unknown, known and rare words, each tag, each kind of span.

        Where something is counted once on either side, precision, recall and F1 are the accuracy.
        """
        rows = self.tags.to_rows()[:1]
        for name, group in self._groups().items():
            if group is not None:
                rows.append(ClassScore(int(group.right), group.total, group.total).row("words", name))
        rows += [score.row("tag", tag) for tag, score in self.per_tag.items()]
        return rows + [score.row("span", kind) for kind, score in (self.spans.per_kind if self.spans else {}).items()]

    def as_dict(self) -> Table:
        """All figures, for JSON; a share of nothing is None."""
        groups = self._groups()
        return {
            "accuracy": self.accuracy,
            "tokens": self.tags.total,
            **{
                name: {
                    "right": int(group.right),
                    "total": group.total,
                    "accuracy": group.accuracy if group.total else None,
                }
                for name, group in groups.items()
                if group is not None
            },
            "tags": {tag: score.as_dict() for tag, score in self.per_tag.items()},
            "confusions": [list(mistake) for mistake in self.confusions(20)],
            "spans": None if self.spans is None else self.spans.as_dict(),
        }

    def __str__(self) -> str:
        named = (("unknown", self.unknown), ("known", self.known), ("rare", self.rare))
        groups = "".join(
            f", {name} words {group.accuracy:.2%} of {group.total:,}"
            for name, group in named
            if group is not None and group.total
        )
        line = f"accuracy {self.accuracy:.2%} ({self.tags.right:,} of {self.tags.total:,} words){groups}"
        return line.replace("%", " %") + ("" if self.spans is None else f"; {self.spans}")


def measure_tagging(
    gold: Tags,
    predicted: Tags,
    words: Sequence[Sequence[str]] | None = None,
    training: Collection[str] | None = None,
) -> TaggingScore:
    """Predicted tags against the right ones, sentence by sentence.

    With `words` and the words of the `training` data, words it knew are counted apart from others; where `training` has
    counts (a Counter), words it saw `RARE` times or less are counted too. Spans are measured where all tags are those
    of spans.

    >>> print(measure_tagging([["DET", "NOUN"]], [["DET", "VERB"]], [["the", "gnu"]], {"the", "a"}))
    accuracy 50.00 % (1 of 2 words), unknown words 0.00 % of 1, known words 100.00 % of 1
    """
    _check(gold, predicted, "predicted tags")
    tags = measure_classes([tag for one in gold for tag in one], [tag for one in predicted for tag in one])
    whole = Tally(sum(list(one) == list(other) for one, other in zip(gold, predicted, strict=True)), len(gold))
    spans = measure_spans(gold, predicted) if are_span_tags(tags.labels) else None
    if (words is None) != (training is None):
        raise OptionError("words and training are given one without the other; expected both, or neither")
    if words is None or training is None:
        return TaggingScore(tags, whole, spans=spans)
    _check(gold, words, "words")
    tallies = {"unknown": Tally(), "known": Tally(), "rare": Tally()}
    verdicts: Counter[tuple[str, bool]] = Counter()
    for sentence, right_tags, given_tags in zip(words, gold, predicted, strict=True):
        for word, right, given in zip(sentence, right_tags, given_tags, strict=True):
            verdicts[word, right == given] += 1
    for (word, is_right), count in verdicts.items():
        tally = Tally(count if is_right else 0, count)
        name = "known" if word in training else "unknown"
        tallies[name] += tally
        if isinstance(training, Mapping) and name == "known" and training[word] <= RARE:
            tallies["rare"] += tally
    rare = tallies["rare"] if isinstance(training, Mapping) else None
    return TaggingScore(tags, whole, tallies["unknown"], tallies["known"], rare, spans)


def measure_spans(gold: Tags, predicted: Tags) -> Spans:
    """Spans that are, spans that were predicted, and those that are both; by kind, in the order of the alphabet.

    >>> print(measure_spans([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]]))
    spans: precision 50.0 %, recall 100.0 %, F1 66.7 % (1 right of 1, 2 predicted)
    """
    _check(gold, predicted, "predicted tags")
    support: Counter[str] = Counter()
    given: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for one, other in zip(gold, predicted, strict=True):
        true, predicted_spans = set(spans_of(one)), set(spans_of(other))
        support.update(kind for kind, _, _ in true)
        given.update(kind for kind, _, _ in predicted_spans)
        right.update(kind for kind, _, _ in true & predicted_spans)
    kinds = sorted(support.keys() | given.keys())
    return Spans({kind: ClassScore(right[kind], given[kind], support[kind]) for kind in kinds})


def spans_of(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The spans of one sentence: kind ("_" where tags have none), first word, last word.

    >>> spans_of(["B-PER", "I-PER", "O", "I-LOC"])
    [('PER', 0, 1), ('LOC', 3, 3)]
    """
    spans: list[tuple[str, int, int]] = []
    before, kind_before, begun = "O", "_", 0
    for at, tag in enumerate([*tags, "O"]):
        if _SPAN_TAG.fullmatch(tag) is None:
            raise OptionError(f"{tag!r} is no tag of a span; expected O, or B-, I-, E- or S- and a kind, as in B-PER")
        letter, kind = tag[0], tag[2:] or "_"
        changes = kind != kind_before
        if before != "O" and (before in "ES" or letter in "BSO" or changes):
            spans.append((kind_before, begun, at - 1))
        if letter != "O" and (letter in "BS" or before in "OES" or changes):
            begun = at
        before, kind_before = letter, kind
    return spans


def are_span_tags(labels: Collection[str]) -> bool:
    """Whether these are the tags of spans; a tag such as "I" alone is not enough to say so."""
    return all(map(_SPAN_TAG.fullmatch, labels)) and any(label[1:2] == "-" for label in labels)


def _check(gold: Tags, others: Tags, name: str) -> None:
    if len(gold) != len(others):
        raise OptionError(f"there are {len(gold):,} sentences of tags and {len(others):,} of {name}, expected as many")
    for number, (one, other) in enumerate(zip(gold, others, strict=True), start=1):
        if len(one) != len(other):
            raise OptionError(f"sentence {number} has {len(one)} tags and {len(other)} {name}, expected one for each")


@dataclass(frozen=True, eq=False)
class ResampledTags:
    """Accuracy of tags, and F1 of spans where the tags are those of spans; an example is a sentence."""

    statistics_NS: Floats
    has_spans: bool

    @classmethod
    def of(cls, gold: Tags, predicted: Tags) -> ResampledTags:
        """Predicted tags against the right ones, sentence by sentence."""
        rows = [
            [sum(a == b for a, b in zip(one, other, strict=True)), len(one)]
            for one, other in zip(gold, predicted, strict=True)
        ]
        has_spans = are_span_tags({tag for several in (gold, predicted) for one in several for tag in one})
        if has_spans:
            for row, one, other in zip(rows, gold, predicted, strict=True):
                true, given = set(spans_of(one)), set(spans_of(other))
                row += [len(true & given), len(given), len(true)]
        return cls(np.array(rows, np.float64), has_spans)

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        columns = sums_RS.T
        figures = {"accuracy": columns[0] / np.maximum(columns[1], 1)}
        if self.has_spans:
            figures["span_f1"] = 2 * columns[2] / np.maximum(columns[3] + columns[4], 1)
        return figures
