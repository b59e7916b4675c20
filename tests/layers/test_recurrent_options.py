"""What `thereafter.nn` adds to torch: lengths, reset, zoneout, locked dropout, weight drop, connections, traces."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from breadth import core
from thereafter import nn
from thereafter.layers.dropout import LockedDropout

ALL: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {"nonlinearity": "relu6"}),
    ("RNN", {"layer_norm": True}),
    ("LSTM", {"peephole": True}),
    ("LSTM", {"peephole": True, "layer_norm": True}),
    ("LSTM", {"coupled": True, "proj_size": 3}),
    ("GRU", {"reset": "before", "update": "new"}),
    ("GRU", {"layer_norm": True, "bias": "one"}),
    ("MinGRU", {}),
    ("MinLSTM", {}),
    ("Diagonal", {}),
]
LONG_TO_COMPILE = ALL[3:5]
everything = pytest.mark.parametrize(
    ("kind", "options"), core(ALL, [case for case in ALL if case not in LONG_TO_COMPILE]), ids=str
)


def build(kind: str, **options: Any) -> Any:
    torch.manual_seed(3)
    return getattr(nn, kind)(3, 5, dtype=torch.float64, **options)


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def parts(state: Any) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


@everything
@pytest.mark.parametrize("both", [False, True])
def test_lengths_equal_a_loop_over_rows_each_at_its_own_length(kind: str, options: dict[str, Any], both: bool):
    """The backward direction starts at each row's true end, and what lies beyond reaches nothing, not even as NaN."""
    module = build(kind, num_layers=2, bidirectional=both, batch_first=True, **options)
    lengths = [4, 7, 0, 1]
    x = numbers(4, 7, 3)
    for row, end in enumerate(lengths):
        x[row, end:] = float("nan")
    x.requires_grad_()
    y, state = module(x, lengths=lengths)
    assert bool((y[0, 4:] == 0).all())
    for row, end in enumerate(lengths):
        alone, alone_state = module(x.detach()[row : row + 1, :end])
        torch.testing.assert_close(y[row : row + 1, :end], alone, rtol=1e-11, atol=1e-11)
        for got, truth in zip(parts(state), parts(alone_state), strict=True):
            torch.testing.assert_close(got[:, row : row + 1], truth, rtol=1e-11, atol=1e-11)
    y.sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in module.parameters())


