"""minGRU and minLSTM (Feng et al. 2024, Were RNNs all we needed?): gates see the input alone, so time is parallel."""

from __future__ import annotations

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
