"""Figures of a task as functions of sums over examples, so that any resample of the examples can be measured.

Each class here knows the statistics of every example, [N, S], and turns their sums over R resamples, [R, S], into the
figures that are reported, [R] each: exactly those that the task's own measure gives for the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import installed, require
from thereafter.tasks.tag.measures import Tags, are_span_tags, spans_of
from thereafter.vision.captioning.measures import bleu_of_sums, bleu_statistics, cider_of_each, counted_texts

Floats = NDArray[np.float64]


class Resampled(Protocol):
    """Answers of one model, ready to be resampled."""

    @property
    def statistics_NS(self) -> Floats:
        """What is summed, an example a row."""

    def figures(self, sums_RS: Floats) -> Mapping[str, Floats]:
        """The figures by name, each [R]; more is better in all of them."""


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


@dataclass(frozen=True, eq=False)
class ResampledForecasts:
    """The mean squared and the mean absolute error of forecasts, both negative, since more is better.

    Statistics of a window: its squared errors, its absolute errors, how many values they are of. Windows that overlap
    err together; `block` neighbours in a row, about a horizon, are one example then.
    """

    statistics_NS: Floats

    @classmethod
    def of(cls, actual: NDArray[np.floating], mean: NDArray[np.floating], *, block: int = 1) -> ResampledForecasts:
        """Forecasts against what came, a window a row, of any shape behind it; NaN is missing."""
        errors = np.asarray(actual, np.float64) - mean
        errors_WV = errors.reshape(len(errors), -1)
        known_WV = ~np.isnan(errors_WV)
        sums = ((errors_WV**2).sum(1, where=known_WV), np.abs(errors_WV).sum(1, where=known_WV), known_WV.sum(1))
        statistics_WS = np.stack(sums, axis=1).astype(np.float64)
        return cls(np.add.reduceat(statistics_WS, np.arange(0, len(errors), max(1, block)), axis=0))

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        squared_R, absolute_R, count_R = sums_RS.T
        count_R = np.maximum(count_R, 1)
        return {"mse": -squared_R / count_R, "mae": -absolute_R / count_R}


@dataclass(frozen=True, eq=False)
class ResampledCaptions:
    """BLEU-1 to BLEU-4 and CIDEr-D of captions. Statistics of a picture: those of BLEU, its CIDEr-D, and 1.

    CIDEr-D weighs k-grams by all pictures of the test set, whichever of them are drawn.
    """

    statistics_NS: Floats

    @classmethod
    def of(cls, answers: Sequence[str], references: Sequence[Sequence[str]]) -> ResampledCaptions:
        """Captions, one a picture, against those that people wrote of it."""
        counted, _ = counted_texts(answers, references)
        return cls(np.column_stack([bleu_statistics(counted), cider_of_each(counted), np.ones(len(answers))]))

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        scores_RO = bleu_of_sums(sums_RS[:, :-2])
        bleus = {f"bleu_{n}": score_R for n, score_R in enumerate(scores_RO.T, 1)}
        return {**bleus, "cider_d": sums_RS[:, -2] / np.maximum(sums_RS[:, -1], 1)}


class _Score(Protocol):
    @property
    def score(self) -> float:
        """0 to 100."""


class _Metric(Protocol):
    """What sacreBLEU's own tests of significance ask of its metrics."""

    def _extract_corpus_statistics(self, hypotheses: list[str], references: list[list[str]]) -> list[list[float]]:
        """The statistics of every sentence."""

    def _compute_score_from_stats(self, stats: Floats) -> _Score:
        """The score of sums of statistics."""


@dataclass(frozen=True, eq=False)
class ResampledTranslations:
    """Exact answers, and BLEU and chrF where sacreBLEU is installed: its own statistics, and its own scores of them."""

    statistics_NS: Floats
    widths: tuple[int, ...]
    lowercase: bool

    @classmethod
    def of(cls, answers: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> ResampledTranslations:
        """Translations against one reference each."""
        both = [
            (one.lower(), other.lower()) if lowercase else (one, other)
            for one, other in zip(answers, references, strict=True)
        ]
        exact = np.array([[one.split() == other.split()] for one, other in both], np.float64)
        tables = [np.hstack([exact, np.ones_like(exact)])]
        for metric in _metrics(lowercase).values():
            tables.append(np.array(metric._extract_corpus_statistics(list(answers), [list(references)]), np.float64))
        return cls(np.hstack(tables), tuple(table.shape[1] for table in tables), lowercase)

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        shares_RS, *tables = np.split(sums_RS, np.cumsum(self.widths)[:-1], axis=1)
        figures = {"exact": shares_RS[:, 0] / shares_RS[:, 1]}
        for (name, metric), table_RS in zip(_metrics(self.lowercase).items(), tables, strict=True):
            scores = [metric._compute_score_from_stats(sums_S).score for sums_S in table_RS]
            figures[name] = np.array(scores, np.float64)
        return figures


def _metrics(lowercase: bool) -> dict[str, _Metric]:
    """BLEU and chrF as `translation.measure_translation` has them; none where sacreBLEU is not installed."""
    if not installed("sacrebleu"):
        return {}
    metrics = require("sacrebleu", "measuring translations (BLEU, chrF)").metrics
    return {
        "bleu": metrics.BLEU(tokenize="13a", lowercase=lowercase, force=True),
        "chrf": metrics.CHRF(lowercase=lowercase),
    }
