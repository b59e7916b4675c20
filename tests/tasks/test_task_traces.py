"""Traces of tasks: gates and states of every step, the answer of `predict`, and what the task itself shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys import labelled, reversed_pairs, sentences, tagged

import thereafter
from thereafter.inspection.trace import Trace


def toy_model(task: str, tmp_path: Path) -> tuple[Any, str]:
    """A model of a few steps, and something to ask it."""
    small: dict[str, Any] = {"epochs": 1, "hidden": 6, "embed": 5, "batch": 8}
    if task == "tag":
        small |= {"letter_hidden": 3, "letter_embed": 3}
        return thereafter.train(tagged(tmp_path / "tags.conll", 30), task="tag", **small), "Tale eating mud7"
    if task == "classify":
        return thereafter.train(labelled(tmp_path / "labels.tsv", 40), task="classify", **small), "the dull film"
    if task == "fill":
        return thereafter.train(sentences(tmp_path / "lines.txt", 40), task="fill", **small), "the ___ and the dog"
    attention = task.partition("=")[2]
    pairs = reversed_pairs(tmp_path / "pairs.tsv", 40)
    return thereafter.train(pairs, task="translate", tokens="word", attention=attention, **small), "a b d"


@pytest.mark.parametrize(
    "task",
    [
        "tag",
        "translate attention=additive",
        *(pytest.param(task, marks=pytest.mark.wide) for task in ("classify", "fill", "translate attention=none")),
    ],
)
def test_a_trace_holds_gates_and_states_of_every_step(task: str, tmp_path: Path):
    model, text = toy_model(task, tmp_path)
    trace = model.trace(text)
    gates = [name for name in trace.arrays if name.endswith((".update", ".forget"))]
    assert gates
    for name in gates:
        assert ((trace[name] > 0) & (trace[name] < 1)).all()
        if trace.axes[name][0] == "step":
            assert len(trace[name]) == len(trace.tokens)
    assert trace.about["answer"] == model.predict(text)
    if "p" in trace.arrays:
        assert np.allclose(trace["p"].sum(-1), 1.0, atol=1e-5)
    if task == "translate attention=additive":
        assert np.allclose(trace["attention"], model.explain(text).weights, atol=1e-5)
        assert trace.axes["attention"] == ("step", "source")
        assert len(trace["encoder.l0.h"]) == len(trace.about["source"])
    again = Trace.load(trace.save(tmp_path / "trace.npz"))
    assert again.tokens == trace.tokens
    assert all(np.array_equal(again[name], array) for name, array in trace.arrays.items())
    assert model.predict(text) == trace.about["answer"]  # the layers are as they were
