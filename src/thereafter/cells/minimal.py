"""Cells that are linear in their state: gates see the input alone, so time is parallel.

minGRU and minLSTM: Feng et al. 2024, Were RNNs all we needed? A diagonal linear recurrence is the core of the
state-space family (Gupta et al. 2022; Orvieto et al. 2023, LRU).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from thereafter.cells.base import Cell, HState, MemoryGate, Record, Weights, split
from thereafter.errors import OptionError


class LinearCell(Cell):
    """h_t = a_t h_{t-1} + b_t with a and b from the input alone: step by step, or all steps by an associative scan."""

    linear: ClassVar[bool] = True

    def __init__(
        self, input_size: int, hidden_size: int, *, bias: str = "one", layer_norm: bool = False, **options: Any
    ) -> None:
        super().__init__(input_size, hidden_size, bias="one" if bias == "two" else bias, **options)
        if layer_norm:
            raise OptionError(f"the cell {self.name!r} has no recurrent product to normalise; try layer_norm=False")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super().shapes()
        del shapes["weight_hh"]
        return shapes

    def recur(self, h_BO: Tensor, weights: Weights) -> Tensor:
        """Nothing recurs but the state itself."""
        return h_BO.new_zeros(())

    @abstractmethod
    def coefficients(self, z_BTG: Tensor, weights: Weights, record: Record | None = None) -> tuple[Tensor, Tensor]: ...

    def pointwise(
        self, z_BG: Tensor, r_BG: Tensor, state: HState, weights: Weights, record: Record | None = None
    ) -> tuple[Tensor, HState]:
        a_BH, b_BH = self.coefficients(z_BG, weights, record)
        h_BH = a_BH * state.h + b_BH
        return h_BH, HState(h_BH)


class MinGRU(LinearCell):
    """z = sigmoid(W_z x + b),  n = W_n x + b,  h_t = (1 - z) h_{t-1} + z n

    >>> MinGRU(2, 3).shapes()
    {'weight_ih': (6, 2), 'bias_ih': (6,)}
    """

    name: ClassVar[str] = "mingru"
    gates: ClassVar[tuple[str, ...]] = ("update", "new")

    @property
    def memory_gate(self) -> MemoryGate:
        return MemoryGate("update", keeps=False)

    def coefficients(self, z_BTG: Tensor, weights: Weights, record: Record | None = None) -> tuple[Tensor, Tensor]:
        update, new = split(z_BTG, 2)
        z_BTH = torch.sigmoid(update)
        if record is not None:
            record |= {"update": z_BTH, "new": new}
        return 1 - z_BTH, z_BTH * new


class MinLSTM(LinearCell):
    """f, i = sigmoid(W x + b),  n = W_n x + b,  h_t = f/(f+i) h_{t-1} + i/(f+i) n

    >>> MinLSTM(2, 3).blocks
    ('input', 'forget', 'new')
    """

    name: ClassVar[str] = "minlstm"
    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "new")

    def coefficients(self, z_BTG: Tensor, weights: Weights, record: Record | None = None) -> tuple[Tensor, Tensor]:
        i_z, f_z, new = split(z_BTG, 3)
        # f / (f + i) as one sigmoid of log f - log i: no division, no 0 / 0 where both gates close
        f_BTH = torch.sigmoid(torch.nn.functional.logsigmoid(f_z) - torch.nn.functional.logsigmoid(i_z))
        if record is not None:
            record |= {"input": 1 - f_BTH, "forget": f_BTH, "new": new}
        return f_BTH, (1 - f_BTH) * new


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
