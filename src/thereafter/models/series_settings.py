"""The options of networks that read a whole series, or a picture as one, and give it a label."""

from __future__ import annotations

from dataclasses import dataclass

from thereafter.errors import OptionError
from thereafter.images.as_series import PERMUTATION, READINGS
from thereafter.layers.blocks import FEEDS
from thereafter.layers.pooling import POOLINGS
from thereafter.models.forecasting.settings import cells
from thereafter.models.settings import check_choice, check_share, check_size

CONVOLUTION = "conv"
STACKS = ("plain", "residual")


def encoders() -> tuple[str, ...]:
    """What can read a series."""
    return (*cells(), CONVOLUTION)


@dataclass(frozen=True)
class ReaderSettings:
    """`encoder`: a recurrent kind such as "gru", or "conv"; `hidden`: units a direction (a width of the convolutions);
    `layers`: how many; `bidirectional`: recurrent layers read in both directions. `pooling`: "last", "mean", "max",
    "attention" or "concat". `dropout`: between layers and on the pooled vector.

    Recurrent layers: `stack`: "plain", or "residual" blocks with a feed-forward layer each, which may be deep; `feed`:
    that of a block, "gated", "plain" or "none". `memory`: steps for which fresh gates remember at the longest (0: as
    the cell has it)."""

    encoder: str = "gru"
    hidden: int = 64
    layers: int = 1
    bidirectional: bool = True
    pooling: str = "max"
    dropout: float = 0.2
    stack: str = "plain"
    feed: str = "gated"
    memory: int = 0

    def __post_init__(self) -> None:
        check_choice("encoder", self.encoder, encoders())
        check_choice("pooling", self.pooling, POOLINGS)
        check_choice("stack", self.stack, STACKS)
        check_choice("feed", self.feed, FEEDS)
        check_size("hidden", self.hidden)
        check_size("layers", self.layers)
        check_share("dropout", self.dropout)
        if self.encoder == CONVOLUTION and self.pooling == "last":
            raise OptionError(
                f"pooling is 'last' and encoder is {CONVOLUTION!r}, whose last features see only the last steps; "
                "expected mean, max or attention; try pooling=max"
            )
        if self.encoder == CONVOLUTION and (self.stack != "plain" or self.memory):
            raise OptionError(
                f"encoder is {CONVOLUTION!r}, with stack={self.stack!r} and memory={self.memory}, which are for "
                "recurrent layers; expected stack='plain' and memory=0"
            )
        if self.memory and (self.memory < 2 or self.encoder == "rnn"):
            raise OptionError(
                f"memory is {self.memory} and encoder is {self.encoder!r}; expected 0, or at least 2 steps and cells "
                "with something that keeps a memory; try encoder=lstm"
            )


@dataclass(frozen=True)
class SeriesClassifierSettings(ReaderSettings):
    """Those of `ReaderSettings`; and columns of a table, where they are not recognised: `label`, `series`, `time`;
    `channels`, with commas between."""

    label: str = ""
    series: str = ""
    time: str = ""
    channels: str = ""


@dataclass(frozen=True)
class PictureClassifierSettings(ReaderSettings):
    """Those of `ReaderSettings`, with one layer that reads in one direction and answers from its last state.

    `read`: "rows" (a step is a row of pixels), "pixels" (a step is a pixel, row by row) or "permuted" (the pixels in
    one random order for all pictures); `permutation`: the seed of that order. `size`: pixels a side to which pictures
    are brought (0: their own where all are equal and at most 256, else 64)."""

    encoder: str = "lstm"
    hidden: int = 128
    bidirectional: bool = False
    pooling: str = "last"
    dropout: float = 0.0
    read: str = "rows"
    permutation: int = PERMUTATION
    size: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("read", self.read, READINGS)
        if not 0 <= self.permutation < 2**32:
            raise OptionError(f"permutation is {self.permutation}; expected a seed from 0 to {2**32 - 1}")
        if self.size < 0:
            raise OptionError(f"size is {self.size}; expected pixels a side, or 0 for that of the pictures")
