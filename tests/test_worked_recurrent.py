"""Worked numbers of books and articles that teach this: the rows on recurrent networks.

Where a text's own arithmetic slips, the right value is asserted and the slip is named. The stored hidden states of
the article are measured in `tests/layers/test_bptt.py`.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from thereafter import nn
from thereafter.cells import CELLS
from thereafter.cells.base import HCState
from thereafter.layers.bptt import bptt


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def loaded(weight_ih: Tensor, weight_hh: Tensor, bias: list[float] | None = None, nonlinearity: str = "tanh") -> nn.RNN:
    """A batch-first RNN with given weights in the column convention, W x."""
    hidden, inputs = weight_ih.shape
    module = nn.RNN(inputs, hidden, 1, nonlinearity, "one" if bias else "none", True, dtype=torch.float64)
    weights = {"weight_ih_l0": weight_ih, "weight_hh_l0": weight_hh}
    if bias:
        weights["bias_ih_l0"] = torch.tensor(bias, dtype=torch.float64)
    module.load_state_dict(weights)
    return module


def check_close(got: Tensor, expected: Any, within: float = 5e-7) -> None:
    torch.testing.assert_close(got.detach(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=within)


def test_book_exercise_1_three_steps_of_the_vanilla_rnn():
    rnn = loaded(matrix([0.5, 0.3], [0.2, 0.4]), matrix([0.1, 0.2], [0.3, 0.1]))
    output, last = rnn(matrix([1, 0], [0, 1], [1, 1])[None])
    check_close(output[0], [[0.462117, 0.197375], [0.367636, 0.506769], [0.734356, 0.641647]])
    check_close(last[0, 0], [0.734356, 0.641647])


def test_book_exercise_5_the_cell_of_given_gates():
    cell = CELLS.load("lstm")(1, 2)
    f, i, candidate = matrix([0.9, 0.3]), matrix([0.2, 0.8]), matrix([0.0, 1.0])
    products = torch.cat([torch.logit(i), torch.logit(f), torch.atanh(candidate), torch.zeros(1, 2)], 1)
    record: dict[str, Tensor] = {}
    state = HCState(torch.zeros(1, 2, dtype=torch.float64), matrix([1.0, 0.5]))
    _, new = cell.pointwise(products, torch.zeros_like(products), state, {}, record)
    check_close(new.c[0], [0.90, 0.95], 1e-12)
    check_close(record["forget"][0], [0.9, 0.3], 1e-12)


def test_module_section_3_1_a_batch_in_the_row_convention():
    """The text's X W_xh has -1.7 where the product is -2.7, so it prints -0.929 for -0.990."""
    rnn = loaded(matrix([0.5, -1.0], [1.2, 0.3]).T, matrix([0.7, -0.4], [0.2, 0.5]).T, [0.1, -0.1])
    output, _ = rnn(matrix([1, 2], [3, 1])[:, None], matrix([0.1, -0.2], [0.0, 0.3])[None])
    check_close(output[:, 0], [[0.995342, -0.564900], [0.993462, -0.990066]])


def test_module_section_3_2_a_second_layer_on_top():
    """The text prints [[.203, -.546], [-.482, -.430]], from its slip below."""
    stack = nn.RNN(2, 2, 2, bias="one", batch_first=True, dtype=torch.float64)
    stack.load_state_dict(
        {
            "weight_ih_l0": matrix([0.5, -1.0], [1.2, 0.3]).T,
            "weight_hh_l0": matrix([0.7, -0.4], [0.2, 0.5]).T,
            "bias_ih_l0": torch.tensor([0.1, -0.1]),
            "weight_ih_l1": matrix([0.4, -0.6], [0.9, 0.2]).T,
            "weight_hh_l1": matrix([-0.3, 0.7], [0.5, -0.1]).T,
            "bias_ih_l1": torch.tensor([0.0, 0.2]),
        }
    )
    before = torch.stack([matrix([0.1, -0.2], [0.0, 0.3]), matrix([-0.1, 0.4], [0.2, -0.3])])
    output, last = stack(matrix([1, 2], [3, 1])[:, None], before)
    check_close(output[:, 0], [[0.119158, -0.551257], [-0.606695, -0.400371]])
    check_close(last[0], [[0.995342, -0.564900], [0.993462, -0.990066]])


