"""`thereafter.nn` in the place of `torch.nn`: outputs, final states and every gradient, in float64, to 1e-10."""

from __future__ import annotations

import copy
import inspect
import io
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

from breadth import core
from thereafter import nn

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu"}),
    ("LSTM", {}),
    ("LSTM", {"proj_size": 2}),
    ("GRU", {}),
]
UNPROJECTED = core(KINDS, [kind for kind in KINDS if "proj_size" not in kind[1]])
# torch says once that it takes another way for projections
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")


def pair(kind: str, **options: Any) -> tuple[torch.nn.RNNBase, Any]:
    """torch's module and ours, with the same weights."""
    torch.manual_seed(1)
    theirs = getattr(torch.nn, kind)(3, 4, dtype=torch.float64, **options)
    ours = getattr(nn, kind)(3, 4, dtype=torch.float64, **options)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def flat(state: Any) -> list[Tensor]:
    return list(state) if isinstance(state, tuple) else [state]


def given_state(module: torch.nn.RNNBase, batch: tuple[int, ...], draw: torch.Generator) -> Any:
    lanes = module.num_layers * (2 if module.bidirectional else 1)
    sizes = [module.proj_size or 4, 4] if isinstance(module, torch.nn.LSTM) else [4]
    parts = [torch.randn(lanes, *batch, n, dtype=torch.float64, generator=draw).requires_grad_() for n in sizes]
    return tuple(parts) if len(parts) == 2 else parts[0]


def gradients(module: torch.nn.Module, output: Tensor, state: Any, inputs: list[Tensor]) -> list[Tensor]:
    draw = torch.Generator().manual_seed(5)
    loss = sum(
        (part * torch.randn(part.shape, generator=draw, dtype=torch.float64)).sum() for part in [output, *flat(state)]
    )
    return list(torch.autograd.grad(loss, [*inputs, *module.parameters()]))


def assert_same(got: list[Tensor], expected: list[Tensor]) -> None:
    for value, truth in zip(got, expected, strict=True):
        assert value.shape == truth.shape
        torch.testing.assert_close(value, truth, rtol=1e-10, atol=1e-10)


GRID = list(itertools.product([1, 2], [False, True], [False, True], [False, True], [False, True]))


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize(("kind", "options"), UNPROJECTED, ids=str)
def test_outputs_states_and_gradients_equal_torchs(kind: str, options: dict[str, Any], kernel: str):
    for layers, both, with_lengths, with_state, batch_first in GRID:
        theirs, ours = pair(kind, num_layers=layers, bidirectional=both, batch_first=batch_first, **options)
        ours.kernel = kernel
        draw = torch.Generator().manual_seed(2)
        x = torch.randn(*((3, 6) if batch_first else (6, 3)), 3, dtype=torch.float64, generator=draw).requires_grad_()
        hx = given_state(theirs, (3,), draw) if with_state else None
        leaves = [x, *(flat(hx) if with_state else [])]
        if with_lengths:
            lengths = torch.tensor([4, 6, 1])
            packed = pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=False)
            y_packed, expected_state = theirs(packed, hx)
            expected, _ = pad_packed_sequence(y_packed, batch_first=batch_first, total_length=6)
            y, state = ours(x, hx, lengths=lengths)
        else:
            expected, expected_state = theirs(x, hx)
            y, state = ours(x, hx)
        assert_same([y, *flat(state)], [expected, *flat(expected_state)])
        assert_same(gradients(ours, y, state, leaves), gradients(theirs, expected, expected_state, leaves))


@pytest.mark.parametrize(("kind", "options"), UNPROJECTED, ids=str)
def test_one_sequence_without_a_batch(kind: str, options: dict[str, Any]):
    for both, batch_first, with_state in itertools.product([False, True], repeat=3):
        theirs, ours = pair(kind, num_layers=2, bidirectional=both, batch_first=batch_first, **options)
        draw = torch.Generator().manual_seed(3)
        x = torch.randn(5, 3, dtype=torch.float64, generator=draw)
        hx = given_state(theirs, (), draw) if with_state else None
        expected, expected_state = theirs(x, hx)
        y, state = ours(x, hx)
        assert_same([y, *flat(state)], [expected, *flat(expected_state)])


@pytest.mark.parametrize(("kind", "options"), UNPROJECTED, ids=str)
def test_a_packed_sequence_comes_back_packed(kind: str, options: dict[str, Any]):
    theirs, ours = pair(kind, num_layers=2, bidirectional=True, **options)
    draw = torch.Generator().manual_seed(4)
    rows = [torch.randn(n, 3, dtype=torch.float64, generator=draw) for n in (2, 5, 3)]
    hx = given_state(theirs, (3,), draw)
    for is_sorted in (False, True):
        packed = pack_sequence(sorted(rows, key=len, reverse=True) if is_sorted else rows, enforce_sorted=is_sorted)
        expected, expected_state = theirs(packed, hx)
        y, state = ours(packed, hx)
        assert_same([y.data, *flat(state)], [expected.data, *flat(expected_state)])
        assert torch.equal(y.batch_sizes, expected.batch_sizes)
        if not is_sorted:
            assert torch.equal(y.sorted_indices, expected.sorted_indices)
            assert torch.equal(y.unsorted_indices, expected.unsorted_indices)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_arguments_stand_where_torch_has_them(kind: str):
    """Names, order and defaults of every argument torch takes; ours that come after are keyword-only."""
    base = list(inspect.signature(torch.nn.modules.rnn.RNNBase.__init__).parameters.values())[2:]
    order = [(p.name, p.default) for p in base if p.name != "proj_size" or kind == "LSTM"]
    if kind == "RNN":
        order.insert(3, ("nonlinearity", "tanh"))
    own = list(inspect.signature(getattr(nn, kind).__init__).parameters.values())[1:]
    assert [(p.name, p.default) for p in own][: len(order)] == order
    assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in own[len(order) :])