@everything
@pytest.mark.parametrize("both", [False, True])
def test_reset_cuts_a_row_in_two(kind: str, options: dict[str, Any], both: bool):
    module = build(kind, bidirectional=both, batch_first=True, **options)
    x = numbers(2, 6, 3)
    reset = torch.zeros(2, 6, dtype=torch.bool)
    reset[0, 4] = True
    y, state = module(x, reset=reset)
    left, left_state = module(x[:1, :4])
    right, right_state = module(x[:1, 4:])
    torch.testing.assert_close(y[:1], torch.cat([left, right], 1), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(y[1:], module(x[1:])[0], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(parts(state)[0][0, :1], parts(right_state)[0][0], rtol=1e-11, atol=1e-11)
    if both:  # the backward direction ends at the row's beginning
        torch.testing.assert_close(parts(state)[0][1, :1], parts(left_state)[0][1], rtol=1e-11, atol=1e-11)
    beyond = torch.zeros(2, 6, dtype=torch.bool)
    beyond[0, 4] = True
    cut, cut_state = module(x, lengths=[4, 6], reset=beyond)  # a reset beyond the end is none
    torch.testing.assert_close(cut[:1, :4], left, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(parts(cut_state)[0][:, :1], parts(left_state)[0], rtol=1e-11, atol=1e-11)


@everything
def test_a_trace_shows_everything_and_equals_the_plain_call(kind: str, options: dict[str, Any]):
    module = build(kind, num_layers=2, bidirectional=True, **options)
    x = numbers(6, 2, 3)
    plain, state = module(x, lengths=[6, 4])
    traced = module.trace(x, lengths=[6, 4])
    torch.testing.assert_close(traced.output, plain, rtol=1e-11, atol=1e-11)
    for got, truth in zip(parts(traced.state), parts(state), strict=True):
        torch.testing.assert_close(got, truth, rtol=1e-11, atol=1e-11)
    assert list(traced.records) == ["l0", "l0_reverse", "l1", "l1_reverse"]
    h = torch.cat([traced.records["l1"]["h"], traced.records["l1_reverse"]["h"]], -1)
    torch.testing.assert_close(h[:4], plain[:4], rtol=1e-11, atol=1e-11)
    assert module.trace(x[:, 0]).records["l0"]["h"].shape[0] == 6


def test_zoneout_keeps_by_chance_in_training_and_on_average_afterwards():
    module = build("LSTM", zoneout=(0.3, 0.6))
    x = numbers(4, 2000, 3)
    _, (_, trained) = module(x[:1])
    fresh = build("LSTM")
    _, (_, free) = fresh(x[:1])
    share = float((trained[0] == 0).double().mean())  # after one step an old cell is still 0
    assert share == pytest.approx(0.6, abs=0.03)
    assert bool(((trained == 0) | torch.isclose(trained, free)).all())
    module.eval()
    _, (h, c) = module(x[:1])
    torch.testing.assert_close(c, 0.4 * free)
    torch.testing.assert_close(h, 0.7 * fresh(x[:1])[1][0])


def test_weight_drop_is_fresh_at_each_call_and_leaves_the_parameter_alone():
    module = build("LSTM", weight_drop=0.5)
    plain = build("LSTM")
    assert list(module.state_dict()) == list(plain.state_dict())
    x = numbers(4, 2, 3)
    before = module.weight_hh_l0.detach().clone()
    assert not torch.equal(module(x)[0], module(x)[0])
    assert torch.equal(module.weight_hh_l0, before)
    assert torch.equal(module.eval()(x)[0], plain(x)[0])
    module.train()(x)[0].sum().backward()
    share = float((module.weight_hh_l0.grad == 0).double().mean())
    assert 0.25 < share < 0.75  # dropped entries get no gradient


def test_locked_dropout_is_one_mask_for_all_steps():
    torch.manual_seed(0)
    x = torch.ones(3, 50, 400)
    dropped = LockedDropout(0.25)(x)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.05)
    assert float(dropped.max()) == pytest.approx(1 / 0.75)
    assert torch.equal(LockedDropout(0.25).eval()(x), x)
    time_first = LockedDropout(0.5, batch_first=False)(x)
    assert torch.equal(time_first, time_first[:1].expand_as(time_first))
    module = build("LSTM", output_dropout=0.5)
    y, _ = module(numbers(6, 2, 3))
    assert torch.equal(y == 0, (y[:1] == 0).expand_as(y))
    for options in ({"input_dropout": 0.5}, {"num_layers": 2, "dropout": 0.5, "locked": True}):
        module = build("LSTM", **options)
        assert not torch.equal(module(numbers(6, 2, 3))[0], module(numbers(6, 2, 3))[0])
        assert torch.equal(module.eval()(numbers(6, 2, 3))[0], module(numbers(6, 2, 3))[0])


def test_locked_dropout_between_layers_holds_its_mask():
    """A second layer that passes on what it reads shows the mask itself."""
    module = build("RNN", num_layers=2, nonlinearity="identity", dropout=0.5, locked=True, bias=False)
    with torch.no_grad():
        module.weight_ih_l1.copy_(torch.eye(5))
        module.weight_hh_l1.zero_()
    y, _ = module(numbers(8, 3, 3))
    assert torch.equal(y == 0, (y[:1] == 0).expand_as(y))


def test_initial_states():
    x = numbers(4, 2, 3)
    learned = build("LSTM", initial="learned", num_layers=2, bidirectional=True)
    assert torch.equal(learned(x)[0], build("LSTM", num_layers=2, bidirectional=True)(x)[0])  # it starts at 0
    with torch.no_grad():
        learned.initial_h_l0.fill_(0.5)
    assert not torch.equal(learned(x)[0], build("LSTM", num_layers=2, bidirectional=True)(x)[0])
    learned(x)[0].sum().backward()
    assert learned.initial_c_l1_reverse.grad.shape == (5,)
    assert bool((learned.initial_h_l0.grad != 0).all())
    chance = build("GRU", initial="random")
    assert not torch.equal(chance(x)[0], chance(x)[0])
    assert torch.equal(chance.eval()(x)[0], build("GRU")(x)[0])
    given = numbers(1, 2, 5)
    assert torch.equal(chance(x, given)[0], chance(x, given)[0])


@pytest.mark.parametrize("both", [False, True])
def test_connections_round_the_upper_layers(both: bool):
    width = 10 if both else 5
    stack = build("GRU", num_layers=2, bidirectional=both)
    residual = build("GRU", num_layers=2, bidirectional=both, connect="residual")
    highway = build("GRU", num_layers=2, bidirectional=both, connect="highway")
    first = build("GRU", bidirectional=both)
    for module in (residual, highway):
        module.load_state_dict(stack.state_dict(), strict=False)
    first.load_state_dict({k: v for k, v in stack.state_dict().items() if "_l0" in k})
    x = numbers(6, 2, 3)
    lower, upper = first(x)[0], stack(x)[0]
    torch.testing.assert_close(residual(x)[0], lower + upper)
    gate = torch.sigmoid(lower @ highway.highway_weight_l1.T + highway.highway_bias_l1)
    torch.testing.assert_close(highway(x)[0], gate * upper + (1 - gate) * lower)
    assert highway.highway_weight_l1.shape == (width, width)


def test_sizes_by_layer_and_direction():
    module = nn.LSTM(3, [4, (5, 2)], bidirectional=True)
    y, (h, c) = module(torch.randn(6, 2, 3))
    assert y.shape == (6, 2, 7)
    assert [tuple(part.shape) for part in h] == [(2, 4), (2, 4), (2, 5), (2, 2)]
    assert module.weight_ih_l1_reverse.shape == (8, 8)
    again, _ = module(torch.randn(6, 2, 3), (h, c))
    assert again.shape == y.shape
    assert isinstance(nn.GRU(3, [4])(torch.randn(6, 2, 3))[1], tuple)  # a list in, a tuple out
    assert nn.GRU(3, [4, 6])(torch.randn(6, 3))[1][1].shape == (6,)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU", "MinGRU", "MinLSTM", "Diagonal"])
def test_bias_conventions(kind: str):
    named = {
        bias: {name for name, _ in getattr(nn, kind)(3, 4, bias=bias).named_parameters() if name.startswith("bias")}
        for bias in (True, False, "two", "one", "none")
    }
    linear = kind in ("MinGRU", "MinLSTM", "Diagonal")
    assert named[True] == named["two"] == ({"bias_ih_l0"} if linear else {"bias_ih_l0", "bias_hh_l0"})
    assert named[False] == named["none"] == set()
    assert named["one"] == {"bias_ih_l0"}


def test_same_seed_same_result():
    def once() -> Tensor:
        torch.manual_seed(9)
        module = nn.LSTM(3, 5, 2, dropout=0.2, weight_drop=0.5, zoneout=0.1, input_dropout=0.1)
        y, _ = module(torch.randn(6, 2, 3))
        y.square().sum().backward()
        return torch.cat([y.flatten(), *(weight.grad.flatten() for weight in module.parameters())])

    assert torch.equal(once(), once())


def test_gradients_in_eval_mode_and_second_gradients():
    module = build("LSTM", kernel="reference").eval()
    x = numbers(4, 2, 3).requires_grad_()
    (first,) = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert bool((second != 0).any())