def test_chapter_section_3_4_so_long():
    embeddings = matrix([0.087, 0.940], [0.698, 0.711], [0.474, 0.897], [0.698, 0.978], [0.122, 0.175])
    rnn = loaded(matrix([0.375, 0.951], [0.732, 0.599]), matrix([0.156, 0.156], [0.058, 0.866]), nonlinearity="relu")
    head = matrix([0.601, 0.683], [0.021, 0.970], [0.832, 0.212], [0.182, 0.183], [0.304, 0.525])
    so, long, and_ = 3, 2, 0
    hidden, _ = rnn(embeddings[[so, long]][None])
    check_close(hidden[0], [[1.191828, 1.096758], [1.387816, 1.903189]])
    log_p = torch.log_softmax(hidden[0].detach() @ head.T, -1)
    check_close(
        log_p.exp(),
        [[0.293011, 0.201083, 0.230200, 0.102766, 0.172941], [0.328906, 0.253929, 0.184926, 0.071000, 0.161239]],
    )
    loss = torch.nn.functional.nll_loss(log_p, torch.tensor([long, and_]))
    assert float(loss) == pytest.approx(1.290395, abs=5e-7)
    assert math.exp(float(loss)) == pytest.approx(3.634222, abs=5e-7)


def test_lecture_a_one_hot_product_selects_a_column_of_the_input_matrix():
    weight = torch.randn(3, 4, dtype=torch.float64)
    rnn = loaded(weight, torch.zeros(3, 3, dtype=torch.float64), nonlinearity="identity")
    hello = torch.tensor([0, 1, 2, 2])  # h, e, l, l of the vocabulary h, e, l, o
    output, _ = rnn(torch.nn.functional.one_hot(hello, 4).double()[None])
    check_close(output[0], weight.T[hello].tolist(), 1e-12)


@pytest.mark.parametrize(
    ("kind", "expected"),
    # the text prints 131K, 590K and 787K
    [("RNN", 98_560), ("GRU", 295_680), ("LSTM", 394_240)],
)
def test_book_exercise_6_parameters_with_one_bias_for_each_gate(kind: str, expected: int):
    assert nn.count_parameters(getattr(nn, kind)(128, 256, bias="one")) == expected
    assert expected / 394_240 == {"RNN": 0.25, "GRU": 0.75, "LSTM": 1.0}[kind]


def test_torch_counts_a_second_bias():
    assert nn.count_parameters(nn.LSTM(128, 256)) == nn.count_parameters(torch.nn.LSTM(128, 256)) == 395_264


def test_book_section_5_2_1_a_language_model_without_its_embeddings():
    rnn = nn.RNN(300, 256, bias="one", device="meta")
    assert nn.count_parameters(rnn, torch.nn.Linear(256, 50_000, device="meta")) == 12_992_592


@pytest.mark.parametrize(("kind", "expected"), [("elman", 393_216), ("gru", 1_179_648), ("lstm", 1_572_864)])
def test_article_parameters_without_biases(kind: str, expected: int):
    assert nn.count_parameters(CELLS.load(kind)(256, 512, bias="none")) == expected


@pytest.mark.parametrize(
    ("factor", "steps", "expected"),
    [(0.9, 100, 2.6561e-5), (1.1, 100, 13780.6), (0.8, 50, 1.4272e-5), (1.1, 1000, 2.4699e41)],
)
def test_lecture_and_article_gradients_that_vanish_and_explode(factor: float, steps: int, expected: float):
    """The linear network h_t = a h_{t-1}: what the last state says about the first, by hand and by autograd."""
    x, h0, U = torch.zeros(1, steps, 1).double(), torch.ones(1, 1).double(), matrix([factor])
    zero = torch.zeros(1, dtype=torch.float64)
    last_only = torch.zeros(1, steps, 1, dtype=torch.float64)
    last_only[:, -1] = 1.0
    found = bptt(x, h0, torch.ones_like(U), U, zero, last_only, nonlinearity="identity")
    assert float(found.h0) == pytest.approx(expected, rel=5e-5)
    rnn = loaded(torch.ones_like(U), U, nonlinearity="identity")
    start = torch.ones(1, 1, 1, dtype=torch.float64, requires_grad=True)
    rnn(x, start)[1].sum().backward()
    assert start.grad is not None
    assert float(start.grad) == pytest.approx(expected, rel=5e-5)
