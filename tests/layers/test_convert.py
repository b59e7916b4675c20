"""Weights out of torch and back, and the gate orders of other libraries."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from refusals import assert_refused
from thereafter import nn
from thereafter.cells import CELLS
from thereafter.errors import OptionError, UnknownNameError
from thereafter.layers.convert import GATE_ORDERS, copy_weights, gate_order, reorder_gates

MODULES: list[torch.nn.RNNBase] = [
    torch.nn.RNN(3, 4, 2, nonlinearity="relu", bias=False),
    torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2, batch_first=True),
    torch.nn.GRU(3, 4, 2, dropout=0.25, bidirectional=True, dtype=torch.float64),
]


@pytest.mark.parametrize("theirs", MODULES, ids=lambda module: type(module).__name__)
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_there_and_back_without_loss(theirs: torch.nn.RNNBase):
    ours = nn.from_torch(theirs.eval())
    back = nn.to_torch(ours)
    assert not ours.training
    assert not back.training
    assert repr(back) == repr(theirs)
    for name, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight)
        assert torch.equal(back.state_dict()[name], weight)
    theirs.load_state_dict(ours.state_dict())  # by name, all there and nothing more
    x = torch.randn(5, 2, 3, dtype=next(theirs.parameters()).dtype)
    assert torch.equal(back(x)[0], theirs(x)[0])  # what a module does not show in its repr: the nonlinearity


def test_conventions_that_torch_writes_otherwise():
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    for options in ({"update": "new"}, {"bias": "one"}, {"update": "new", "bias": False, "num_layers": 2}):
        ours: Any = nn.GRU(3, 4, dtype=torch.float64, **options)
        torch.testing.assert_close(nn.to_torch(ours)(x)[0], ours(x)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("ours", "reason"),
    [
        (nn.LSTM(3, 4, peephole=True), "peepholes"),
        (nn.LSTM(3, 4, coupled=True), "coupled gates"),
        (nn.GRU(3, 4, reset="before"), "reset before the product"),
        (nn.GRU(3, 4, layer_norm=True), "layer norm"),
        (nn.RNN(3, 4, nonlinearity="sigmoid"), "this nonlinearity"),
        (nn.MinGRU(3, 4), "does not know the cell 'mingru'"),
        (nn.LSTM(3, [4, 5]), "a list of sizes"),
        (nn.LSTM(3, 4, 2, connect="residual"), "residual connections"),
        (nn.LSTM(3, 4, zoneout=0.1), "zoneout"),
        (nn.LSTM(3, 4, initial="learned"), "a learned initial state"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_torch_cannot_express_is_said(ours: Any, reason: str):
    with pytest.raises(OptionError, match=reason):
        nn.to_torch(ours)


def test_weights_that_do_not_fit_are_refused():
    with assert_refused(OptionError, "bias_hh_l0", "bias_ih_l0"):
        copy_weights(torch.nn.GRU(3, 4), nn.GRU(3, 4, bias=False))
    with assert_refused(OptionError, "weight_ih_l0", "(12, 3)", "(15, 3)"):
        copy_weights(torch.nn.GRU(3, 4), nn.GRU(3, 5))


def test_gates_are_reordered_by_name():
    for cell, library in GATE_ORDERS:
        own = CELLS.load(cell).gates
        assert gate_order(cell, "torch") == own
        weight = torch.arange(2 * len(own))
        there = reorder_gates(weight, own, gate_order(cell, library))
        assert torch.equal(reorder_gates(there, gate_order(cell, library), own), weight)
    with pytest.raises(OptionError, match="expected the same as"):
        reorder_gates(torch.zeros(4), ("a", "b"), ("a", "c"))
    with assert_refused(OptionError, 5, 4):
        reorder_gates(torch.zeros(5), gate_order("lstm", "onnx"), gate_order("lstm", "torch"))
    with assert_refused(UnknownNameError, "lstm of keras"):
        gate_order("lstm", "kera")
