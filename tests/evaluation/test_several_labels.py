"""Accuracy of several labels of one example, against counting by hand and statsmodels' formula of the interval."""

from __future__ import annotations

import json
import random

import numpy as np

from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.evaluation.bootstrap import wilson
from thereafter.tasks.labelling import ResampledLabels, measure_labels

NAMES = {"digit": ["1", "2", "3"], "way": ["E", "W"]}


def drawn_labels(seed: int, count: int = 50) -> list[dict[str, str]]:
    draw = random.Random(seed)
    return [{name: draw.choice(labels) for name, labels in NAMES.items()} for _ in range(count)]


def test_each_column_and_all_together_are_counted() -> None:
    gold, given = drawn_labels(1), drawn_labels(2)
    score = measure_labels(gold, given, NAMES)
    for name in NAMES:
        right = sum(one[name] == other[name] for one, other in zip(gold, given, strict=True))
        assert score.as_dict()[name] == right / 50
        assert score.as_dict()["intervals"][name] == [float(end) for end in wilson(right / 50, 50)]
    assert score.together == sum(map(dict.__eq__, gold, given)) / 50 == score.as_dict()["together"]
    assert json.loads(json.dumps(score.as_dict()))["columns"]["way"]["labels"] == ["E", "W"]
    rows = score.to_rows()
    assert [row["name"] for row in rows] == ["digit", "way", "together", "1", "2", "3", "E", "W"]
    first, second, _ = score.confusions(3)[0]
    assert first.split()[0] in NAMES
    assert second in NAMES[first.split()[0]]


def test_one_column_has_no_figure_of_all_together() -> None:
    score = measure_labels([{"label": "a"}], [{"label": "a"}], {"label": ["a", "b"]})
    assert str(score) == "label 100.00 % (20.65 to 100.00) of 1 right"
    assert "together" not in score.as_dict()
    assert score.confusions() == []


def test_labels_that_do_not_fit_are_refused() -> None:
    with assert_refused(OptionError):
        measure_labels(drawn_labels(1), drawn_labels(2)[:3], NAMES)
    with assert_refused(EmptyCorpusError, "labels"):
        measure_labels([], [], NAMES)


def test_resampled_labels_give_the_figures_of_the_whole() -> None:
    gold, given = drawn_labels(3), drawn_labels(4)
    score, resampled = measure_labels(gold, given, NAMES), ResampledLabels.of(gold, given, list(NAMES))
    whole = resampled.figures(resampled.statistics_NS.sum(0, keepdims=True))
    assert {name: value.item() for name, value in whole.items()} == {name: score.as_dict()[name] for name in whole}
    alone = ResampledLabels.of(gold, given, ["way"])
    assert alone.names == ("way",)
    assert np.array_equal(alone.statistics_NS[:, 1], np.ones(50))
