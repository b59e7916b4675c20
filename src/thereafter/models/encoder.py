"""The contract of encoders: sources of any kind (sentences, arrays of numbers, pictures) as a `Memory`.

Shapes: B sources, S places of each, H numbers of a place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from thereafter.errors import ShapeError


@dataclass(frozen=True)
class Memory:
    """B encoded sources: all that a decoder ever sees of them.

    `h_BSH`: a vector for each place; `inside_BS`: true where a place is real, and one is in every source. `summary`:
    one encoding of the whole source, by name and with the sources as first axis: a recurrent decoder begins with
    `h` (and `c`, of an LSTM), [B, layers, H]. `place_BS`: where each place stands in the source, if they were read in
    another order.
    """

    h_BSH: Tensor
    inside_BS: Tensor
    summary: Mapping[str, Tensor] = field(default_factory=dict)
    place_BS: Tensor | None = None

    def __post_init__(self) -> None:
        if self.h_BSH.dim() != 3 or self.inside_BS.shape != self.h_BSH.shape[:2] or self.inside_BS.dtype != torch.bool:
            raise ShapeError(
                f"a memory has vectors of the shape {tuple(self.h_BSH.shape)} and {self.inside_BS.dtype} of the shape "
                f"{tuple(self.inside_BS.shape)} that says where it is real; expected [sources, places, numbers], and "
                "true or false for [sources, places]; try inside = torch.ones(h.shape[:2], dtype=torch.bool)"
            )
        for name, tensor in self.summary.items():
            if len(tensor) != len(self):
                raise ShapeError(
                    f"the summary {name!r} has the shape {tuple(tensor.shape)} beside {len(self)} sources; "
                    "expected the sources as its first axis"
                )

    def __len__(self) -> int:
        return len(self.h_BSH)


Batch = TypeVar("Batch", contravariant=True)


class Encoder(Protocol[Batch]):
    """Reads the sources of a batch, of whichever kind."""

    def encode(self, batch: Batch) -> Memory:
        """What a decoder is given: `decoder.given(encoder.encode(batch))` is a `SequenceModel`."""
