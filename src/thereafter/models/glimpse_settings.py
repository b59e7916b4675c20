"""The options of a network that looks at small parts of a picture, and its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from thereafter.models.sensor_settings import SensorSettings
from thereafter.models.settings import check_choice, check_positive, check_size

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
