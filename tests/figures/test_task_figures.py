"""Figures of tasks hold what was measured: weights, BLEU by length, counts; and are drawn from a saved file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.figures import style, tasks
from thereafter.figures.catalogue import draw
from thereafter.inspection.measurement import Measurement
from thereafter.tasks.labelling import measure_classes
from thereafter.tasks.translate.measures import LengthBin

WEIGHTS = [[0.9, 0.06, 0.04], [0.1, 0.7, 0.2], [0.0, 0.2, 0.8]]


@pytest.fixture
def aligned() -> Measurement:
    source, said = ["ein", " Haus", "</s>"], ["a", " house", "</s>"]
    return tasks.measured_alignment(source, said, WEIGHTS, model="a GRU", text="ein Haus")


def bleu(model: str, *scores: float, low: int = 1) -> Measurement:
    bins = [LengthBin(low + 5 * k, low + 5 * k + 4, 10 + k, score) for k, score in enumerate(scores)]
    return tasks.measured_bleu(bins, model=model, text="a test", signature="tok:13a")


def test_the_alignment_has_a_row_for_each_token_said(aligned: Measurement):
    drawn = tasks.alignment(aligned)
    (matrix,) = drawn.plot.data
    assert np.allclose(matrix.z, WEIGHTS)
    assert list(matrix.text[0]) == ["0.90", "0.06", ""]  # what is below 0.05 is left to its colour
    assert drawn.plot.layout.yaxis.autorange == "reversed"  # the first word said is above
    # a mark is text, not markup, and the space of a token is no part of its name
    assert list(drawn.plot.layout.xaxis.ticktext) == ["ein", "Haus", "&lt;/s&gt;"]
    table = drawn.table
    assert list(zip(table["said"], table["source"], table["weight"], strict=True))[5] == ("house", "</s>", 0.2)
    for part in ("a GRU", "ein Haus"):
        assert part in drawn.caption


def test_a_long_alignment_is_drawn_without_numbers():
    many = 24
    found = tasks.measured_alignment(["x"] * many, ["y"] * many, np.eye(many), model="m", text="t")
    assert tasks.alignment(found).plot.data[0].text is None


def test_bleu_by_length_has_a_line_for_each_model():
    drawn = tasks.bleu_by_length([bleu("no attention", 30.0, 20.0), bleu("additive attention", 34.0, 36.0, 30.5)])
    assert [line.name for line in drawn.plot.data] == ["no attention", "additive attention"]
    assert [list(line.y) for line in drawn.plot.data] == [[30.0, 20.0, None], [34.0, 36.0, 30.5]]
    assert list(drawn.plot.layout.xaxis.ticktext) == ["1-5<br>10", "6-10<br>11", "11-15<br>12"]
    assert drawn.table["BLEU"] == [30.0, 20.0, 34.0, 36.0, 30.5]
    for part in ("tok:13a", "no attention", "additive attention", "a test"):
        assert part in drawn.caption


def test_measurements_of_one_name_are_seeds():
    drawn = tasks.bleu_by_length([bleu("gru", 30.0, 20.0), bleu("gru", 33.0, 20.0)])
    (line,) = drawn.plot.data
    assert list(line.y) == [31.5, 20.0]
    assert list(line.error_y.array) == [1.5, 0.0]
    assert drawn.table["least"] == [30.0, 20.0]
    assert "2 seeds" in drawn.caption


def test_two_models_of_one_kind_have_two_colours():
    drawn = tasks.bleu_by_length([bleu("GRU, none", 1.0), bleu("GRU, dot", 2.0), bleu("Transformer", 3.0)])
    tints = [line.line.color for line in drawn.plot.data]
    assert len(set(tints)) == 3
    assert tints[2] == style.PURPLE


def test_the_confusion_has_counts_and_shares():
    found = measure_classes(["a", "a", "a", "b", "c"], ["a", "a", "b", "b", "a"], ["a", "b", "c"])
    measured = tasks.measured_confusion(found.labels, found.confusion, model="Naive Bayes", text="reviews")
    drawn = tasks.confusion(measured)
    (matrix,) = drawn.plot.data
    assert np.allclose(matrix.z, [[2 / 3, 1 / 3, 0], [0, 1, 0], [1, 0, 0]])
    assert [list(row) for row in matrix.text] == [["2", "1", ""], ["", "1", ""], ["1", "", ""]]
    assert sum(drawn.table["count"]) == 5
    assert "3 of 5 right (60.0 %)" in drawn.caption
    assert "Naive Bayes on reviews" in drawn.caption


def test_a_class_that_never_occurs_has_a_row_of_zeros():
    drawn = tasks.confusion(tasks.measured_confusion(["a", "b"], [[3, 0], [0, 0]], model="m", text="t"))
    assert np.allclose(drawn.plot.data[0].z, [[1, 0], [0, 0]])


def test_figures_are_drawn_from_saved_files(aligned: Measurement, tmp_path: Path):
    (one,) = draw("alignment", [aligned.save(tmp_path / "one.npz")])
    assert one.csv() == tasks.alignment(aligned).csv()
    paths = [bleu(name, 10.0).save(tmp_path / f"{name}.npz") for name in ("first", "second")]
    (both,) = draw("bleu-by-length", paths)
    assert both.table["model"] == ["first", "second"]
    (last,) = draw(
        "confusion", [tasks.measured_confusion(["a", "b"], np.eye(2), model="m", text="t").save(tmp_path / "c.npz")]
    )
    assert last.table["count"] == [1, 0, 0, 1]


def test_what_does_not_fit_is_refused():
    with assert_refused(OptionError, "(2, 3)", "(3, 2)"):
        tasks.measured_alignment(["a", "b"], ["x", "y", "z"], np.ones((2, 3)), model="m", text="t")
    with assert_refused(OptionError, 2):
        tasks.measured_confusion(["a", "b"], np.ones((2, 3)), model="m", text="t")
    with assert_refused(OptionError, "sources"):
        tasks.measured_bleu([], model="m", text="t")
    with assert_refused(OptionError, "bleu-by-length"):
        tasks.bleu_by_length([tasks.measured_confusion(["a"], [[1]], model="m", text="t")])
