"""Gradient flow: known decay rates, and the same numbers by another way through the model."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.gradients import decays, gradient_flow, last_loss
from thereafter.inspection.measurement import Measurement
from thereafter.models.build import build, settings_of
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import NeuralState

V, END = 15, 3


def made(name: str, reads: str = "stream", **options: Any) -> NeuralModel:
    torch.manual_seed(0)
    model = build(name, settings_of(name)(**options), vocabulary_size=V, context=reads, line_end=END)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


def tokens(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, V, count)


@pytest.mark.parametrize("eigenvalue", core([0.8, 0.95, 1.0, 1.1], [0.8, 1.1]))
def test_a_linear_rnn_gives_the_eigenvalue_it_was_given(eigenvalue: float) -> None:
    model = made("rnn", nonlinearity="identity", hidden=12, layers=1, tied=False)
    turn, _ = torch.linalg.qr(torch.randn(12, 12, dtype=torch.float64))
    model.double()
    with torch.no_grad():
        model.layers.weight_hh_l0.copy_(eigenvalue * turn)
    flow = gradient_flow(model, tokens(200), distance=30)
    decay = decays(flow)["l0", "h"]
    assert decay.rate == pytest.approx(eigenvalue, abs=1e-6)
    h = flow["field"].tolist().index("h")
    np.testing.assert_allclose(flow["norm"][1, 1:, h] / flow["norm"][1, :-1, h], eigenvalue, atol=1e-6)
    assert decay.verdict == {0.8: "vanishing", 0.95: "kept", 1.0: "kept", 1.1: "exploding"}[eigenvalue]


KINDS: dict[str, dict[str, Any]] = {
    "average": {"embed": 8, "window": 5},
    "window": {"embed": 6, "hidden": 10, "window": 3},
    "rnn": {"hidden": 8, "tied": False},
    "gru": {"hidden": 8, "tied": False, "reset": "before"},
    "lstm": {"hidden": 8, "tied": False, "layers": 3, "peephole": True, "connect": "highway"},
    "mingru": {"hidden": 8, "tied": False, "connect": "residual"},
    "minlstm": {"hidden": 8, "tied": False},
    "transformer": {"hidden": 8, "layers": 2, "heads": 2, "context": 20, "tied": False},
}


@pytest.mark.parametrize("kind", core(KINDS, ["lstm", "mingru", "transformer"]))
def test_word_vectors_get_what_training_would_give_their_rows(kind: str) -> None:
    """Where every token comes once, the gradient of its row in the embedding is that of its one place."""
    model = made(kind, **KINDS[kind])
    row = np.random.default_rng(1).permutation(V)
    last = V - 1
    flow = gradient_flow(model, row, distance=last, ends=1)

    plain = deepcopy(model).double()
    inputs = torch.tensor([[V, *row[:-1]]])
    mask = torch.zeros(1, V, dtype=torch.bool)
    mask[0, last] = True
    plain.loss(inputs, torch.tensor(row[None]), plain.fresh(1), mask)[0].backward()
    by_place = plain.embedding.weight.grad[inputs[0]].norm(dim=1).flip(0)
    np.testing.assert_allclose(flow["norm"][0, :, 0], by_place.numpy(), rtol=1e-6, atol=1e-12)
    assert flow["layer"][0] == "words"


@pytest.mark.parametrize("kind", core(["rnn", "gru", "lstm"], ["lstm"]))
def test_states_get_what_a_run_from_that_state_gives(kind: str) -> None:
    model = made(kind, hidden=8, layers=1, tied=False)
    row = tokens(12)
    flow = gradient_flow(model, row, distance=11, ends=1)
    plain = deepcopy(model).double()
    inputs = torch.tensor([[V, *row[:-1]]])
    for t in (0, 4, 10):
        _, _, state = plain.encode(inputs[:, : t + 1], plain.fresh(1))
        memory = {name: part.detach().requires_grad_() for name, part in state.memory.items()}
        mask = torch.zeros(1, 11 - t, dtype=torch.bool)
        mask[0, -1] = True
        targets = torch.tensor(row[None, t + 1 :])
        nats, _, _ = plain.loss(inputs[:, t + 1 :], targets, NeuralState(memory), mask)
        (found,) = torch.autograd.grad(nats, [memory["h_l0"]])
        h = flow["field"].tolist().index("h")
        assert flow["norm"][1, 11 - t, h] == pytest.approx(float(found.norm()), rel=1e-6)


def test_a_window_sees_its_window_and_a_last_block_itself() -> None:
    window = gradient_flow(made("window", **KINDS["window"]), tokens(100), distance=10)
    assert (window["norm"][0, :3] > 0).all()
    assert not window["norm"][0, 3:].any()
    assert decays(window)["words", "x"].verdict == "cut off"
    transformer = gradient_flow(made("transformer", **KINDS["transformer"]), tokens(100))
    assert transformer.about["distance"] == 19  # as far as its context goes
    assert transformer["layer"].tolist() == ["words", "block 0", "block 1"]
    assert not transformer["norm"][2, 1:].any()
    assert (transformer["norm"][:2] > 0).all()


def test_lines_that_stand_alone_are_measured_alone() -> None:
    model = made("lstm", "line", hidden=8)
    lines = [[0, 1, 2, END], [5, 6, 7, 8, 9, 10, END], [1, 1, END], [6, 5, 4, 2, 1, 0, END]]
    ids = np.concatenate(lines)
    flow = gradient_flow(model, ids)
    assert (flow.about["distance"], flow.about["rows"]) == (6, 2)
    apart = [gradient_flow(model, np.array(line)) for line in (lines[1], lines[3])]
    np.testing.assert_allclose(flow["norm"], (apart[0]["norm"] + apart[1]["norm"]) / 2)
    with assert_refused(OptionError, 7, 9):
        gradient_flow(model, ids, distance=8)


def test_dropout_is_off_and_the_model_is_left_alone() -> None:
    model = made("gru", hidden=8, dropout=0.5, dropout_input=0.5, weight_drop=0.5).train()
    before = deepcopy(model.state_dict())
    one, two = (gradient_flow(model, tokens(100), distance=10) for _ in range(2))
    np.testing.assert_array_equal(one["norm"], two["norm"])
    assert model.training
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])


def test_a_file_gives_it_back(tmp_path: Path) -> None:
    flow = gradient_flow(made("lstm", hidden=8), tokens(60), distance=5, name="mine", text="digits")
    again = Measurement.load(flow.save(tmp_path / "flow.npz"))
    assert again.about == flow.about
    assert again["layer"].tolist() == ["words", "l0", "l1"]
    np.testing.assert_array_equal(again["norm"], flow["norm"])
    assert {str(d) for d in decays(again).values()} == {str(d) for d in decays(flow).values()}


RECURRENT = {kind: options for kind, options in KINDS.items() if "window" not in options and kind != "transformer"}


@pytest.mark.parametrize("kind", core(RECURRENT, ["gru", "lstm", "mingru"]))
def test_the_last_loss_is_the_end_of_the_gradient_flow(kind: str) -> None:
    model, row = made(kind, **RECURRENT[kind]), tokens(9)
    found, flow = last_loss(model, row), gradient_flow(model, row, distance=8, ends=1)
    np.testing.assert_allclose(found["norm"], flow["norm"][:, ::-1], rtol=1e-9)
    assert found["layer"].tolist() == flow["layer"].tolist()
    assert found["token"].tolist() == row.tolist()
    plain = deepcopy(model).double()
    assert found.about["loss"] == pytest.approx(-float(plain.log_probs(row[None], plain.start(1))[0][0, -1]), rel=1e-6)
    state = plain.start(1)  # has read <s>, as the first node
    h = found["field"].tolist().index("h")
    for t in range(9):
        last = state.memory[f"h_l{len(plain.layers.lanes) - 1}"]
        assert found["size"][-1, t, h] == pytest.approx(float(last.norm()), rel=1e-6)
        _, state = plain.step(row[t : t + 1], state)


@pytest.mark.parametrize("kind", core(RECURRENT, ["lstm", "mingru"]))
def test_truncation_keeps_what_a_detached_state_lets_through(kind: str) -> None:
    """The same share by autograd: the state is detached n steps before the loss, and the loss taken back."""
    model, row = made(kind, **RECURRENT[kind]), tokens(7)
    share = last_loss(model, row)["share"]
    plain = deepcopy(model).double()
    inputs, target = torch.tensor([[V, *row[:-1]]]), torch.tensor(row[-1:])
    named = dict(plain.layers.named_parameters())
    weights = [w for name, w in named.items() if "weight_hh" in name] or [
        w for name, w in named.items() if "weight_ih" in name
    ]
    norms = []
    for n in range(1, 8):
        state = plain.fresh(1)
        if n < 7:
            _, _, state = plain.encode(inputs[:, : 7 - n], state)
        f_1nH, _, _ = plain.encode(inputs[:, 7 - n :], state.detach())
        found = torch.autograd.grad(plain.head.nll(f_1nH[:, -1], target).sum(), weights)
        norms.append(float(torch.cat([part.flatten() for part in found]).norm()))
    assert share[-1] == 1.0
    np.testing.assert_allclose(share, np.array(norms) / norms[-1], rtol=1e-9)


def test_the_last_loss_by_hand() -> None:
    """One unit, no activation: d loss / d h_t is d loss / d h_T times the recurrent weight for every step between."""
    model = made("rnn", nonlinearity="identity", hidden=1, layers=1, tied=False)
    with torch.no_grad():
        model.layers.weight_hh_l0.fill_(0.5)
    found = last_loss(model, tokens(6))
    norm_T = found["norm"][1, :, found["field"].tolist().index("h")]
    np.testing.assert_allclose(norm_T, norm_T[-1] * 0.5 ** np.arange(5, -1, -1), rtol=1e-12)
    # dW = sum over t of d loss / d h_t * h_{t-1}
    word = model.embedding.weight.detach().double()
    w_in, bias = (
        model.layers.weight_ih_l0.detach().double(),
        sum(getattr(model.layers, f"bias_{of}_l0").detach().double() for of in ("ih", "hh")),
    )
    h_T = [0.0]
    for token in (V, *found["token"][:-1]):
        h_T.append(float(w_in @ word[token] + bias) + 0.5 * h_T[-1])
    given_T = 0.5 ** np.arange(5, -1, -1) * np.array(h_T[:-1])
    kept = np.abs(np.cumsum(given_T[::-1]))
    np.testing.assert_allclose(found["share"], kept / kept[-1], rtol=1e-9)


def test_the_last_loss_along_the_direct_path() -> None:
    """A minGRU has no other; of one LSTM unit it is the gradient in the last c times the product of its gates."""
    linear = last_loss(made("mingru", **KINDS["mingru"]), tokens(9))
    np.testing.assert_allclose(
        linear["direct"][-1], linear["norm"][-1, :, linear["field"].tolist().index("h")], rtol=1e-9
    )
    model = made("lstm", hidden=1, layers=1, tied=False)
    found = last_loss(model, tokens(9))
    c = found["field"].tolist().index("c")
    np.testing.assert_allclose(found["direct"][1], found["norm"][1, -1, c] * found["gates"][1], rtol=1e-9)
    assert np.isnan(last_loss(made("rnn", hidden=8), tokens(9))["gates"]).all()


def test_the_last_loss_of_a_long_text_and_of_lines() -> None:
    assert len(last_loss(made("gru", hidden=4), tokens(100))["step"]) == 41
    assert len(last_loss(made("gru", hidden=4), tokens(100), steps=8)["share"]) == 8
    lines = np.array([0, 1, END, 5, 6, 7, END])
    assert last_loss(made("gru", "line", hidden=4), lines)["token"].tolist() == [0, 1, END]


def test_mistakes() -> None:
    model = made("rnn", hidden=8)
    with assert_refused(OptionError, 1, 2):
        gradient_flow(model, tokens(100), distance=1)
    with assert_refused(OptionError, "rows", 0):
        gradient_flow(model, tokens(100), rows=0)
    with assert_refused(OptionError, 0, 14):
        gradient_flow(model, tokens(100) + 5, distance=5)
    counted = thereafter.train(text="the cat sat on the mat\n" * 3, order=2)
    with assert_refused(OptionError, "ngram"):
        gradient_flow(counted.model, tokens(100))
    with assert_refused(OptionError, "transformer", "rnn"):
        last_loss(made("transformer", **KINDS["transformer"]), tokens(10))
    with assert_refused(OptionError, "ngram"):
        last_loss(counted.model, tokens(10))
    with assert_refused(OptionError, 2, 3):
        last_loss(model, tokens(2))
