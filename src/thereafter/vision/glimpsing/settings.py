"""Options and batches of networks that look at small parts: of a picture, or of a screen on which they play catch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.models.settings import check_choice, check_positive, check_share, check_size
from thereafter.series.forecasters.settings import cells


@dataclass(frozen=True)
class SensorSettings:
    """A glimpse, what reads it, and how places are drawn while training."""

    patch: int = 8
    """Pixels on the side of a glimpse."""
    scales: int = 1
    """Scales of a glimpse, each twice as wide as the one before."""
    cell: str = "lstm"
    """The kind of its recurrent layer: `cells()`."""
    hidden: int = 256
    """Units of the recurrent layer."""
    read: int = 128
    """Units for what is seen, and as many for where."""
    deviation: float = 0.2
    """The standard deviation of places from their mean while training; what is looked at is 2 wide."""
    dropout: float = 0.0
    """The share of what answers are made of that is dropped while training."""

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, tuple(cells()))
        for name in ("patch", "scales", "hidden", "read"):
            check_size(name, vars(self)[name])
        if self.scales > 6 or self.patch > 256:
            raise OptionError(
                f"patch is {self.patch} and scales is {self.scales}; expected at most 256 pixels and 6 scales; the "
                f"widest window has {self.patch} x 2^{self.scales - 1} pixels on a side"
            )
        if not 0.0 < self.deviation <= 2.0:
            raise OptionError(f"deviation is {self.deviation!r}; expected above 0, at most 2; try 0.2")
        check_share("dropout", self.dropout)


WHOLE = "all"
PLACES = ("learned", "random", "centre", WHOLE)
LEARN = ("every", "last")


@dataclass(frozen=True)
class GlimpserSettings(SensorSettings):
    """Sizes of a network that looks at small parts of a picture, and how it learns where to look."""

    places: str = "learned"
    """Where to look: "learned"; "random", drawn anew while training and once for each picture else; always the
    "centre"; or "all": convolutions that see the whole picture, with as many parameters."""
    glimpses: int = 6
    """Glimpses at a picture."""
    size: int = 0
    """Pixels on the side of a picture (0: as they are)."""
    samples: int = 1
    """Paths of glimpses that are drawn for a picture while training."""
    reward_weight: float = 0.1
    """The weight of the loss of places."""
    learn: str = "every"
    """Which beliefs are learned from: those after "every" glimpse, or the "last" alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("places", self.places, PLACES)
        check_choice("learn", self.learn, LEARN)
        for name in ("glimpses", "samples"):
            check_size(name, vars(self)[name])
        check_positive("reward_weight", self.reward_weight)


@dataclass(frozen=True)
class PixelBatch:
    """Pictures as bytes; `labels_B` is None where they are asked for."""

    pixels_BCHW: Tensor
    labels_B: Tensor | None = None

    def __len__(self) -> int:
        return len(self.pixels_BCHW)

    def to(self, device: torch.device) -> PixelBatch:
        """The same on another device."""
        labels_B = None if self.labels_B is None else self.labels_B.to(device)
        return replace(self, pixels_BCHW=self.pixels_BCHW.to(device), labels_B=labels_B)

    def places(self) -> dict[str, Tensor] | None:
        return None if self.labels_B is None else {"pixels": self.pixels_BCHW, "labels": self.labels_B}

    def over(self, places: Mapping[str, Tensor]) -> PixelBatch:
        return PixelBatch(places["pixels"], places["labels"])


@dataclass(frozen=True)
class Looked:
    """What was seen where, and what was believed then; T glimpses. `inputs_BTU`: what the recurrent layer read."""

    places_BT2: Tensor
    patches_BTKCgg: Tensor
    beliefs_BTL: Tensor
    inputs_BTU: Tensor


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
