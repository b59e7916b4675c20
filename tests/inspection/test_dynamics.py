"""Dynamics: components, saturation, timescales and surfaces against numbers worked out another way."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.gallery.traces import senses, sparsity
from thereafter.inspection import dynamics
from thereafter.inspection.dynamics import gate_surface, prediction_surface
from thereafter.inspection.trace import Trace
from thereafter.models.build import build, settings_of
from thereafter.training.kinds import Trained

TEXT = "the cat sat on the mat\nthe dog sat on the cat\na cat ate the fish\n" * 4


def made(kind: str) -> thereafter.LanguageModel:
    """A model with fresh weights over the words of the text."""
    counted = thereafter.train(text=TEXT, tokens="word", order=2, min_count=1)
    known = {field.name for field in fields(settings_of(kind))}
    options = {"hidden": 8, "layers": 1, "embed": 8, "tied": False, "heads": 2, "context": 16}
    torch.manual_seed(5)
    net = build(
        kind,
        settings_of(kind)(**{name: value for name, value in options.items() if name in known}),
        vocabulary_size=len(counted.tokenizer.vocabulary),
        context="line",
        line_end=counted.tokenizer.line_end_id,
    )
    return thereafter.LanguageModel(Trained(net, counted.tokenizer, {**counted.config, "model": kind}))


def trace_of(**arrays: np.ndarray) -> Trace:
    named = {name.replace("__", "."): array for name, array in arrays.items()}
    steps = len(next(iter(named.values())))
    return Trace([f"w{i}" for i in range(steps)], [], named, dict.fromkeys(named, ("step", "unit")), {"model": "made"})


def test_components_are_the_eigenvectors_of_the_covariance():
    draw = np.random.default_rng(0)
    points = draw.normal(size=(50, 6)) * np.array([5, 3, 2, 1, 1, 1]) + 7
    plane = dynamics.principal(points, 3)
    values, vectors = np.linalg.eigh(np.cov(points.T, bias=True))
    np.testing.assert_allclose(plane.share_K, values[::-1][:3] / values.sum(), atol=1e-12)
    for axis, expected in zip(plane.axes_KU, vectors[:, ::-1].T, strict=False):
        assert abs(axis @ expected) == pytest.approx(1.0, abs=1e-9)
        assert axis[np.abs(axis).argmax()] > 0
    whole = dynamics.principal(points, 6)
    np.testing.assert_allclose(whole.lift(whole.project(points)), points, atol=1e-9)
    with assert_refused(OptionError, 2):
        dynamics.principal(points[:1])


def test_a_path_in_a_plane_is_drawn_as_it_is():
    angle = np.linspace(0, 3, 40)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(40)], axis=1)
    turned = circle @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    found = dynamics.trajectory(trace_of(l0__h=turned), "l0.h")
    assert found["share"][:2].sum() == pytest.approx(1.0)
    apart = np.linalg.norm(np.diff(found["point"], axis=0), axis=1)
    np.testing.assert_allclose(apart, np.linalg.norm(np.diff(circle, axis=0), axis=1), atol=1e-9)
    with assert_refused(OptionError, "states"):
        dynamics.trajectory(trace_of(l0__h=turned), "l0.x")


def test_saturation_and_timescales_of_gates_that_are_known():
    kept = np.tile([np.exp(-1 / 3), np.exp(-1 / 50), 1.0], (20, 1))
    shut = np.concatenate([np.full((5, 3), 0.05), np.full((15, 3), 0.95)])
    trace = trace_of(l0__forget=kept, l0__output=shut)
    np.testing.assert_allclose(dynamics.timescales(trace)["steps"][0], [3, 50, np.inf])
    found = dynamics.saturation(trace)
    row = found["gate"].tolist().index("l0.output")
    assert (found["low"][row], found["high"][row]) == (0.25, 0.75)
    np.testing.assert_allclose(found["histogram"].sum(axis=1), 1.0)
    # a GRU's update gate keeps, a minGRU's replaces
    gru = trace_of(l0__update=kept, l0__reset=shut)
    np.testing.assert_allclose(dynamics.timescales(gru)["steps"][0], [3, 50, np.inf])
    minimal = trace_of(l0__update=1 - kept)
    np.testing.assert_allclose(dynamics.timescales(minimal)["steps"][0], [3, 50, np.inf])
    with assert_refused(OptionError, "gates"):
        dynamics.saturation(trace_of(l0__h=kept))


def test_means_by_class():
    gate = np.array([[0.2, 0.4], [0.8, 0.6], [0.4, 0.6]])
    found = dynamics.by_class([trace_of(l0__forget=gate)], [["noun", "verb", "noun"]])
    assert found["class"].tolist() == ["noun", "verb"]
    np.testing.assert_allclose(found["mean"], [[0.4, 0.7]])
    np.testing.assert_allclose(found["spread"], [[0.1, 0.0]])
    assert found["count"].tolist() == [2, 1]


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_the_surface_is_the_heads_own_where_a_state_lies_on_the_plane(kind: str):
    lm = made(kind)
    found = prediction_surface(lm.model, lm.tokenizer, "the cat sat", ["cat", "dog"], grid=5)
    # three states lie in their own plane, so that the surface goes through what the model says after each
    assert found["share"].sum() == pytest.approx(1.0)
    assert found["probability"].shape == (2, 5, 5)
    assert (found["probability"].sum(axis=0) <= 1 + 1e-9).all()
    state = lm.model.read(lm.tokenizer.encode("the cat sat").reshape(1, -1), lm.model.start(1))
    middle = lm.model.features_of(state)[0].double().numpy()
    features = [
        lm.model.features_of(lm.state_after(lm.encode(text)))[0].double().numpy() for text in ("the", "the cat")
    ]
    plane = dynamics.principal(np.stack([*features, middle]), 2)
    np.testing.assert_allclose(plane.lift(found["point"][2:])[0], middle, atol=1e-6)
    corner = plane.lift(np.array([[found["first"][3], found["second"][1]]]))
    p = lm.model.head.log_prob(torch.from_numpy(corner).float()).detach().exp()[0]
    assert found["probability"][0, 1, 3] == pytest.approx(float(p[lm.tokenizer.encode("cat")[0]]), abs=1e-6)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_gates_surface_goes_through_the_traced_gates(kind: str):
    lm = made(kind)
    gate = "forget" if kind == "lstm" else "update"
    found = gate_surface(lm.model, lm.tokenizer, "the cat sat on the mat", gate, unit=3)
    np.testing.assert_allclose(found["gate"], lm.trace("the cat sat on the mat")[f"l0.{gate}"][:, 3], atol=1e-6)
    summed = found["met"].sum(axis=1) + found.about["bias"]
    np.testing.assert_allclose(found["gate"], 1 / (1 + np.exp(-summed)), atol=1e-6)
    with assert_refused(OptionError, "gate"):
        gate_surface(lm.model, lm.tokenizer, "the cat", "cell")


def test_senses_compare_the_state_and_not_the_vector():
    lm = made("lstm")
    contexts = {"one": ["the cat", "a cat"], "two": ["the dog sat on the cat", "the fish ate the cat"]}
    found = senses(lm.model, lm.tokenizer, "cat", contexts)
    np.testing.assert_allclose(found["static"], 1.0, atol=1e-6)
    states = np.stack([lm.trace(text)["l0.h"][-1] for listed in contexts.values() for text in listed])
    expected = np.corrcoef(states - states.mean(axis=0))  # only the diagonal is sure to agree
    np.testing.assert_allclose(np.diag(found["cosine"]), np.diag(expected), atol=1e-6)
    moved = states - states.mean(axis=0)
    one = moved[0] @ moved[1] / np.linalg.norm(moved[0]) / np.linalg.norm(moved[1])
    assert found["cosine"][0, 1] == pytest.approx(one, abs=1e-5)
    with assert_refused(OptionError):
        senses(lm.model, lm.tokenizer, "cat", {"one": ["the dog", "a cat"], "two": ["the cat", "a cat"]})


def test_sparsity_counts_what_was_seen():
    lm = thereafter.train(text="a b c a b d\n", tokens="char", order=3, min_count=1)
    new = "a b e d"
    found = sparsity(lm.model, lm.tokenizer.encode(new))
    old = "a b c a b d\n"
    for order in (1, 2, 3):
        grams = {old[i : i + order] for i in range(len(old) - order + 1)}
        starts = 1 if order > 1 else 0  # those that begin with <s>
        special = {1: 1 + 1, 2: 0, 3: 0}[order]  # <unk> and <s> are rows of their own among the words
        assert found["counted"][order - 1] == len(grams) + starts + special
    assert found["seen"][1] == np.mean([True, True, True, True, False, False, True])
    assert found["possible"].tolist() == [float(lm.model.vocabulary_size) ** n for n in (1, 2, 3)]
