"""Where a token stands, as a vector added to its own: attention by itself does not know order.

Shapes: C positions, H features.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from thereafter.errors import OptionError


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
