"""Mistakes with recurrent layers: one sentence each, with what was got, what was expected and what to try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from refusals import assert_refused
from thereafter import nn
from thereafter.errors import OptionError, ShapeError, ThereafterError, UnknownNameError
from thereafter.layers.bptt import bptt

X = torch.zeros(5, 2, 3)
LSTM = nn.LSTM(3, 4)
GRU = nn.GRU(3, 4)
WRONG_CALLS: list[tuple[str, Callable[[], Any], str]] = [
    ("features", lambda: LSTM(torch.zeros(5, 2, 7)), r"shape \(5, 2, 7\); expected 3 \(input_size\).*input_size=7"),
    ("dimensions", lambda: LSTM(torch.zeros(3)), r"has 1 dimensions, shape \(3,\); expected 2 or 3"),
    ("no tensor", lambda: LSTM([1.0]), "is a list; expected a tensor; try torch.as_tensor"),
    ("type", lambda: LSTM(X.double()), r"torch.float64; the layer's weights have torch.float32; try x.to"),
    ("integers", lambda: LSTM(X.long()), r"the type torch.int64; .*try x.to\(torch.float32\)"),
    ("float lengths", lambda: LSTM(X, lengths=torch.tensor([1.0, 2.0])), r"float32; expected integers; try .*long"),
    ("bool lengths", lambda: LSTM(X, lengths=[True, False]), "the type torch.bool; expected integers"),
    ("words for lengths", lambda: LSTM(X, lengths=["a", "b"]), "expected one integer for each row"),
    ("too long", lambda: LSTM(X, lengths=[5, 6]), "runs from 5 to 6; expected 0 to 5, the steps .*batch_first"),
    ("negative", lambda: LSTM(X, lengths=[-1, 5]), "runs from -1 to 5; expected 0 to 5"),
    ("too few lengths", lambda: LSTM(X, lengths=[5]), r"shape \(1,\); expected \(2,\), one for each row"),
    (
        "lengths of a packed",
        lambda: LSTM(pack_sequence([X[:, 0]]), lengths=[5]),
        "beside a packed sequence, which has its own; try leaving",
    ),
    ("no pair", lambda: LSTM(X, torch.zeros(1, 2, 4)), r"is a Tensor; expected a pair of tensors \(h, c\)"),
    ("a pair too many", lambda: GRU(X, (torch.zeros(1, 2, 4),) * 2), r"a tuple; expected one tensor, h; try hx\[0\]"),
    (
        "state batch",
        lambda: GRU(X, torch.zeros(1, 3, 4)),
        r"h has the shape \(1, 3, 4\); expected \(1, 2, 4\) for 2 rows",
    ),
    ("state size", lambda: LSTM(X, (torch.zeros(1, 2, 4), torch.zeros(1, 2, 5))), r"c has the shape \(1, 2, 5\)"),
    ("state type", lambda: GRU(X, torch.zeros(1, 2, 4).double()), r"h is torch.float64 on cpu; expected torch.float32"),
    ("no state", lambda: GRU(X, 3), "is a int; expected a tensor of the shape"),
    ("unbatched state", lambda: GRU(X[:, 0], torch.zeros(1, 1, 4)), r"shape \(1, 1, 4\); expected \(1, 4\)"),
    ("reset type", lambda: GRU(X, reset=torch.zeros(2, 5)), r"float32; expected true and false; try reset.bool"),
    (
        "reset shape",
        lambda: GRU(X, reset=torch.zeros(5, 2).bool()),
        r"shape \(5, 2\); expected \(2, 5\): rows by steps",
    ),
    ("stream shape", lambda: LSTM.stream(2).step(X[0, :1]), r"try module.stream\(batch=1\)"),
    ("ragged", lambda: nn.GRU(3, [4, 5])(X, torch.zeros(2, 2, 4)), "h is a Tensor; expected 2 tensors"),
]


@pytest.mark.parametrize(("call", "message"), [(c, m) for _, c, m in WRONG_CALLS], ids=[n for n, _, _ in WRONG_CALLS])
def test_a_wrong_call_says_what_to_do(call: Callable[[], Any], message: str):
    with pytest.raises(ShapeError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ThereafterError)
    assert isinstance(caught.value, ValueError)


WRONG_OPTIONS: list[tuple[str, Callable[[], Any], str]] = [
    ("connect", lambda: nn.LSTM(3, 4, connect="skip"), "connect is 'skip'; expected None, 'residual' or 'highway'"),
    ("initial", lambda: nn.LSTM(3, 4, initial="one"), "initial is 'one'; expected one of zero, random, learned"),
    ("dropout", lambda: nn.LSTM(3, 4, 2, dropout=1.5), "dropout is 1.5; expected a probability, 0 to 1"),
    ("bool dropout", lambda: nn.LSTM(3, 4, 2, dropout=True), "dropout is True; expected a probability"),
    ("zoneout", lambda: nn.LSTM(3, 4, zoneout=(0.1, 0.2, 0.3)), "expected one probability, or a pair for h and c"),
    ("layers", lambda: nn.LSTM(3, 4, 0), "num_layers is 0; expected at least 1"),
    ("sizes", lambda: nn.LSTM(3, [4, 5], num_layers=3), "lists 2 layers and num_layers is 3.*leaving num_layers out"),
    ("pair", lambda: nn.LSTM(3, [(4, 5)]), r"the pair \(4, 5\); pairs need bidirectional=True"),
    ("negative size", lambda: nn.LSTM(3, [-1]), "hidden_size holds -1; expected a positive integer"),
    ("zero size", lambda: nn.LSTM(3, 0), "hidden_size holds 0; expected a positive integer"),
    ("input size", lambda: nn.LSTM(0, 4), "input_size is 0; expected at least 1"),
    ("uneven residual", lambda: nn.LSTM(3, [4, 5], connect="residual"), "layer 1 reads 4 features and gives 5; try"),
    ("nothing to drop", lambda: nn.MinGRU(3, 4, weight_drop=0.5), "has no recurrent matrix; try 0"),
    ("stream both ways", lambda: nn.LSTM(3, 4, bidirectional=True).stream(), "its backward direction needs the end"),
    ("stream of none", lambda: nn.LSTM(3, 4).stream(0), "batch is 0; expected at least 1"),
    ("kernel refuses", lambda: nn.LSTM(3, 4, peephole=True, kernel="vendor")(X), "no peepholes; try kernel='auto'"),
    ("other module", lambda: nn.from_torch(torch.nn.Linear(2, 3)), "got a Linear; expected a torch.nn.RNN"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(
    ("call", "message"), [(c, m) for _, c, m in WRONG_OPTIONS], ids=[n for n, _, _ in WRONG_OPTIONS]
)
def test_a_wrong_option_says_what_to_do(call: Callable[[], Any], message: str):
    with pytest.raises(OptionError, match=message):
        call()


def test_names_with_a_typo_are_guessed():
    with assert_refused(UnknownNameError, "vendor"):
        nn.LSTM(3, 4, kernel="vender")
    with assert_refused(UnknownNameError, "leaky_relu"):
        nn.RNN(3, 4, nonlinearity="leakyrelu")
    with assert_refused(TypeError, "peepholes"):
        nn.LSTM(3, 4, peepholes=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_check_finds_what_is_not_a_number(bad: float):
    x = torch.zeros(2, 5, 3)
    x[1, 4, 2] = bad
    module = nn.LSTM(3, 4, batch_first=True, check=True)
    with assert_refused(ShapeError, bad, 1, 4, 2):
        module(x)
    assert bool(module(x, lengths=[5, 4])[0].isfinite().all())  # beyond a row's end it does not matter
    nn.LSTM(3, 4, batch_first=True)(x)


def test_wrong_shapes_by_hand():
    with assert_refused(ShapeError, "U", "(2, 3)", "(2, 2)"):
        bptt(
            torch.zeros(1, 3, 2),
            torch.zeros(1, 2),
            torch.eye(2),
            torch.zeros(2, 3),
            torch.zeros(2),
            torch.zeros(1, 3, 2),
        )
    with assert_refused(OptionError, "truncation", 0, 1):
        bptt(torch.zeros(1, 3, 2), torch.zeros(1, 2), torch.eye(2), torch.eye(2), torch.zeros(2), X, truncation=0)
