"""Figures of traces, dynamics, attention and distributions: labelled, captioned, and drawn from the numbers given."""

from __future__ import annotations

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.figures import dynamics, surprisal, traces
from thereafter.figures.figure import Figure
from thereafter.inspection import dynamics as measure
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace

WORDS = ["the", "cat", "sat", "."]


@pytest.fixture
def trace() -> Trace:
    draw = np.random.default_rng(0)
    names = ("l0.h", "l0.c", "l0.input", "l0.forget", "l0.output")
    arrays = {name: draw.random((4, 6)) for name in names}
    return Trace(WORDS, [], arrays, dict.fromkeys(names, ("step", "unit")), {"model": "LstmModel"})


def assert_drawn(drawn: Figure, *said: str) -> None:
    """Every axis has a name, the caption is there, and so are the numbers."""
    layout = drawn.plot.layout.to_plotly_json()
    axes = {name: axis for name, axis in layout.items() if name.startswith(("xaxis", "yaxis"))}
    scene = layout.get("scene")
    if scene:
        axes = {name: scene[name] for name in ("xaxis", "yaxis", "zaxis")}
    named = [name for name, axis in axes.items() if axis.get("title", {}).get("text")]
    assert {name[0] for name in named} >= ({"x", "y", "z"} if scene else {"x", "y"})
    for part in said:
        assert part in drawn.caption
    assert len(next(iter(drawn.table.values()))) > 0
    assert drawn.csv().count("\n") > 1


def test_gates_over_a_sentence(trace: Trace):
    drawn = traces.gates(trace, model="an LSTM")
    assert_drawn(drawn, "an LSTM", "the cat sat .")
    np.testing.assert_allclose(drawn.plot.data[0].z[1], trace["l0.forget"].mean(axis=1))
    np.testing.assert_allclose(drawn.table["mean |c|"], np.abs(trace["l0.c"]).mean(axis=1))
    assert "(dog)" in traces.gates(trace, model="m", labels=["the", "(dog)", "sat", "."]).caption
    long = Trace(WORDS * 20, [], {n: np.tile(a, (20, 1)) for n, a in trace.arrays.items()}, trace.axes)
    with assert_refused(OptionError):
        traces.gates(long, model="m")


def test_gates_by_class(trace: Trace):
    found = measure.by_class([trace], [["det", "noun", "verb", "end"]])
    drawn = traces.gates_by_class(found, model="an LSTM", text="agreement")
    assert_drawn(drawn, "an LSTM", "agreement")
    assert list(drawn.plot.data[1].y) == pytest.approx(found["mean"][1].tolist())


def test_paths_saturation_and_timescales(trace: Trace):
    path = dynamics.trajectory(measure.trajectory(trace, "l0.c"), model="an LSTM")
    assert_drawn(path, "cell state", "an LSTM", "the cat sat .")
    assert [note.text for note in path.plot.layout.scene.annotations] == ["1 the", "2 cat", "3 sat", "4 ."]
    assert_drawn(dynamics.saturation(measure.saturation(trace), model="an LSTM"), "an LSTM")
    times = dynamics.timescales(measure.timescales(trace), model="an LSTM")
    assert_drawn(times, "an LSTM")
    assert list(times.plot.data[0].y) == sorted(times.plot.data[0].y, reverse=True)


def test_training_curves_put_validation_where_it_was_made():
    lines = [{"event": "step", "step": s, "seen": 100 * s, "loss": 3.0 - 0.1 * s} for s in (1, 2, 4)]
    lines += [{"event": "validation", "step": 3, "loss": 2.0}, {"event": "trained", "tokens": 5}]
    drawn = traces.training_curves({"lstm": lines}, text="ptb")
    assert_drawn(drawn, "lstm", "ptb")
    assert list(drawn.plot.data[1].x) == [300]
    assert list(drawn.plot.data[1].y) == [pytest.approx(np.exp(2.0))]
    with assert_refused(OptionError, "steps"):
        traces.training_curves({"ngram": [{"event": "trained"}]}, text="ptb")


def test_parameter_counts_show_both():
    drawn = traces.parameter_counts({"rnn": (12, 12, "a"), "lstm": (48, 48, "b")}, inputs=2, hidden=3)
    assert_drawn(drawn, "d = 2", "H = 3")
    assert drawn.table["counted"] == drawn.table["formula"] == [12, 48]


def test_temperature_is_the_power_of_the_distribution():
    p = np.array([0.7, 0.2, 0.1, 0.0])
    drawn = surprisal.temperature(p, [" a", "b", "\n", "d"], model="an LSTM", prompt="so", temperatures=(0.5, 1.0))
    assert_drawn(drawn, "an LSTM", "so")
    np.testing.assert_allclose(drawn.table["T=0.5"], (p**2 / (p**2).sum())[:4], atol=1e-6)
    assert drawn.table["token"][:3] == ["␣a", "b", "¬"]


