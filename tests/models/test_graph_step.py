"""The recorded step of a language model, as far as a CPU goes: the same code, operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny import CONTEXTS, END, EVERY, TOLERANCE, VARIANTS, V, made, rows

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.one_token import segment_size
from thereafter.models.graph_step import GraphStep
from thereafter.models.recurrent import RecurrentModel
from thereafter.models.step_bodies import LstmChain, chains, step_body

RECURRENT = [(name, options) for name, options in VARIANTS if name not in ("average", "window", "transformer")]
EVERY_RECURRENT = pytest.mark.parametrize(
    ("name", "options"), RECURRENT, ids=lambda value: value if isinstance(value, str) else ""
)


@EVERY
@CONTEXTS
def test_a_recorded_step_is_the_model_s_own(name: str, options: dict[str, Any], context: str):
    model, ids = made(name, options, context), rows()
    if name == "transformer":
        with pytest.raises(OptionError, match="try model"):
            GraphStep(model, len(ids))
        return
    step, state = GraphStep(model, len(ids)), model.start(len(ids))
    np.testing.assert_allclose(step.logp_BV.numpy(), model.predict(state), **TOLERANCE)
    for token_B in ids.T:
        logp_BV, state = model.step(token_B, state)
        np.testing.assert_allclose(step.step(token_B).numpy(), logp_BV, **TOLERANCE)
    after = step.state
    assert after.memory.keys() == state.memory.keys()
    for name_of_part, part in state.tensors().items():
        np.testing.assert_allclose(after.tensors()[name_of_part].numpy(), part.numpy(), **TOLERANCE)


@EVERY_RECURRENT
def test_bfloat16_weights_are_near(name: str, options: dict[str, Any]):
    model, ids = made(name, options, "line"), rows()
    step, state = GraphStep(model, len(ids), "bfloat16"), model.start(len(ids))
    worst = 0.0
    for token_B in ids.T:
        logp_BV, state = model.step(token_B, state)
        worst = max(worst, float(np.abs(step.step(token_B).numpy() - logp_BV).max()))
    assert 1e-6 < worst < 0.15  # weights of size 1, drawn by the test, are rounded to 2 or 3 digits


def test_a_state_is_carried_on_from_one_step_to_another():
    model, ids = made("lstm", {"hidden": 8}, "line"), rows()
    one, other = GraphStep(model, len(ids)), GraphStep(model, len(ids))
    for token_B in ids.T[:9]:
        one.step(token_B)
    logp_BV = one.logp_BV.clone()
    torch.testing.assert_close(other.reset(one.state), logp_BV, **TOLERANCE)
    torch.testing.assert_close(other.step(ids.T[9]), one.step(ids.T[9]), **TOLERANCE)
    model_logp_BV, _ = model.step(ids.T[9], model.read(ids[:, :9], model.start(len(ids))))
    np.testing.assert_allclose(one.logp_BV.numpy(), model_logp_BV, **TOLERANCE)
    one.reset()
    np.testing.assert_allclose(one.logp_BV.numpy(), model.predict(model.start(len(ids))), **TOLERANCE)


def test_a_row_begins_anew_after_a_line_end_and_the_others_do_not():
    model = made("lstm", {"hidden": 8}, "line")
    step = GraphStep(model, 2)
    step.step(np.array([1, 2]))
    logp_BV = step.step(np.array([END, 4])).clone()
    np.testing.assert_allclose(logp_BV[:1].numpy(), model.predict(model.start(1)), **TOLERANCE)
    alone = GraphStep(model, 1)
    alone.step(np.array([2]))
    torch.testing.assert_close(logp_BV[1:], alone.step(np.array([4])), **TOLERANCE)


def test_weights_are_those_of_when_it_was_made():
    model = made("lstm", {"hidden": 8})
    step = GraphStep(model)
    before = step.step(np.array([1])).clone()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    step.reset()
    torch.testing.assert_close(step.step(np.array([1])), before)
    assert not torch.allclose(GraphStep(model).step(np.array([1])), before, atol=1e-3)


def test_a_plain_stack_of_lstms_is_one_product_a_layer():
    plain, peeping = made("awd-lstm", {"embed": 8, "sizes": (12, 12, 8)}), made("lstm", {"hidden": 8, "peephole": True})
    assert isinstance(plain, RecurrentModel)
    assert isinstance(peeping, RecurrentModel)
    assert chains(plain)
    assert not chains(peeping)
    body = step_body(plain, 3, torch.float32, programs=False)
    assert isinstance(body, LstmChain)
    assert {name: tuple(part.shape) for name, part in body.memory.items()} == {
        "h_l0": (3, 12), "c_l0": (3, 12), "h_l1": (3, 12), "c_l1": (3, 12), "h_l2": (3, 8), "c_l2": (3, 8),
    }  # fmt: skip
    assert segment_size(1150) == 1152
    assert segment_size(16) == 16


def test_what_does_not_fit_is_refused():
    model = made("lstm", {"hidden": 8})
    with assert_refused(OptionError, "rows", 0):
        GraphStep(model, 0)
    with assert_refused(OptionError, "weights", "int8"):
        GraphStep(model, weights="int8")
    step = GraphStep(model, 2)
    with pytest.raises(ShapeError, match="the tokens are"):
        step.step(np.array([1]))
    with assert_refused(ShapeError, 2):
        step.reset(model.start(3))
    with pytest.raises(OptionError, match="token ids"):
        step.step(np.array([1, V]))
