"""Pictures of memory and agreement: drawn from small measurements, labelled, captioned, with the numbers as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.figures.figure import Figure
from thereafter.figures.memory import (
    accuracy_by_congruence,
    accuracy_by_distance,
    accuracy_by_group,
    accuracy_by_n,
    expectation_along,
    information_decay,
    word_class_by_layer,
)
from thereafter.inspection.measurement import Measurement

pytest.importorskip("plotly")


def about(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "trained_on": "agreement", "text": "12 new sentences"} | more


def over(axis: str, arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    made = {name: np.array(values) for name, values in arrays.items()}
    return made, dict.fromkeys(made, (axis,))


def number(model: str, bits: list[float]) -> Measurement:
    cells = {name: np.array([bits]) for name in ("accuracy", "control", "chance", "bits", "control_bits")}
    arrays = {"layer": np.array(["l0"]), "distance": np.arange(len(bits)), **cells}
    axes: dict[str, tuple[str, ...]] = {"layer": ("layer",), "distance": ("distance",)}
    return Measurement("probe-number", arrays, axes | dict.fromkeys(cells, ("layer", "distance")), about(model))


def asked(model: str, accuracy: list[float]) -> Measurement:
    n = len(accuracy)
    arrays, axes = over("n", {"n": range(1, n + 1), "accuracy": accuracy, "chance": [0.25] * n, "total": [9] * n})
    return Measurement("memory", arrays, axes, about(model, task="remember-first", question="which", longest=2))


def judged(model: str, right: list[int]) -> Measurement:
    arrays: dict[str, Any] = {"distance": np.array([0, 1, 2, 7]), "right_distance": np.array(right, float)}
    arrays |= {"total_distance": np.array([10, 10, 10, 10]), "congruence": np.array(["congruent", "incongruent"])}
    arrays |= {"right_congruence": np.array([8.0, 4.0]), "total_congruence": np.array([10, 10])}
    return Measurement("agreement", arrays, {name: (name.split("_")[-1],) for name in arrays}, about(model))


def weighed(model: str, p: list[list[float]]) -> Measurement:
    arrays = {"step": np.array(["the", "dog"]), "word": np.array(["was", "were"]), "probability": np.array(p)}
    axes = {"step": ("step",), "word": ("word",), "probability": ("step", "word")}
    return Measurement("expectation", arrays, axes, about(model, text="the dog"))


def classes(model: str) -> Measurement:
    cells = {"accuracy": [1, 0.9, 0.8], "control": [0.7, 0.5, 0.4], "chance": [0.2] * 3, "bits": [2.0, 1.5, 1.0]}
    arrays, axes = over("layer", {"layer": ["words", "l0", "l1"], **cells})
    return Measurement("probe-class", arrays, axes, about(model))


def pairs(model: str) -> Measurement:
    cells = {
        "group": ["all", "syntax"],
        "by": ["", "field"],
        "accuracy": [0.75, 0.5],
        "nats": [1.0, 0.1],
        "total": [4, 2],
    }
    arrays, axes = over("group", cells)
    return Measurement("pairs", arrays, axes, about(model))


@pytest.fixture(scope="module")
def drawn() -> dict[str, Figure]:
    return {
        "decay": information_decay([number("rnn", [0.9, 0.4, 0.1]), number("lstm", [1.0, 0.9, 0.9])]),
        "n": accuracy_by_n([asked("rnn", [1, 0.5, 0.25]), asked("lstm", [1, 1, 0.5]), asked("lstm", [1, 0.5, 1])]),
        "distance": accuracy_by_distance([judged("rnn", [9, 8, 6, 5]), judged("rnn", [9, 6, 6, 7])]),
        "congruence": accuracy_by_congruence([judged("rnn", [9, 8, 6, 5]), judged("lstm", [9, 9, 9, 9])]),
        "expectation": expectation_along([weighed("rnn", [[0.1, 0.1], [0.03, 0.01]])], verb=2),
        "class": word_class_by_layer([classes("lstm")]),
        "pairs": accuracy_by_group([pairs("rnn")]),
    }


NAMES = ("decay", "n", "distance", "congruence", "expectation", "class", "pairs")


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_has_labels_a_caption_and_numbers(drawn: dict[str, Figure], name: str):
    figure = drawn[name]
    assert figure.plot.layout.xaxis.title.text
    assert figure.plot.layout.yaxis.title.text
    assert figure.title
    assert ("rnn" in figure.caption) or ("lstm" in figure.caption)
    assert "\n" not in figure.caption
    assert len(figure.table["model"]) > 1
    assert any(trace.y is not None and len(trace.y) for trace in figure.plot.data)


def test_seeds_are_one_line_with_a_band(drawn: dict[str, Figure]):
    named = [trace.name for trace in drawn["n"].plot.data if trace.showlegend is not False]
    assert named == ["rnn", "lstm", "chance"]
    [lstm] = [trace for trace in drawn["n"].plot.data if trace.name == "lstm"]
    assert list(lstm.y) == [1, 0.75, 0.75]
    [band] = [trace for trace in drawn["n"].plot.data if trace.fill == "toself"]
    assert list(band.y) == [1, 1, 1, 0.5, 0.5, 1]
    assert "2 seeds" in drawn["n"].caption


def test_distances_are_binned_and_their_spread_is_in_the_table(drawn: dict[str, Figure]):
    table = drawn["distance"].table
    assert table["words between"] == ["0", "1-2", "3-5", "6-10"]
    assert table["mean"][:2] == pytest.approx([0.9, 0.65])
    assert (table["least"][1], table["most"][1]) == pytest.approx((0.6, 0.7))
    assert table["sentences"] == [10, 20, 0, 10]
    assert np.isnan(table["mean"][2])
    one = accuracy_by_distance([judged("rnn", [9, 8, 6, 5])])
    # 9 of 10: the interval of Wilson 1927 as tables have it
    assert (one.table["least"][0], one.table["most"][0]) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert "95 % interval" in one.caption


def test_an_expectation_is_the_share_of_the_first_word(drawn: dict[str, Figure]):
    assert drawn["expectation"].table["share"] == pytest.approx([0.5, 0.75])
    assert drawn["expectation"].table["P(was)"] == [0.1, 0.03]


def test_selectivity_is_what_the_control_leaves(drawn: dict[str, Figure]):
    assert drawn["class"].table["selectivity"] == pytest.approx([0.3, 0.4, 0.4])
    assert drawn["class"].table["layer"] == ["word vectors", "layer 1", "layer 2"]


def test_measurements_of_another_kind_are_refused():
    with assert_refused(OptionError, "pairs", "memory"):
        accuracy_by_n([pairs("rnn")])
    with assert_refused(OptionError):
        information_decay([])
