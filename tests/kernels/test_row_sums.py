"""Rows added by an index: right, and what the program is launched with."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from gpu_twins import parameters
from torch import Tensor

from thereafter.kernels import rows
from thereafter.kernels.gpu import row_sums as program
from thereafter.kernels.rows import add_rows, pick_rows
from thereafter.layers.embedding import Embedding

SHAPES = [(1, 3, 5), (70, 9, 40), (130, 2, 33), (100, 300, 8)]


def whole_numbers(count: int, rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of whole numbers are the same in every order."""
    torch.manual_seed(count)
    index_N = torch.randint(0, rows, (count,))
    draw = torch.randint(-9, 10, (rows + count, columns)).double()
    return draw[:rows].clone(), index_N, draw[rows:]


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_added_to_what_is_there(shape: tuple[int, int, int]):
    table_RE, index_N, rows_NE = whole_numbers(*shape)
    before = table_RE.clone()
    assert add_rows(table_RE, index_N, rows_NE) is table_RE
    onehot_NR = F.one_hot(index_N, len(before)).double()
    assert torch.equal(table_RE, before + onehot_NR.T @ rows_NE)


@pytest.mark.parametrize("shape", SHAPES)
def test_torchs_own_form_in_a_fixed_order_gives_the_same(shape: tuple[int, int, int]):
    table_RE, index_N, rows_NE = whole_numbers(*shape)
    sums_RE = torch.ops.aten.embedding_dense_backward(rows_NE, index_N, len(table_RE), -1, False)
    assert torch.equal(table_RE + sums_RE, add_rows(table_RE.clone(), index_N, rows_NE))


@pytest.mark.parametrize("tied", [False, True])
def test_the_gradient_of_an_embedding_is_autograds(tied: bool):
    torch.manual_seed(1)
    layer = Embedding(6, 4).double()
    tokens_BT = torch.tensor([[0, 6, 0, 2], [0, 0, 5, 2]])
    weight_RE = layer.weight.detach().clone().requires_grad_()
    scale_BTE = torch.randint(1, 9, (2, 4, 4)).double()
    x_BTE, table_RE = layer.lookup(tokens_BT) if tied else (layer(tokens_BT), layer.weight)
    ((x_BTE * scale_BTE).sum() + (3 * table_RE).sum()).backward()
    ((weight_RE[tokens_BT] * scale_BTE).sum() + (3 * weight_RE).sum()).backward()
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, weight_RE.grad)


def test_the_gradient_of_picked_rows():
    x_RE, index_N, dy_NE = whole_numbers(20, 7, 3)
    x_RE.requires_grad_()
    own = rows.apply_one(rows._PickRows, x_RE, index_N.view(4, 5))  # a CPU does without
    other = pick_rows(x_RE, index_N.view(4, 5))
    assert torch.equal(own, other)
    (own_grad,) = torch.autograd.grad(own, x_RE, dy_NE.view_as(own))
    (other_grad,) = torch.autograd.grad(other, x_RE, dy_NE.view_as(own))
    assert torch.equal(own_grad, other_grad)


@pytest.mark.parametrize("is_long", [False, True], ids=["searched", "sorted"])
def test_what_is_launched_is_what_the_program_takes(monkeypatch: pytest.MonkeyPatch, is_long: bool):
    calls = []
    monkeypatch.setattr(program, "launch", lambda *words, **more: calls.append((words, more)))
    _, index_N, rows_NE = whole_numbers(40, 9, 70)
    program.add_rows_on_gpu(torch.zeros(9, 70), index_N, rows_NE.float(), short=39 if is_long else 40)
    ((module, function, arguments, constants), more) = calls[0]
    taken, fixed = parameters(module, function)
    assert (list(arguments), set(constants)) == (taken, fixed)
    assert more["blocks"] == 40 * -(-70 // constants["COLUMNS"])
    assert constants["SORTED"] == is_long
    sorted_N = arguments["index"].long()
    if is_long:
        assert torch.equal(index_N[arguments["order"].long()], sorted_N)
        assert torch.equal(sorted_N, sorted_N.sort().values)
    program.add_rows_on_gpu(torch.zeros(9, 70), index_N[:0], rows_NE[:0].float())
    assert len(calls) == 1


def test_what_the_program_cannot_add_is_left_to_torch():
    table_RE = torch.zeros(4, 6)
    assert program.takes(table_RE, torch.zeros(2, 6, dtype=torch.bfloat16))
    assert not program.takes(table_RE.double(), table_RE)
    assert not program.takes(table_RE.T, table_RE)
    assert not program.takes(table_RE, table_RE.long())
