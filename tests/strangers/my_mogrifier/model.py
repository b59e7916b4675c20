"""The Mogrifier LSTM (Melis, Kočiský and Blunsom 2020).

Before the step, input and state gate each other `rounds` times:
    odd i    x = 2 sigmoid(Q_i h) * x,    even i   h = 2 sigmoid(Q_i x) * h
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import Record, Weights
from thereafter.cells.lstm import LSTM
from thereafter.cells.options import OptionValue
from thereafter.models.recurrent import RecurrentModel
from thereafter.models.settings import LstmSettings


class Mogrifier(LSTM):
    name = "my-mogrifier"
    hoists = False  # the state changes the input before W x

    def __init__(self, input_size: int, hidden_size: int, *, rounds: int = 5, **options: Any) -> None:
        super().__init__(input_size, hidden_size, **options)
        self.rounds = rounds

    def shapes(self) -> dict[str, tuple[int, ...]]:
        pair = self.input_size, self.output_size
        return super().shapes() | {f"mogrify_{i}": pair if i % 2 else pair[::-1] for i in range(1, self.rounds + 1)}

    def step(self, z_BG: Tensor, state: Any, weights: Weights, record: Record | None = None) -> tuple[Tensor, Any]:
        x_BI, h_BO = z_BG, state.h
        for i in range(1, self.rounds + 1):
            if i % 2:
                x_BI = 2 * torch.sigmoid(F.linear(h_BO, weights[f"mogrify_{i}"])) * x_BI
            else:
                h_BO = 2 * torch.sigmoid(F.linear(x_BI, weights[f"mogrify_{i}"])) * h_BO
        return self.pointwise(self.input_product(x_BI, weights), self.recur(h_BO, weights), state, weights, record)


class MogrifierModel(RecurrentModel):
    """The row of its kind names the cell."""


@dataclass(frozen=True)
class MogrifierSettings(LstmSettings):
    rounds: int = 5

    def cell_options(self) -> dict[str, OptionValue]:
        return super().cell_options() | {"rounds": self.rounds}
