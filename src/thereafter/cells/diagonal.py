"""A diagonal linear recurrence, the core of the state-space family (Gupta et al. 2022; Orvieto et al. 2023, LRU)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from thereafter.cells.base import MemoryGate, Record, Weights
from thereafter.cells.minimal import LinearCell


class Diagonal(LinearCell):
    """h_t = a h_{t-1} + sqrt(1 - a^2) (W x_t + b),   a = exp(-exp(log_rate)) in (0, 1), one for each unit, learned

    The factor keeps the variance of h that of its input whatever a is. Fresh units forget over 1 to 1000 steps, evenly
    on a logarithmic scale.

    >>> Diagonal(2, 3).shapes()
    {'weight_ih': (3, 2), 'bias_ih': (3,), 'log_rate': (3,)}
    """

    name: ClassVar[str] = "diagonal"
    gates: ClassVar[tuple[str, ...]] = ("input",)

    @property
    def memory_gate(self) -> MemoryGate:
        return MemoryGate("decay")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return super().shapes() | {"log_rate": (self.hidden_size,)}

    def initialise(self, weights: dict[str, Tensor]) -> None:
        super().initialise(weights)
        with torch.no_grad():
            weights["log_rate"].copy_(torch.linspace(0.0, -math.log(1000.0), self.hidden_size))

    def coefficients(self, z_BTG: Tensor, weights: Weights, record: Record | None = None) -> tuple[Tensor, Tensor]:
        rate = torch.exp(weights["log_rate"])
        a_H = torch.exp(-rate)
        # sqrt(1 - a^2) without cancellation for slow units
        scale_H = torch.sqrt(-torch.expm1(-2 * rate))
        if record is not None:
            record |= {"decay": a_H.expand_as(z_BTG), "input": z_BTG}
        return a_H.expand_as(z_BTG), scale_H * z_BTG
