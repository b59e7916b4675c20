"""The bodies of networks that forecast: the rows of a window in, features of its end out.

Shapes: B windows, L rows, I numbers of a row, T steps of G rows each, F features.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise

import torch
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.layers.positions import Positions
from thereafter.layers.recurrent import Recurrent
from thereafter.layers.transformer import Block, Sight
from thereafter.models.forecasting.settings import ForecastSettings, cells


class ForecastBody(nn.Module):
    """Reads [B, L, I] and gives [B, F]."""

    features: int

    @abstractmethod
    def forward(self, x_BLI: Tensor) -> Tensor: ...


class WindowBody(ForecastBody):
    """Hidden layers over all rows of the window at once: relu(W [x_1; ...; x_L] + b)."""

    def __init__(self, settings: ForecastSettings, inputs: int, lookback: int) -> None:
        super().__init__()
        sizes = [inputs * lookback, *[settings.hidden] * settings.layers]
        self.hidden = nn.ModuleList(nn.Linear(size, after) for size, after in pairwise(sizes))
        self.features = settings.hidden

    def forward(self, x_BLI: Tensor) -> Tensor:
        f_BF = x_BLI.flatten(1)
        for layer in self.hidden:
            f_BF = torch.relu(layer(f_BF))
        return f_BF


class SteppingBody(ForecastBody):
    """Rows are read G at a time; with G above 1 a step is relu(W [its rows] + b) (Lin et al. 2023, SegRNN)."""

    def __init__(self, settings: ForecastSettings, inputs: int, segment: int, always: bool) -> None:
        super().__init__()
        self.segment = segment
        self.read = nn.Linear(inputs * segment, settings.hidden) if segment > 1 or always else None
        self.inputs = inputs if self.read is None else settings.hidden
        self.features = settings.hidden

    def steps(self, x_BLI: Tensor) -> Tensor:
        """The inputs of each step, [B, T, ...]."""
        if self.read is None:
            return x_BLI
        length = x_BLI.shape[1]
        if length % self.segment:
            raise OptionError(
                f"a window has {length} rows, which segments of {self.segment} do not divide; try a lookback of "
                f"{max(1, length // self.segment) * self.segment}, or segment=1"
            )
        read_BTF: Tensor = self.read(x_BLI.reshape(len(x_BLI), length // self.segment, -1))
        return torch.relu(read_BTF) if self.segment > 1 else read_BTF


class RecurrentBody(SteppingBody):
    """The state of recurrent layers at the end of the window."""

    def __init__(self, settings: ForecastSettings, inputs: int, segment: int) -> None:
        super().__init__(settings, inputs, segment, always=False)
        self.layers = Recurrent(
            cells()[settings.model],
            self.inputs,
            settings.hidden,
            settings.layers,
            batch_first=True,
            dropout=settings.dropout if settings.layers > 1 else 0.0,
        )

    def forward(self, x_BLI: Tensor) -> Tensor:
        h_BTF: Tensor = self.layers(self.steps(x_BLI))[0]
        return h_BTF[:, -1]

    def every_step(self, x_BLI: Tensor) -> Tensor:
        """The features after each row, [B, L, F], where rows are read one at a time."""
        h_BTF: Tensor = self.layers(self.steps(x_BLI))[0]
        return h_BTF


class TransformerBody(SteppingBody):
    """Blocks of causal attention; the features of the last step."""

    def __init__(self, settings: ForecastSettings, inputs: int, segment: int, lookback: int) -> None:
        super().__init__(settings, inputs, segment, always=True)
        size = settings.hidden
        self.positions = Positions("learned", -(-lookback // segment), size)
        blocks = [Block(size, settings.heads, 4 * size, dropout=settings.dropout) for _ in range(settings.layers)]
        for block in blocks:
            block.initialise(settings.layers)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(size)

    def forward(self, x_BLI: Tensor) -> Tensor:
        h_BTF = self.steps(x_BLI)
        h_BTF = h_BTF + self.positions.table_CH[: h_BTF.shape[1]]
        sight = Sight.of([0], h_BTF.shape[1], h_BTF.device)
        for block in self.blocks:
            h_BTF, _ = block(h_BTF, None, sight)
        f_BF: Tensor = self.norm(h_BTF[:, -1])
        return f_BF


def make_body(settings: ForecastSettings, inputs: int, lookback: int, segment: int) -> ForecastBody:
    """The body that the settings name."""
    if settings.model == "window":
        return WindowBody(settings, inputs, lookback)
    if settings.model == "transformer":
        return TransformerBody(settings, inputs, segment, lookback)
    return RecurrentBody(settings, inputs, segment)
