"""Rows that an index names in a table: taken from it, and others added to it, the gradient of an embedding.

    table[index_n] += rows_n

Many rows have one index: words recur. On a GPU torch's `index_add_` adds them by atomic operations, in an order that is
another one at every launch. In its deterministic form it sorts and then adds the rows of one index one by one, each
read from memory and written back, so that a word that stands 300 times in a batch is 300 such ways. Our program adds up
64 rows at once, and each sum has one order. Where it cannot run, torch's gradient of an embedding is taken, whose
sums have one order too, at the cost of a second table. Both can be recorded in a CUDA graph.

Shapes: N rows that are added, R rows of the table, E columns.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from thereafter.kernels.second import Called
from thereafter.kernels.switches import apply_one, traced, transformed


def add_rows(table_RE: Tensor, index_N: Tensor, rows_NE: Tensor) -> Tensor:
    """Add the rows in place, and return the table.

    On a GPU sums have a fixed order while torch's switch for it is on, as it is in a training; on a CPU always.

    >>> add_rows(torch.zeros(2, 1), torch.tensor([1, 1]), torch.tensor([[1.0], [2.0]])).tolist()
    [[0.0], [3.0]]
    """
    if table_RE.device.type != "cuda" or not torch.are_deterministic_algorithms_enabled():
        return table_RE.index_add_(0, index_N, rows_NE.to(table_RE.dtype))
    from thereafter.kernels.gpu import lacks
    from thereafter.kernels.gpu.row_sums import add_rows_on_gpu, takes

    if takes(table_RE, rows_NE) and lacks(table_RE.device.index) is None:
        add_rows_on_gpu(table_RE, index_N, rows_NE)
        return table_RE
    sums_RE = torch.ops.aten.embedding_dense_backward(rows_NE, index_N, len(table_RE), -1, False)
    return table_RE.add_(sums_RE)


def pick_rows(x_RE: Tensor, index: Tensor) -> Tensor:
    """x[index], the rows [..., E] of a matrix for an index of any shape; its gradient is `add_rows`.

    The same as `F.embedding`, and as `index_select` for a flat index, whose gradients are slower in a fixed order.
    """
    plain = x_RE.device.type != "cuda" or not torch.are_deterministic_algorithms_enabled()
    if plain or traced() or transformed():  # those know torch's own operators alone
        return torch.nn.functional.embedding(index, x_RE)
    return apply_one(_PickRows, x_RE, index)


class _CalledPick(Called, Protocol):
    rows: int


class _PickRows(torch.autograd.Function):
    """See `pick_rows`."""

    @staticmethod
    def forward(ctx: _CalledPick, x_RE: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = len(x_RE)
        return torch.nn.functional.embedding(index, x_RE)

    @staticmethod
    @once_differentiable
    def backward(ctx: _CalledPick, dy: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        dx_RE = dy.new_zeros(ctx.rows, dy.shape[-1])
        return add_rows(dx_RE, index.flatten(), dy.flatten(0, -2)), None
