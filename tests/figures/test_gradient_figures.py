"""Pictures of gradients and growth: labelled axes, a caption that names model and text, the numbers as a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.figures import gradients, memory
from thereafter.figures.figure import Figure
from thereafter.inspection.gradients import gradient_flow
from thereafter.inspection.growth import bptt_memory
from thereafter.inspection.growth import growth as measured_growth
from thereafter.inspection.jacobians import jacobians, truncation_effect
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.stability import activation_stability, repeated_multiplication
from thereafter.models.build import build, settings_of
from thereafter.models.neural import NeuralModel

IDS = np.random.default_rng(0).integers(0, 11, 90)
SAID: dict[str, str] = {"text": "the digits"}


@cache
def made(kind: str) -> NeuralModel:
    torch.manual_seed(0)
    options = {"heads": 2, "context": 32} if kind == "transformer" else {}
    return build(kind, settings_of(kind)(hidden=8, layers=2, **options), vocabulary_size=11).eval()


@cache
def flow(kind: str) -> Measurement:
    return gradient_flow(made(kind), IDS, distance=12, name=kind, **SAID)


@cache
def of_jacobians(kind: str) -> Measurement:
    return jacobians(made(kind), IDS, steps=6, name=kind, **SAID)


@cache
def of_growth() -> Measurement:
    models = {"lstm": made("lstm"), "transformer": made("transformer"), "transformer (kept)": made("transformer")}
    return measured_growth(models, (8, 16, 32), repeats=1, plain_attention=["transformer (kept)"])


BUILT: dict[str, tuple[Callable[[], Figure], list[str]]] = {
    "decay": (lambda: gradients.gradient_decay([flow("rnn"), flow("lstm")]), ["rnn", "lstm", "the digits"]),
    "words": (
        lambda: gradients.gradient_decay([flow("gru"), flow("transformer")], layer="words"),
        ["gru", "transformer", "word vectors", "the digits"],
    ),
    "one": (lambda: gradients.gradient_decay([flow("lstm")]), ["lstm", "l1 c", "the digits"]),
    "depth": (lambda: gradients.gradient_depth(flow("lstm")), ["lstm", "the digits"]),
    "paths": (lambda: gradients.jacobian_paths([of_jacobians("rnn"), of_jacobians("gru")]), ["rnn, gru", "the digits"]),
    "spectrum": (lambda: gradients.jacobian_spectrum(of_jacobians("lstm")), ["lstm", "layer l1", "the digits"]),
    "truncation": (
        lambda: gradients.truncation_kept([truncation_effect(made("rnn"), IDS, lengths=(1, 4), name="rnn", **SAID)]),
        ["rnn", "90 steps", "the digits"],
    ),
    "time": (lambda: memory.time_by_length(of_growth()), ["lstm, transformer", "random tokens"]),
    "memory": (lambda: memory.memory_by_length(of_growth()), ["lstm, transformer", "random tokens"]),
    "state": (lambda: memory.state_by_length(of_growth()), ["lstm, transformer", "random tokens"]),
    "bptt": (
        lambda: memory.bptt_memory_by_length(bptt_memory((8, 16), (None, 4), batch=2, hidden=3)),
        ["rnn, 3 units", "random numbers"],
    ),
    "activations": (
        lambda: gradients.activation_stability(activation_stability(steps=6, hidden=4)),
        ["rnn, 4 units", "noise", "0.5, 1, 2"],
    ),
    "eigenvalues": (
        lambda: gradients.repeated_multiplication(repeated_multiplication(steps=6, hidden=4)),
        ["rnn, 4 units", "noise"],
    ),
}


@pytest.mark.parametrize("name", BUILT)
def test_axes_caption_and_table(name: str) -> None:
    build_figure, said = BUILT[name]
    figure = build_figure()
    labelled = [axis.title.text for axis in [*figure.plot.select_xaxes(), *figure.plot.select_yaxes()]]
    assert sum(bool(label) for label in labelled) >= 2
    for words in said:
        assert words in figure.caption
    assert figure.caption.endswith(".")
    assert "\n" not in figure.caption
    assert len(figure.plot.data) >= 1
    drawn = drawn_numbers(figure.plot)
    assert len(drawn)  # no empty panel
    listed = np.concatenate([np.asarray(column, float) for column in figure.table.values() if numbers(column)])
    for value in drawn:
        assert np.isclose(listed * scale_of(name), value, rtol=1e-6, atol=0).any(), value


def scale_of(name: str) -> float:
    """Axes may show milliseconds or megabytes of what the table has in seconds and bytes."""
    return {"time": 1e3, "memory": 2.0**-20, "state": 2.0**-10, "bptt": 2.0**-20}.get(name, 1.0)


def numbers(column: Any) -> bool:
    return not isinstance(column[0], str)


def drawn_numbers(plot: Any) -> np.ndarray:
    values = []
    for trace in plot.data:
        shown = 10.0 ** np.asarray(trace.z, float) if trace.type == "heatmap" else np.asarray(trace.y, float)
        values.append(shown.ravel())
    found = np.concatenate(values)
    return found[np.isfinite(found)]


def test_several_models_are_compared_on_the_last_layer_they_share() -> None:
    figure = gradients.gradient_decay([flow("rnn"), flow("lstm")])
    assert set(figure.table["layer"]) == {"l1"}
    assert len(figure.plot.data) == 3  # rnn h, lstm h and c
    assert set(gradients.gradient_decay([flow("rnn"), flow("transformer")]).table["layer"]) == {"words"}
    shares = np.array(figure.table["share"])[np.array(figure.table["distance"]) == 1]
    np.testing.assert_array_equal(shares, 1.0)


def verbs(model: str, *, right: float = 0.99, **curves: list[float]) -> Measurement:
    """A flow at the verb with given norms by distance, one layer; `direct` and `gates` where they are given."""
    fields = [name for name in curves if name in ("h", "c")]
    distance = np.arange(len(curves[fields[0]]))
    arrays = {"norm": np.stack([curves[name] for name in fields], axis=1)[None]}
    axes: dict[str, tuple[str, ...]] = {"norm": ("layer", "distance", "field")}
    for name in ("gates", "direct", "additive"):
        arrays[name] = np.array([curves.get(name, np.full(len(distance), np.nan))])
        axes[name] = ("layer", "distance")
    labels = {"layer": np.array(["l0"]), "field": np.array(fields), "distance": distance}
    about = {"model": model, "text": "sentences", "at": "verb", "distance": int(distance[-1]), "losses": 7}
    about |= {"right": right, "context": "line"}
    return Measurement("gradient-flow", arrays | labels, axes | {name: (name,) for name in labels}, about)


RNN = verbs("rnn", h=[2.0, 1.0, 0.5, 0.25, 0.125])


def test_the_caption_says_where_a_claim_is_not_true() -> None:
    """An LSTM whose h lies under the RNN's h is said to lie there; one whose c lies above, to lie above."""
    lstm = verbs("lstm", right=0.5, h=[9.0, 2.0, 0.8, 0.6, 0.1], c=[4.0, 2.0, 1.5, 1.2, 1.0])
    caption = gradients.gradient_decay([RNN, lstm]).caption
    assert "the loss at a verb in the states back to its subject, with 4 words between" in caption
    assert "Against rnn, l0 h: lstm, l0 h is larger at 3 and smaller at 2, 4 steps" in caption
    assert "lstm, l0 c is larger at every step from 2 on" in caption
    assert "rnn, l0 h kept, 12 % at 4 steps" in caption
    assert "lstm, l0 h fading, 5 % at 4 steps" in caption
    assert "rnn, l0 h 1, lstm, l0 h 2, lstm, l0 c 2" in caption  # absolute norms
    assert "Verbs with the right number: rnn 99 %, lstm 50 %." in caption
    turned = gradients.gradient_decay([RNN, verbs("lstm", h=[1.0, 1.0, 0.4, 0.2, 0.1])]).caption
    assert "lstm, l0 h is smaller at every step from 2 on" in turned
    same = gradients.gradient_decay([RNN, verbs("gru", h=[1.0, 1.0, 0.5, 0.25, 0.125])]).caption
    assert "gru, l0 h lies with it" in same