def test_sparsity_has_both_shares():
    axes = dict.fromkeys(("order", "counted", "possible", "seen"), ("order",))
    arrays = {"order": np.arange(1, 4), "counted": np.array([10, 40, 60]), "possible": 10.0 ** np.arange(1, 4)}
    about = {"model": "3-gram", "text": "a book", "new": 50, "vocabulary": 10}
    drawn = surprisal.sparsity(Measurement("sparsity", arrays | {"seen": np.array([1.0, 0.6, 0.2])}, axes, about))
    assert_drawn(drawn, "3-gram", "a book")
    np.testing.assert_allclose(drawn.plot.data[1].y, [1.0, 0.4, 0.06])


def test_attention_counts_backwards_and_maps_count_forwards():
    back = np.zeros((3, 1, 2, 4))
    back[0, 0, 0, :2] = [0.6, 0.4]  # the last is what went to <s>
    back[2, 0, 0, :4] = [0.1, 0.2, 0.3, 0.4]
    trace = Trace(WORDS[:3], [], {"attention": back}, {"attention": ("step", "layer", "head", "back")})
    weights = traces.by_key(trace)
    np.testing.assert_allclose(weights[0, 0, 2], [0.3, 0.2, 0.1])
    np.testing.assert_allclose(weights[0, 0, 0], [0.6, 0.0, 0.0])
    assert_drawn(traces.head_maps(trace, model="a Transformer", text="the cat sat"), "a Transformer", "the cat sat")
    with assert_refused(OptionError, "transformer"):
        traces.by_key(Trace(WORDS, [], {}, {}))


def test_positions_are_drawn_as_given():
    table = np.random.default_rng(2).normal(size=(5, 4))
    drawn = traces.positions(table, kind="learned", model="a Transformer")
    assert_drawn(drawn, "learned", "a Transformer")
    np.testing.assert_allclose(np.diag(drawn.plot.data[1].z), 1.0)


def test_surfaces_and_senses():
    grid = np.linspace(-1, 1, 4)
    shared = {"token": np.array(WORDS)}
    gate = Measurement(
        "gate-surface",
        shared
        | {"word_part": grid, "state_part": grid, "value": np.full((4, 4), 0.5)}
        | {"met": np.random.default_rng(3).normal(size=(4, 2)), "gate": np.full(4, 0.5)},
        {"token": ("step",), "word_part": ("word_part",), "state_part": ("state_part",)}
        | {"value": ("state_part", "word_part"), "met": ("step", "part"), "gate": ("step",)},
        {"model": "m", "text": "the cat sat .", "name": "forget gate of unit 1", "bias": 0.1},
    )
    assert_drawn(dynamics.gate_surface(gate, model="an LSTM"), "an LSTM", "forget gate of unit 1", "the cat sat .")
    likely = np.array([["cat", "cat", "dog", "dog"]] * 4)
    chance = np.linspace(0.1, 0.9, 16).reshape(4, 4)
    plane = Measurement(
        "prediction-surface",
        shared
        | {"first": grid, "second": grid, "likeliest": likely, "likeliest_probability": chance}
        | {"share": np.array([0.5, 0.2])},
        {"token": ("step",), "first": ("first",), "second": ("second",), "share": ("component",)}
        | dict.fromkeys(("likeliest", "likeliest_probability"), ("second", "first")),
        {"source": "agreement"},
    )
    drawn = dynamics.prediction_surface(plane, model="an LSTM")
    assert_drawn(drawn, "an LSTM", "agreement", "70%")
    assert dict(zip(drawn.table["word"], drawn.table["probability"], strict=True)) == {
        "cat": pytest.approx(chance[3, 1], abs=1e-5),
        "dog": pytest.approx(chance[3, 3], abs=1e-5),
    }
    square = np.eye(4)
    both = Measurement(
        "senses",
        {"sense": np.array(["river", "river", "money", "money"]), "context": np.array(WORDS)}
        | {"point": np.random.default_rng(4).normal(size=(4, 2)), "share": np.array([0.6, 0.3])}
        | {"cosine": square, "static": np.ones((4, 4)), "within": np.array(0.9), "between": np.array(-0.2)},
        {"sense": ("sentence",), "context": ("sentence",), "point": ("sentence", "component"), "share": ("component",)}
        | {"cosine": ("sentence", "sentence"), "static": ("sentence", "sentence"), "within": (), "between": ()},
        {"word": "bank", "text": "templates"},
    )
    assert_drawn(dynamics.senses(both, model="an LSTM"), "bank", "an LSTM", "templates", "0.90", "-0.20")
