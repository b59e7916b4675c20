"""Every neural model with random weights: losses and their gradients, dropout, settings, lines."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny import EVERY, SMALL, TOLERANCE, VARIANTS, V, made, rows, stepped

from refusals import assert_refused
from thereafter.base.kinds import KINDS
from thereafter.errors import OptionError, UnknownNameError
from thereafter.models.build import NEURAL, build, settings_of
from thereafter.models.neural import Span, by_length, cut, padded
from thereafter.models.settings import AwdLstmSettings, LstmSettings


@EVERY
def test_the_loss_is_what_scoring_says(name: str, options: dict[str, Any]) -> None:
    plain = {field: 0.0 for field in ("alpha", "beta") if hasattr(settings_of(name)(), field)}
    model, ids = made(name, options | plain), rows()
    inputs = torch.from_numpy(np.concatenate([np.full((3, 1), V), ids[:, :-1]], axis=1))
    targets = torch.from_numpy(ids)
    nats, extra, _ = model.loss(inputs, targets, model.fresh(3))
    expected, _ = model.log_probs(ids, model.start(3))
    assert nats.item() == pytest.approx(-expected.sum(), rel=1e-5)
    assert extra.item() == 0.0
    mask = torch.rand(3, 25, generator=torch.Generator().manual_seed(0)) < 0.5
    nats, _, _ = model.loss(inputs, targets, model.fresh(3), mask)
    assert nats.item() == pytest.approx(-expected[mask.numpy()].sum(), rel=1e-5)


@EVERY
def test_every_weight_learns_and_the_state_carries_on(name: str, options: dict[str, Any]) -> None:
    model = made(name, options).train()
    ids = torch.from_numpy(rows(4, 31))
    state = model.fresh(4)
    for begin in (0, 15):  # truncated: two blocks, the state carried
        nats, extra, state = model.loss(ids[:, begin : begin + 15], ids[:, begin + 1 : begin + 16], state)
        (nats / 60 + extra).backward()
        state = model.detach(state)
        assert not any(tensor.requires_grad for tensor in state.tensors().values())
    for label, weight in model.named_parameters():
        assert weight.grad is not None, label
        assert torch.isfinite(weight.grad).all(), label
        assert weight.grad.abs().sum() > 0, label


def test_gradients_are_those_of_plain_torch() -> None:
    model: Any = made("lstm", {"hidden": 8, "dropout": 0.0}).double().train()
    ids = torch.from_numpy(rows())
    nats, _, _ = model.loss(ids[:, :-1], ids[:, 1:], model.fresh(3))
    found = torch.autograd.grad(nats / 72, list(model.parameters()))
    theirs = torch.nn.LSTM(8, 8, 2, batch_first=True).double()
    theirs.load_state_dict(model.layers.state_dict())
    table, bias = (p.detach().clone().requires_grad_() for p in (model.embedding.weight, model.head.bias))
    h, _ = theirs(F.embedding(ids[:, :-1], table))
    loss = F.cross_entropy(F.linear(h.flatten(0, 1), table[:V], bias), ids[:, 1:].flatten())
    named = dict(theirs.named_parameters())
    wanted = {"embedding.weight": table, "head.bias": bias} | {f"layers.{key}": p for key, p in named.items()}
    expected = torch.autograd.grad(loss, [wanted[key] for key, _ in model.named_parameters()])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("masked", [False, True])
def test_activation_regularisation_by_hand(masked: bool) -> None:
    model = made("lstm", {"hidden": 8, "alpha": 2.0, "beta": 3.0, "dropout": 0.5}).train()
    ids = torch.from_numpy(rows(2, 6))
    given = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 1, 0]], dtype=torch.bool) if masked else torch.ones(2, 5).bool()
    torch.manual_seed(7)
    _, extra, _ = model.loss(ids[:, :-1], ids[:, 1:], model.fresh(2), given if masked else None)
    torch.manual_seed(7)
    f, _ = model.features(ids[:, :-1], model.fresh(2))
    h, _ = model.eval().features(ids[:, :-1], model.fresh(2))
    f, h = f.detach().numpy().astype(float), h.detach().numpy().astype(float)
    assert (f == 0).any()  # dropped features are those that are charged
    active = [f[b, t] ** 2 for b in range(2) for t in range(5) if given[b, t]]
    moved = [(h[b, t + 1] - h[b, t]) ** 2 for b in range(2) for t in range(4) if given[b, t] and given[b, t + 1]]
    assert extra.item() == pytest.approx(2.0 * np.mean(active) + 3.0 * np.mean(moved), rel=1e-5)


def test_one_step_has_nothing_to_move() -> None:
    model = made("lstm", {"hidden": 8, "beta": 3.0})
    _, extra, _ = model.loss(torch.tensor([[1]]), torch.tensor([[2]]), model.fresh(1))
    assert extra.item() == 0.0


def test_dropout_is_held_over_time_and_off_while_scoring() -> None:
    model = made("lstm", {"hidden": 8, "dropout": 0.5}).train()
    ids = rows()
    f, _ = model.features(torch.from_numpy(ids), model.fresh(3))
    assert torch.equal((f == 0).all(1), (f == 0).any(1))
    assert (f == 0).any()
    noisy = model.log_probs(ids, model.start(3))[0]
    assert model.training  # as it was before
    np.testing.assert_array_equal(noisy, model.eval().log_probs(ids, model.start(3))[0])


def test_a_state_from_scoring_is_fit_for_training() -> None:
    model = made("lstm", {"hidden": 8})
    state = model.detach(model.read(rows(), model.start(3)))
    assert not any(tensor.is_inference() for tensor in state.tensors().values())
    nats, _, _ = model.loss(torch.ones(3, 2, dtype=torch.int64), torch.ones(3, 2, dtype=torch.int64), state)
    nats.backward()
    assert model.embedding.weight.grad is not None


@pytest.mark.usefixtures("bfloat16")
@EVERY
def test_under_autocast_the_loss_stays_near(name: str, options: dict[str, Any]) -> None:
    model, ids = made(name, options), torch.from_numpy(rows())
    exact, _, _ = model.loss(ids[:, :-1], ids[:, 1:], model.fresh(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        nats, extra, _ = model.loss(ids[:, :-1], ids[:, 1:], model.fresh(3))
    (nats + extra).backward()
    assert nats.dtype == torch.float32
    assert nats.item() == pytest.approx(exact.item(), rel=0.05)
    assert all(weight.grad is not None and weight.grad.dtype == torch.float32 for weight in model.parameters())


def test_changed_weights_are_noticed_by_single_steps() -> None:
    model: Any = made("lstm", {"hidden": 8})
    before, _ = model.step(np.array([1]), model.start(1))
    with torch.no_grad():
        model.layers.weight_hh_l1.mul_(2.0)
    after, _ = model.step(np.array([1]), model.start(1))
    ids = np.ones((1, 20), np.int64)  # so many that no stream is used
    np.testing.assert_allclose(model.log_probs(ids, model.start(1))[0], stepped(model, ids)[0], **TOLERANCE)
    assert np.abs(after - before).max() > 1e-3
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.layers.weight_hh_l1.mul_(2.0)
    assert np.abs(other.step(np.array([1]), other.start(1))[0] - after).max() > 1e-3
    np.testing.assert_array_equal(model.step(np.array([1]), model.start(1))[0], after)


@pytest.mark.parametrize("name", list(NEURAL))
def test_changed_weights_are_noticed_by_the_start(name: str) -> None:
    model = made(name, SMALL.get(name, {"hidden": 8}))
    before = model.predict(model.start(2))
    moved = torch.randn(model.embedding.weight.shape[1], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.embedding.weight[V] += moved
    after = model.predict(model.start(2))
    assert np.abs(after - before).max() > 1e-3
    model.train()
    model.embedding.weight.data[V] -= moved  # behind the back of torch's count, as training may do
    np.testing.assert_allclose(model.eval().predict(model.start(2)), before, **TOLERANCE)


# ---- settings and building


def test_tied_models_have_one_matrix() -> None:
    tied, own = made("lstm", {"hidden": 8}), made("lstm", {"hidden": 8, "tied": False})
    assert own.parameters_count() - tied.parameters_count() == V * 8
    assert "head.weight" not in tied.state_dict()
    assert tied.input_embedding().shape == (V, 8)
    np.testing.assert_array_equal(tied.input_embedding(), tied.embedding.weight.detach().numpy()[:V])


def test_awd_lstm_has_its_sizes() -> None:
    with torch.device("meta"):
        model: Any = build("awd-lstm", vocabulary_size=10_000)
    assert [lane.cell.hidden_size for lane in model.layers.lanes] == [1150, 1150, 400]
    assert model.layers.lanes[0].cell.input_size == 400
    # Merity's 24 million for Penn Treebank: 10,000 x 400 vectors, 20.2 million in the layers, a bias a word, and <s>
    assert model.parameters_count() == 24_221_600 + 400
    layers = model.layers
    assert (layers.input_dropout, layers.dropout, layers.locked, layers.weight_drop) == (0.4, 0.25, True, 0.5)
    assert (model.settings.dropout, model.embedding.drop) == (0.4, 0.1)


def test_completed_settings_say_everything_and_stay_so() -> None:
    for name in NEURAL:
        kind = settings_of(name)
        complete = kind().complete(5000)
        assert complete.embed is not None, name
        assert complete.complete(5000) == complete
    assert LstmSettings(hidden=7, layers=3, embed=5).complete(50).sizes == (7, 7, 5)
    assert LstmSettings(hidden=7, layers=3, embed=5, tied=False).complete(50).sizes == (7, 7, 7)
    assert LstmSettings(head="adaptive").complete(40_000).cutoffs == (2000, 10_000)
    assert not LstmSettings(head="adaptive").complete(40_000).tied
    assert replace(AwdLstmSettings(), embed=None).complete(50).embed == 400


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("lstm", {"head": "hierarchical"}, "head is 'hierarchical'; expected 'full' or 'adaptive'"),
        ("lstm", {"dropout": 1.0}, "dropout is 1.0; expected a share"),
        ("lstm", {"hidden": 0}, "hidden is 0; expected at least 1"),
        ("lstm", {"sizes": (4, 0)}, "sizes is 0; expected at least 1"),
        ("lstm", {"alpha": -1.0}, "alpha is -1.0; expected 0 or more"),
        ("lstm", {"tied": True, "head": "adaptive"}, "try tied=False"),
        ("lstm", {"connect": "skip"}, "connect is 'skip'"),
        ("gru", {"reset": "never"}, "reset is 'never'"),
        ("rnn", {"nonlinearity": "tan"}, "nonlinearity is 'tan'"),
        ("transformer", {"heads": 3}, "expected a multiple"),
        ("transformer", {"context": 1}, "context is 1; expected at least 2"),
        ("transformer", {"embed": 5}, "leave it out"),
        ("transformer", {"norm": "none"}, "norm is 'none'"),
    ],
)
def test_wrong_settings_are_refused(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said.replace("(", r"\(")):
        build(name, settings_of(name)(**options), vocabulary_size=V)


def test_wrong_names_tokens_and_states_are_refused() -> None:
    assert set(NEURAL) == {name for name, kind in KINDS.items() if kind.settings}
    with assert_refused(UnknownNameError, "lstm"):
        build("ltsm", vocabulary_size=V)
    with assert_refused(OptionError, "GruSettings"):
        build("gru", LstmSettings(), vocabulary_size=V)
    with assert_refused(OptionError, "line", "stream"):
        build("gru", vocabulary_size=V, context="page")
    model = made("lstm", {"hidden": 8})
    with assert_refused(OptionError, 0, 13, 12):
        model.log_probs(np.array([[0, V]]), model.start(1))
    with assert_refused(OptionError, "[rows, steps]"):
        model.log_probs(np.array([0]), model.start(1))
    with assert_refused(OptionError, "<s>"):
        model.predict(model.fresh(1))


def test_the_same_seed_gives_the_same_weights() -> None:
    for name, options in VARIANTS:
        one, two, other = made(name, options), made(name, options), made(name, options, seed=1)
        for label, weight in one.state_dict().items():
            assert torch.equal(weight, two.state_dict()[label]), label
        assert not torch.equal(one.embedding.weight, other.embedding.weight)


# ---- lines


def test_rows_are_cut_at_line_ends() -> None:
    parts = cut(np.array([[0, 5, 5, 0], [5, 5, 5, 5], [5, 0, 0, 5]]), line_end=0)
    assert parts.first == [Span(0, 0, 1), Span(1, 0, 4), Span(2, 0, 2)]
    assert parts.lines == [Span(0, 1, 4), Span(2, 2, 3)]
    assert parts.tails == [Span(2, 3, 4)]


def test_groups_are_bounded_and_lose_nothing() -> None:
    sizes = np.random.default_rng(0).integers(1, 20, 60).tolist()
    spans = [Span(0, 100 * k, 100 * k + size) for k, size in enumerate(sizes)]
    for alike in (False, True):
        groups = list(by_length(spans, 40, alike=alike))
        assert sorted(chain(*groups), key=lambda span: span.begin) == spans
        for group in groups:
            assert len(group) == 1 or len(group) * max(span.size for span in group) <= 40
            assert not alike or len({span.size for span in group}) == 1
    filled, mask = padded(np.arange(10)[None], [Span(0, 2, 5), Span(0, 7, 8)], filler=-1)
    assert filled.tolist() == [[2, 3, 4], [7, -1, -1]]
    assert mask.tolist() == [[True, True, True], [True, False, False]]
