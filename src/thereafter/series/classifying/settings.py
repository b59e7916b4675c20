"""The options of networks that read a whole series, or a picture as one, and give it a label."""

from __future__ import annotations

from dataclasses import dataclass

from thereafter.errors import OptionError
from thereafter.layers.blocks import FEEDS, POOLINGS
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.series.forecasters.settings import cells
from thereafter.vision.pictures.as_series import PERMUTATION, READINGS

CONVOLUTION = "conv"
STACKS = ("plain", "residual")


def encoders() -> tuple[str, ...]:
    """What can read a series."""
    return (*cells(), CONVOLUTION)


@dataclass(frozen=True)
class ReaderSettings:
    """What reads a series, or a picture as one, and how it becomes one vector."""

    encoder: str = "gru"
    """What reads the series: a recurrent cell or convolutions: `encoders()`."""
    hidden: int = 64
    """Units a layer in each direction; of convolutions, for each of their widths."""
    layers: int = 1
    """Layers, one over the other."""
    bidirectional: bool = True
    """Whether recurrent layers read in both directions."""
    pooling: str = "max"
    """How the steps become one vector: `POOLINGS`."""
    dropout: float = 0.2
    """The share of what is between layers and of the pooled vector that is dropped while training."""
    stack: str = "plain"
    """How recurrent layers are stacked: `STACKS`. Residual blocks have a feed-forward layer each, and may be deep."""
    feed: str = "gated"
    """The feed-forward layer of a residual block: `FEEDS`."""
    memory: int = 0
    """Steps for which fresh gates remember at the longest (0: as the cell has it)."""

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
    """Those of `ReaderSettings`, and the columns of a table where they are not recognised."""

    label: str = ""
    """The column of the labels. Default: recognised in the table."""
    series: str = ""
    """The column that names the series. Default: recognised in the table."""
    time: str = ""
    """The column of the time stamps. Default: recognised in the table."""
    channels: str = ""
    """The columns that are read, with commas between them. Default: all others with numbers."""


@dataclass(frozen=True)
class PictureClassifierSettings(ReaderSettings):
    """Those of `ReaderSettings`, with one layer that reads in one direction and answers from its last state."""

    encoder: str = "lstm"
    hidden: int = 128
    bidirectional: bool = False
    pooling: str = "last"
    dropout: float = 0.0
    read: str = "rows"
    """What a step is: a row of pixels ("rows"), a pixel, row by row ("pixels"), or a pixel in one random order for
    all pictures ("permuted")."""
    permutation: int = PERMUTATION
    """The seed of that random order."""
    size: int = 0
    """Pixels a side to which pictures are brought (0: their own where all are equal and at most 256, else 64)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("read", self.read, READINGS)
        if not 0 <= self.permutation < 2**32:
            raise OptionError(f"permutation is {self.permutation}; expected a seed from 0 to {2**32 - 1}")
        if self.size < 0:
            raise OptionError(f"size is {self.size}; expected pixels a side, or 0 for that of the pictures")