def test_the_direct_path_is_dotted_on_the_scale_of_its_memory() -> None:
    known = {
        "gates": [1.0, 0.9, 0.8, 0.7, 0.6],
        "direct": [4.0, 1.0, 0.5, 0.4, 0.2],
        "additive": [1, 0.5, 0.4, 0.3, 0.2],
    }
    lstm = verbs("lstm", h=[9.0, 2.0, 0.8, 0.6, 0.1], c=[4.0, 2.0, 1.5, 1.2, 1.0], **known)
    figure = gradients.gradient_decay([RNN, lstm])
    (dotted,) = [trace for trace in figure.plot.data if trace.name == "lstm, l0 c, direct path"]
    np.testing.assert_allclose(dotted.y, [0.5, 0.25, 0.2, 0.1])
    assert dotted.line.dash == "dot"
    assert (
        "the direct path (dotted) carries 20 % in lstm, l0 c (product of gates 0.6, mean over units)" in figure.caption
    )
    assert "direct path" not in gradients.gradient_decay([RNN]).caption


def test_the_same_curve_is_drawn_once() -> None:
    figure = memory.state_by_length(of_growth())
    assert [trace.name.split("<")[0] for trace in figure.plot.data] == ["lstm", "transformer"]
    assert len(memory.memory_by_length(of_growth()).plot.data) == 3


def test_a_layer_that_is_not_there() -> None:
    with assert_refused(OptionError, "rnn", "l7", "words", "l0", "l1"):
        gradients.gradient_decay([flow("rnn")], layer="l7")
    with assert_refused(OptionError):
        gradients.gradient_decay([])
