"""The options of a network that plays catch by glimpses, and its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.models.sensor_settings import SensorSettings
from thereafter.models.settings import check_choice

GAZES = ("learned", "centre")


@dataclass(frozen=True)
class CatcherSettings(SensorSettings):
    """Sizes of a network that plays catch by glimpses, and how it learns to."""

    places: str = "learned"
    """Where to look: "learned", or always the "centre"."""
    patch: int = 6
    scales: int = 3
    cell: str = "rnn"
    hidden: int = 128
    read: int = 64
    entropy: float = 0.003
    """The weight of the entropy of actions, which keeps them from being sure too early."""
    credit: float = 0.7
    """How much of what is learned at a step is passed on to the one before it: 1 is the reward itself, less has less
    noise."""
    dropout: float = 0.0
    """The share of what is chosen by that is dropped while training, the same throughout a game."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("places", self.places, GAZES)
        if not 0.0 <= self.entropy <= 10.0:
            raise OptionError(f"entropy is {self.entropy!r}; expected 0 to 10; try 0.003")
        if not 0.0 <= self.credit <= 1.0:
            raise OptionError(f"credit is {self.credit!r}; expected 0 to 1; try 0.7")


@dataclass(frozen=True)
class CatchBatch:
    """How episodes begin: column and slant of the ball, left column of the paddle; int64 [B, 3]."""

    starts_B3: Tensor

    def __len__(self) -> int:
        return len(self.starts_B3)

    def to(self, device: torch.device) -> CatchBatch:
        """The same on another device."""
        return CatchBatch(self.starts_B3.to(device))

    def places(self) -> dict[str, Tensor]:
        return {"starts": self.starts_B3}

    def over(self, places: Mapping[str, Tensor]) -> CatchBatch:
        return CatchBatch(places["starts"])


@dataclass(frozen=True)
class Game:
    """Games as they were played; T steps, each a glimpse and an action. `columns_BT`, `paddles_BT`: of ball and paddle
    before each action and after the last, T + 1 of them. `kept_BU`: the mask that dropout laid over h throughout each
    game, None where nothing was dropped."""

    places_BT2: Tensor
    patches_BTKgg: Tensor
    actions_BT: Tensor
    columns_BT: Tensor
    paddles_BT: Tensor
    caught_B: Tensor
    kept_BU: Tensor | None = None
