"""One loss taken back through a sentence: what the backpropagation panel is told."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.gradients import fit_decay, verb_flow
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.models.quiet import NeuralState
from thereafter.studio.panels.backprop import backprop, decay_of, verb_gradients

SENTENCE = "the farmers near the author are old"


@pytest.fixture(scope="module")
def lstm(ready_folder: Any) -> Any:
    return thereafter.load(ready_folder / "lstm")


def test_the_gradient_in_every_state_is_that_of_a_run_from_this_state(lstm: Any) -> None:
    """The model itself, read up to a state that is made a leaf, and on to the loss: torch's own gradient in it."""
    found = backprop(lstm, SENTENCE, limit=40).model_dump()
    words = SENTENCE.split()
    assert found["tokens"] == ["<s>", *words[:-1]]
    assert (found["target"], found["left_out"]) == (words[-1], 0)
    model = deepcopy(lstm.model).double()
    ids = lstm.encode(SENTENCE).tolist()
    inputs = torch.tensor([[model.vocabulary_size, *ids[:-1]]])
    last = len(ids) - 1
    states = {one["field"]: one for one in found["states"]}
    assert set(states) == {"h", "c"}
    for t in range(last):
        _, _, state = model.encode(inputs[:, : t + 1], model.fresh(1))
        memory = {name: part.detach().requires_grad_() for name, part in state.memory.items()}
        f_1TH, _, _ = model.encode(inputs[:, t + 1 :], NeuralState(memory))
        loss = model.head.nll(f_1TH[:, -1], torch.tensor(ids[-1:])).sum()
        assert found["loss"] == pytest.approx(loss.item(), rel=1e-9)
        # c of a step also goes through h of that step, which a leaf cuts off; `test_gradients` knows both
        (gradient,) = torch.autograd.grad(loss, [memory["h_l0"]])
        assert states["h"]["norm"][t] == pytest.approx(float(gradient.norm()), rel=1e-6)
        for field, state_of in states.items():
            assert state_of["size"][t] == pytest.approx(float(memory[f"{field}_l0"].detach().norm()), rel=1e-6)
    assert found["share"][-1] == 1.0
    assert found["p"] == pytest.approx(np.exp(-found["loss"]))
    assert states["h"]["direct"] is states["h"]["gates"] is None
    assert states["c"]["direct"][-1] == pytest.approx(states["c"]["norm"][-1], rel=1e-9)
    assert states["c"]["gates"][-1] == 1.0
    assert sorted(states["c"]["gates"]) == states["c"]["gates"]


def test_means_at_the_verb_are_those_of_the_library(lstm: Any) -> None:
    found = verb_gradients(lstm, between=4, count=7).model_dump()
    flow = verb_flow(SentenceReader.of(lstm.model, lstm.tokenizer, lstm.config), distance=4, count=7)
    assert (found["sentences"], found["right"]) == (7, flow.about["right"])
    assert [state["field"] for state in found["states"]] == ["h", "c"]
    for state in found["states"]:
        norm_D = flow["norm"][-1, :, flow["field"].tolist().index(state["field"])]
        assert state["norm"] == norm_D.tolist()
        assert state["decay"]["words"] == str(fit_decay(norm_D))
    assert found["states"][1]["direct"] == flow["direct"][-1].tolist()
    json.dumps(found, allow_nan=False)


def test_the_verdict_is_the_decay_of_the_norms_by_distance(lstm: Any) -> None:
    for state in backprop(lstm, SENTENCE, limit=40).model_dump()["states"]:
        assert state["decay"]["words"] == str(fit_decay(np.array(state["norm"][::-1])))
    grown = decay_of(1.5 ** np.arange(9))
    assert grown is not None
    assert (grown.verdict, grown.under, grown.distance) == ("exploding", None, 8)
    assert grown.share == pytest.approx(1.5**7)
    assert decay_of(np.array([1.0, np.nan, 1.0])) is None


def test_long_texts_letters_and_signs(lstm: Any, ready_folder: Any) -> None:
    found = backprop(lstm, "the old author \U0001f600 <b>is</b> " * 30, limit=12).model_dump()
    assert len(found["tokens"]) == len(found["share"]) == 12
    assert found["left_out"] == len(lstm.encode("the old author \U0001f600 <b>is</b> " * 30)) - 12
    assert lstm.model.restart is not None
    lines = backprop(lstm, f"our old author is here .\n{SENTENCE}\n", limit=40).model_dump()
    assert lines["tokens"] == ["<s>", *SENTENCE.split()]
    assert (lines["target"], lines["left_out"]) == ("\n", 7)
    letters = backprop(thereafter.load(ready_folder / "letters"), "def f(x):\n", limit=40).model_dump()
    assert letters["tokens"] == ["<s>", *"def f(x):"]
    assert letters["target"] == "\n"


def test_a_model_with_broken_weights_is_still_said_in_json(ready_folder: Any) -> None:
    broken = thereafter.load(ready_folder / "rnn")
    with torch.no_grad():
        broken.model.layers.weight_hh_l0.fill_(float("nan"))
    found = backprop(broken, SENTENCE, limit=40).model_dump()
    json.dumps(found, allow_nan=False)
    assert found["loss"] is None
    assert found["states"][0]["decay"] is None


def test_what_has_no_gradient_through_time_says_so(ready_folder: Any, lstm: Any) -> None:
    for name, facts in (("ngram", ()), ("transformer", ("rnn", "gru")), ("window", ("rnn", "gru"))):
        with assert_refused(OptionError, *facts):
            backprop(thereafter.load(ready_folder / name), SENTENCE, limit=40).model_dump()
    with assert_refused(OptionError, 2, 3):
        backprop(lstm, "the author", limit=40).model_dump()
