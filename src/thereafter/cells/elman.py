"""The simple recurrent network of Elman 1990 (Finding structure in time)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import Cell, HState, Record, Weights
from thereafter.cells.options import ElmanOptions
from thereafter.errors import UnknownNameError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky_relu": F.leaky_relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}


class Elman(Cell):
    """h_t = f(W x_t + U h_{t-1} + b), f one of tanh, relu, leaky_relu (slope 0.01), relu6, sigmoid, identity.

    >>> cell = Elman(2, 3)
    >>> cell.shapes()["weight_hh"]
    (3, 3)
    """

    name: ClassVar[str] = "elman"
    gates: ClassVar[tuple[str, ...]] = ("hidden",)
    options_type: ClassVar[type[ElmanOptions]] = ElmanOptions
    options: ElmanOptions

    def check_options(self) -> None:
        if self.options.nonlinearity not in ACTIVATIONS:
            raise UnknownNameError("nonlinearity", self.options.nonlinearity, ACTIVATIONS)

    def pointwise(
        self, z_BG: Tensor, r_BG: Tensor, state: HState, weights: Weights, record: Record | None = None
    ) -> tuple[Tensor, HState]:
        h_BH = ACTIVATIONS[self.options.nonlinearity](z_BG + r_BG)
        if record is not None:
            record["preactivation"] = z_BG + r_BG
        return h_BH, HState(h_BH)
