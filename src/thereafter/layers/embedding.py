"""Word vectors, and the vectors of positions added to them: attention by itself does not know order.

Shapes: B rows, T steps, V words, R = V + 1 rows of the matrix, E the size of a vector, C positions, H features.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from thereafter.errors import OptionError
from thereafter.kernels.rows import add_rows, pick_rows
from thereafter.kernels.switches import apply_many
from thereafter.layers.inputs import probability


class Embedding(nn.Module):
    """x_t = W[token_t]; the row below the V words is `<s>`, which is read and never predicted.

    `drop`: the share of words, not of numbers, whose vector is 0 throughout a call, the others times 1/(1-drop)
    (Gal and Ghahramani 2016). `init`: uniform in +-init.

    >>> Embedding(10, 4)(torch.tensor([[0, 9, 10]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(self, words: int, size: int, *, drop: float = 0.0, init: float = 0.1) -> None:
        super().__init__()
        self.words, self.drop = words, probability("drop", drop)
        self.weight = nn.Parameter(torch.empty(words + 1, size))
        nn.init.uniform_(self.weight, -init, init)

    @property
    def size(self) -> int:
        return self.weight.shape[1]

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def forward(self, tokens_BT: Tensor) -> Tensor:
        return self._dropped(pick_rows(self.weight, tokens_BT), tokens_BT)

    def lookup(self, tokens_BT: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors, and the matrix for a head that shares it.

        Both uses then leave their gradients in one V x E array: the few rows that were read are added to the array the
        head made. Autograd by itself would fill a second one with zeros, and add up the two.
        """
        x_BTE, table_RE = apply_many(_Lookup, self.weight, tokens_BT)
        return self._dropped(x_BTE, tokens_BT), table_RE

    def _dropped(self, x_BTE: Tensor, tokens_BT: Tensor) -> Tensor:
        if not self.training or self.drop == 0.0:
            return x_BTE
        kept_R = F.dropout(x_BTE.new_ones(len(self.weight)), self.drop, training=True)
        return x_BTE * kept_R[tokens_BT].unsqueeze(-1)

    def extra_repr(self) -> str:
        return f"{self.words} + 1, {self.weight.shape[1]}, drop={self.drop}"


class _Lookup(torch.autograd.Function):
    """Rows of a matrix, and the matrix itself passed through."""

    @staticmethod
    def forward(ctx: Any, weight_RE: Tensor, tokens_BT: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(tokens_BT)
        ctx.shape = weight_RE.shape
        ctx.set_materialize_grads(False)
        return F.embedding(tokens_BT, weight_RE), weight_RE.view_as(weight_RE)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dx_BTE: Tensor | None, dtable_RE: Tensor | None) -> tuple[Tensor | None, None]:
        (tokens_BT,) = ctx.saved_tensors
        if dx_BTE is None:
            return dtable_RE, None
        if dtable_RE is None:
            dtable_RE = dx_BTE.new_zeros(ctx.shape)
        return add_rows(dtable_RE, tokens_BT.flatten(), dx_BTE.flatten(0, -2)), None


def sinusoids(positions: int, size: int) -> Tensor:
    """p[t, 2i] = sin(t / 10000^(2i/H)), p[t, 2i+1] = cos of the same, [C, H]   (Vaswani et al. 2017)

    >>> sinusoids(2, 4)[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    rates = torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
    angles = torch.arange(positions).unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size]


class Positions(nn.Module):
    """The vectors of the positions 0 to C - 1: "sinusoidal" ones are computed, "learned" ones are parameters."""

    table_CH: Tensor

    def __init__(self, kind: str, positions: int, size: int) -> None:
        super().__init__()
        self.kind = kind
        if kind == "sinusoidal":
            self.register_buffer("table_CH", sinusoids(positions, size), persistent=False)
        elif kind == "learned":
            self.table_CH = nn.Parameter(0.02 * torch.randn(positions, size))
        else:
            raise OptionError(f"positions is {kind!r}; expected 'sinusoidal' or 'learned'")

    def forward(self, position_BT: Tensor) -> Tensor:
        """The vectors of given positions, [B, T, H] (or [T, H] for [T])."""
        return self.table_CH[position_BT]

    def extra_repr(self) -> str:
        return f"{self.kind}, {self.table_CH.shape[0]}, {self.table_CH.shape[1]}"