def test_positional_arguments_are_torchs():
    theirs = torch.nn.LSTM(3, 4, 2, False, True, 0.0, True, 2)
    ours = nn.LSTM(3, 4, 2, False, True, 0.0, True, 2)
    ours.load_state_dict(theirs.state_dict())
    assert ours.batch_first
    assert ours.bidirectional
    assert ours.proj_size == 2
    theirs_rnn, ours_rnn = (module(3, 4, 1, "relu", False) for module in (torch.nn.RNN, nn.RNN))
    ours_rnn.load_state_dict(theirs_rnn.state_dict())
    assert ours_rnn.nonlinearity == "relu"


def test_dropout_between_layers_draws_what_torch_draws_on_average():
    x = torch.ones(4, 200, 3)
    ours = nn.LSTM(3, 4, 2, dropout=0.4)
    kept = nn.LSTM(3, 4, 2)
    kept.load_state_dict(ours.state_dict())
    assert not torch.equal(ours(x)[0], ours(x)[0])
    assert torch.equal(ours.eval()(x)[0], kept(x)[0])
    with pytest.warns(UserWarning, match="only one"):
        nn.LSTM(3, 4, dropout=0.5)


@pytest.mark.usefixtures("bfloat16")
def test_modules_can_be_copied_saved_moved_and_called_functionally():
    ours = nn.LSTM(3, 4, 2, bidirectional=True, peephole=True, weight_drop=0.5, initial="learned").eval()
    x = torch.randn(5, 2, 3)
    expected = ours(x)[0]
    assert torch.equal(copy.deepcopy(ours)(x)[0], expected)
    file = io.BytesIO()
    torch.save(ours.state_dict(), file)
    file.seek(0)
    fresh = nn.LSTM(3, 4, 2, bidirectional=True, peephole=True, initial="learned").eval()
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(fresh(x)[0], expected)
    torch.testing.assert_close(fresh.to(torch.float64)(x.double())[0].float(), expected, rtol=1e-5, atol=1e-6)
    assert fresh.to(torch.bfloat16)(x.bfloat16())[0].dtype == torch.bfloat16
    zeros = {name: torch.zeros_like(weight) for name, weight in ours.named_parameters()}
    assert torch.func.functional_call(ours, zeros, (x,))[0].abs().max() == 0
    ours.flatten_parameters()
    assert [len(lane) for lane in ours.all_weights] == [7, 7, 7, 7]  # torch's four, and three peepholes
    assert "peephole=True" in repr(ours)
    assert "weight_drop=0.5" in repr(ours)
    assert repr(nn.GRU(3, 4)) == "GRU(3, 4)"


def test_outputs_can_be_viewed_as_torchs_can():
    for batch_first in (False, True):
        y, _ = nn.LSTM(3, 4, bidirectional=True, batch_first=batch_first)(torch.randn(5, 2, 3))
        assert y.view(-1, 8).shape == (10, 8)


def test_a_fresh_forget_gate_remembers():
    ours = nn.LSTM(3, 4)
    assert torch.equal(ours.bias_ih_l0[4:8], torch.ones(4))
    assert torch.equal(ours.bias_hh_l0[4:8], torch.zeros(4))
    assert not torch.equal(nn.LSTM(3, 4, forget_bias=None).bias_ih_l0[4:8], torch.ones(4))
    assert torch.equal(nn.GRU(3, 4, update_bias=2.0).bias_ih_l0[4:8], torch.full((4,), 2.0))
    assert torch.equal(nn.GRU(3, 4, update="new", update_bias=2.0).bias_ih_l0[4:8], torch.full((4,), -2.0))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own use of it
def test_reversed_rows_of_unequal_length_go_through_torch_func():
    layer = nn.GRU(3, 4, batch_first=True, bidirectional=True, kernel="reference", dtype=torch.float64)
    lengths = torch.tensor([5, 2, 3])
    x = torch.randn(3, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def size(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = layer(x, lengths=lengths)[0].square().sum()
        return found

    wanted = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(size(wanted), wanted)
    torch.testing.assert_close(torch.func.grad(size)(x), slope)
    ahead = torch.func.jvp(size, (x,), (torch.ones_like(x),))[1]
    torch.testing.assert_close(ahead, slope.sum())
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(size))(torch.stack((x, x)))[1], slope)
