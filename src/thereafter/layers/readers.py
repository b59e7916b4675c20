"""What a reader is: the first part of a network, which turns what is read into vectors.

Shapes: B rows, T steps, D numbers a step, E the size of a vector.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError, ShapeError


class Reader(Protocol):
    """Inputs to vectors [B, T, E]: word vectors of ids (`layers.embedding.Embedding`), a linear map of numbers."""

    @property
    def size(self) -> int:
        """E."""

    @property
    def device(self) -> torch.device:
        """Where inputs must be."""

    def lookup(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The vectors, and the matrix a head may share (`Head.nll`), where there is one."""


class Numbers(nn.Module):
    """x_t = W u_t + b: numbers as vectors.

    `numbers`: D of them at each step, [B, T, D]; None for one, with no axis of its own, [B, T].

    >>> Numbers(None, 4)(torch.zeros(2, 3)).shape, Numbers(5, 4)(torch.zeros(2, 3, 5)).shape
    (torch.Size([2, 3, 4]), torch.Size([2, 3, 4]))
    """

    def __init__(self, numbers: int | None, size: int) -> None:
        super().__init__()
        if size < 1 or (numbers is not None and numbers < 1):
            raise OptionError(f"numbers is {numbers} and size is {size}; expected 1 or more")
        self.numbers = numbers
        bound = 1 / math.sqrt(numbers or 1)
        self.weight = nn.Parameter(torch.empty(size, numbers or 1).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(size))

    @property
    def size(self) -> int:
        return len(self.weight)

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def forward(self, numbers_BT: Tensor) -> Tensor:
        axes = 2 if self.numbers is None else 3
        if numbers_BT.dim() != axes or (self.numbers is not None and numbers_BT.shape[-1] != self.numbers):
            wanted = "[B, T]" if self.numbers is None else f"[B, T, {self.numbers}]"
            raise ShapeError(f"the numbers are {tuple(numbers_BT.shape)}; expected {wanted}")
        return F.linear(numbers_BT.unsqueeze(-1) if self.numbers is None else numbers_BT, self.weight, self.bias)

    def lookup(self, inputs: Tensor) -> tuple[Tensor, None]:
        """The vectors; there is no matrix to share."""
        return self.forward(inputs), None

    def extra_repr(self) -> str:
        return f"{self.numbers}, {self.size}"
