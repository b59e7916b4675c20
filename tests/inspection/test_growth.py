"""Time and memory by length: bytes that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.growth import bptt_memory, growth, kept_for_backward
from thereafter.models.build import build, settings_of
from thereafter.models.neural import NeuralModel

LENGTHS = (16, 32, 64)


def made(kind: str) -> NeuralModel:
    torch.manual_seed(0)
    options = {"heads": 2, "context": 64} if kind == "transformer" else {}
    return build(kind, settings_of(kind)(hidden=8, layers=2, **options), vocabulary_size=11)


def test_memory_grows_as_it_must() -> None:
    transformer = made("transformer")
    models = {"rnn": made("rnn"), "lstm": made("lstm"), "transformer": transformer, "plain": transformer}
    found = growth(models, LENGTHS, batch=2, repeats=1, plain_attention=["plain"])
    saved = dict(zip(found["model"].tolist(), found["saved"], strict=True))
    for kind, least in (("rnn", 2), ("lstm", 2 * 6)):  # at least h of both layers; c and four gates as well
        steps = np.diff(saved[kind]) / np.diff(LENGTHS)
        assert steps[0] == pytest.approx(steps[1])  # linear in the length
        assert steps[0] >= least * 2 * 8 * 4  # batch, units, bytes
    # the plain formula keeps at least the matrix of weights: layers, batch, heads, T x T numbers
    assert (saved["plain"] >= 2 * 2 * 2 * np.square(LENGTHS) * 4).all()
    assert np.log2(saved["plain"][-1] / saved["plain"][-2]) > np.log2(saved["lstm"][-1] / saved["lstm"][-2]) + 0.3
    assert (found["seconds"] > 0).all()


def test_the_state_of_a_recurrent_net_does_not_grow() -> None:
    found = growth({"lstm": made("lstm"), "transformer": made("transformer")}, LENGTHS, repeats=1)
    assert found["state"][0].tolist() == [2 * 2 * 8 * 4] * 3  # layers, h and c, units, bytes
    keys_and_values = 2 * 2 * 8 * 4 * np.array(LENGTHS)
    assert (found["state"][1] - keys_and_values == 8 * np.array(LENGTHS) + 8).all()  # the tokens, and how many


def test_the_models_are_left_alone() -> None:
    model = made("lstm").train()
    growth({"lstm": model}, (8,), repeats=1)
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())


def test_mistakes() -> None:
    with assert_refused(OptionError, 64, 128):
        growth({"transformer": made("transformer")}, (32, 128))
    with assert_refused(OptionError, 1):
        growth({"rnn": made("rnn")}, ())


def test_kept_memory_is_counted_once_and_weights_not_at_all() -> None:
    x = torch.ones(10, requires_grad=True)
    with kept_for_backward([x]) as kept:
        y = torch.tanh(x)
        z = y * y * x
    assert kept.bytes == 2 * 40  # y, and y * y
    z.sum().backward()
    assert x.grad is not None


def test_backpropagation_keeps_one_state_a_step_and_truncation_a_piece() -> None:
    found = bptt_memory((16, 64), (None, 8), batch=3, hidden=4)
    a_step = 3 * 4 * 4
    assert found["states"].tolist() == [[16 * a_step, 64 * a_step], [8 * a_step, 8 * a_step]]
    assert (found["autograd"] >= found["states"]).all()
    assert found["truncation"].tolist() == [0, 8]
