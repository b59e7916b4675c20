"""Every neural model with random weights: the contract in both contexts, states, records, and models by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny import CONTEXTS, END, EVERY, SMALL, TOLERANCE, VARIANTS, V, made, rows, stepped

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.models import neural
from thereafter.models.build import NEURAL
from thereafter.models.settings import TransformerSettings


@EVERY
@CONTEXTS
def test_step_by_step_equals_the_whole_pass(name: str, options: dict[str, Any], context: str) -> None:
    model, ids = made(name, options, context), rows()
    whole, end = model.log_probs(ids, model.start(3))
    found, last = stepped(model, ids)
    np.testing.assert_allclose(whole, found, **TOLERANCE)
    np.testing.assert_allclose(model.predict(end), last, **TOLERANCE)
    np.testing.assert_allclose(model.predict(model.read(ids, model.start(3))), last, **TOLERANCE)


@EVERY
@CONTEXTS
def test_a_text_may_be_read_in_parts(
    name: str, options: dict[str, Any], context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ids = made(name, options, context), rows()
    whole, end = model.log_probs(ids, model.start(3))
    state, parts = model.start(3), []
    for part in np.split(ids, [1, 1, 9, 17, 24], axis=1):
        logp, state = model.log_probs(part, state)
        parts.append(logp)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, **TOLERANCE)
    np.testing.assert_allclose(model.predict(state), model.predict(end), **TOLERANCE)
    monkeypatch.setattr(neural, "TOKENS_AT_ONCE", 7)  # memory is bounded by reading in pieces: these are tiny
    again, also = model.log_probs(ids, model.start(3))
    np.testing.assert_allclose(again, whole, **TOLERANCE)
    np.testing.assert_allclose(model.predict(also), model.predict(end), **TOLERANCE)


@EVERY
@CONTEXTS
def test_rows_do_not_see_each_other(name: str, options: dict[str, Any], context: str) -> None:
    model, ids = made(name, options, context), rows(4)
    together, end = model.log_probs(ids, model.start(4))
    for b, row in enumerate(ids):
        alone, own = model.log_probs(row[None], model.start(1))
        np.testing.assert_allclose(together[b], alone[0], **TOLERANCE)
        np.testing.assert_allclose(model.predict(end)[b], model.predict(own)[0], **TOLERANCE)


@EVERY
@CONTEXTS
def test_selecting_reorders_the_rows(name: str, options: dict[str, Any], context: str) -> None:
    model, ids = made(name, options, context), rows()
    _, state = model.log_probs(ids, model.start(3))
    order = np.array([2, 0, 0, 1, 2])
    chosen = state.select(order)
    np.testing.assert_allclose(model.predict(chosen), model.predict(state)[order], **TOLERANCE)
    more = rows(5, 12, seed=1)[order]
    after, _ = model.log_probs(more, chosen)
    for b, row in enumerate(order):
        alone, _ = model.log_probs(more[b : b + 1], state.select(np.array([row])))
        np.testing.assert_allclose(after[b], alone[0], **TOLERANCE)


@EVERY
@CONTEXTS
def test_states_are_values(name: str, options: dict[str, Any], context: str) -> None:
    model, ids = made(name, options, context), rows(2)
    _, state = model.log_probs(ids, model.start(2))
    before = {field: tensor.clone() for field, tensor in state.tensors().items()}
    first, _ = model.step(np.array([1, END]), state)
    for token in range(V):
        model.step(np.array([token, 2]), state)
    model.log_probs(ids, state)
    model.record(ids[0], state.select(np.array([0])))
    for field, tensor in state.tensors().items():
        assert torch.equal(tensor, before[field]), field
    np.testing.assert_array_equal(model.step(np.array([1, END]), state)[0], first)


@EVERY
def test_predictions_are_distributions(name: str, options: dict[str, Any]) -> None:
    model, ids = made(name, options), rows()
    _, state = model.log_probs(ids, model.start(3))
    for before in (model.start(3), state):
        logp = model.predict(before)
        assert logp.shape == (3, V)
        assert logp.dtype == np.float32
        np.testing.assert_allclose(np.exp(logp.astype(float)).sum(1), 1, atol=1e-5)


@EVERY
def test_a_state_comes_back_from_its_tensors(name: str, options: dict[str, Any]) -> None:
    model, ids = made(name, options), torch.from_numpy(rows())
    with torch.no_grad():
        _, state = model.features(ids, model.fresh(3))
        saved = {field: tensor.clone() for field, tensor in state.tensors().items()}
        again = model.fresh(3).with_tensors(saved)
        assert again.rows == 3
        for one, two in zip(model.features(ids, again), model.features(ids, state), strict=True):
            if isinstance(one, torch.Tensor):
                assert torch.equal(one, two)
            else:
                assert one.tensors().keys() == two.tensors().keys()
    read = model.read(ids.numpy(), model.start(3))  # and with the features a prediction needs
    np.testing.assert_array_equal(model.predict(model.fresh(3).with_tensors(read.tensors())), model.predict(read))
    with assert_refused(OptionError, "other"):
        state.with_tensors({"other": torch.zeros(3)})


@EVERY
@CONTEXTS
def test_a_record_has_a_row_for_each_step(name: str, options: dict[str, Any], context: str) -> None:
    model, ids = made(name, options, context), rows(1, 20)[0]
    ids[[0, 7, 8, 19]] = END
    fields = model.record(ids, model.start(1))
    np.testing.assert_allclose(fields["log_prob"][1], stepped(model, ids[None])[0][0], **TOLERANCE)
    assert len(fields) > 1
    for axes, array in fields.values():
        assert axes[0] == "step"
        assert array.shape[0] == len(ids)
        assert array.ndim == len(axes)
        assert np.isfinite(array).all()
    # what is shown at a step is what the model is like after it
    _, state = model.log_probs(ids[None, :12], model.start(1))
    rest = model.record(ids[12:], state)
    for name_of, (_, array) in fields.items():
        later = rest[name_of][1]
        shown = array[12:][tuple(map(slice, (None, *later.shape[1:])))]
        np.testing.assert_allclose(later, shown, rtol=1e-4, atol=1e-4)  # layer norm of 8 units blows up last bits


def test_attention_is_shown_by_distance() -> None:
    model, ids = made(*VARIANTS[8]), rows(1, 20)[0]
    assert isinstance(model.settings, TransformerSettings)
    axes, attention = model.record(ids, model.start(1))["attention"]
    assert axes == ("step", "layer", "head", "back")
    assert attention.shape == (20, 2, 2, 7)
    np.testing.assert_allclose(attention.sum(-1), 1, atol=1e-5)
    assert (attention[0, :, :, 2:] == 0).all()  # <s>, the first token, and nothing before
    assert (attention[5, :, :, :7] > 0).all()


@pytest.mark.parametrize("name", ["average", "window"])
def test_windows_have_keys(name: str) -> None:
    model = made(name, SMALL[name])
    window: int = model.settings.window  # type: ignore[attr-defined]
    one, two = rows(1, 20), rows(1, 20, seed=5)
    two[:, -window:] = one[:, -window:]
    states = [model.read(ids, model.start(1)) for ids in (one, two)]
    assert states[0].key() == states[1].key()
    assert hash(states[0].key()) == hash(states[1].key())
    np.testing.assert_array_equal(model.predict(states[0]), model.predict(states[1]))
    two[:, -window] = (two[:, -window] + 1) % V
    assert model.read(two, model.start(1)).key() != states[0].key()
    assert model.start(1).key() != model.start(2).key()


@pytest.mark.parametrize("name", [name for name in NEURAL if name not in ("average", "window")])
def test_continuous_states_have_none(name: str) -> None:
    with pytest.raises(TypeError, match="no key"):
        made(name, SMALL.get(name, {"hidden": 8})).start(1).key()


# ---- against other hands


def test_the_average_is_the_mean_of_what_was_read() -> None:
    model, ids = made("average", {"embed": 8, "window": 4}), rows(1, 6)
    vectors = model.embedding.weight.detach().numpy().astype(float)
    weight, bias = (p.detach().numpy().astype(float) for p in (model.head.weight, model.head.bias))
    read = [V]
    found, _ = model.log_probs(ids, model.start(1))
    for t, token in enumerate(ids[0]):
        logits = weight @ vectors[read[-4:]].mean(0) + bias
        assert found[0, t] == pytest.approx(logits[token] - np.log(np.exp(logits).sum()), abs=1e-5)
        read.append(token)


@pytest.mark.parametrize("direct", [False, True])
def test_the_window_model_is_bengios(direct: bool) -> None:
    model: Any = made("window", {"embed": 6, "hidden": 10, "window": 3, "direct": direct})
    ids = rows(1, 6)
    A, d = (p.detach().numpy().astype(float) for p in (model.hidden.weight, model.hidden.bias))
    vectors = model.embedding.weight.detach().numpy().astype(float)
    weight, bias = (p.detach().numpy().astype(float) for p in (model.head.weight, model.head.bias))
    read = [V, V, V]
    found, _ = model.log_probs(ids, model.start(1))
    for t, token in enumerate(ids[0]):
        x = vectors[read[-3:]].reshape(-1)
        h = np.tanh(A @ x + d)
        logits = weight @ (np.concatenate([h, x]) if direct else h) + bias
        assert found[0, t] == pytest.approx(logits[token] - np.log(np.exp(logits).sum()), abs=1e-5)
        read.append(token)


def test_the_lstm_is_torchs() -> None:
    model: Any = made("lstm", {"hidden": 8})
    theirs = torch.nn.LSTM(8, 8, 2, batch_first=True)
    theirs.load_state_dict(model.layers.state_dict())
    ids = rows()
    inputs = torch.from_numpy(np.concatenate([np.full((3, 1), V), ids[:, :-1]], axis=1))
    with torch.no_grad():
        h, _ = theirs(F.embedding(inputs, model.embedding.weight))
        logp = F.log_softmax(F.linear(h, model.embedding.weight[:V], model.head.bias), dim=-1)
    expected = logp.gather(2, torch.from_numpy(ids)[..., None])[..., 0]
    np.testing.assert_allclose(model.log_probs(ids, model.start(3))[0], expected.numpy(), **TOLERANCE)


def test_a_full_transformer_reads_its_last_half_again() -> None:
    model, ids = made("transformer", {**SMALL["transformer"], "context": 6}), rows(1, 20)
    found, _ = model.log_probs(ids, model.start(1))
    read = np.concatenate([[V], ids[0]])
    seen: list[int] = []
    for t, token in enumerate(ids[0]):
        # by hand: a buffer of 6 tokens, of which the last 3 stay when a seventh comes
        seen = [*(seen[-3:] if len(seen) == 6 else seen), int(read[t])]
        with torch.no_grad():
            h, _ = model.features(torch.tensor([seen]), model.fresh(1))
            logp = model.head.log_prob(h[:, -1])[0]
        assert found[0, t] == pytest.approx(logp[token].item(), abs=1e-5)
