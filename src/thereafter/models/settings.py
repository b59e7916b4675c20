"""The options of each neural model: one frozen dataclass per kind, so that an option that does not apply is refused.

Nothing here needs torch. `None` means "chosen by the rest"; `complete` puts the choice in its place, so that a saved
configuration is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from thereafter.cells.options import (
    CellOptions,
    ElmanOptions,
    GRUVariant,
    LSTMVariant,
    OptionValue,
    check_choices,
    option_values,
)
from thereafter.errors import OptionError

HEADS = ("full", "adaptive")
NORMS = ("pre", "post")
POSITIONS = ("sinusoidal", "learned")
CONNECTIONS = ("residual", "highway")


@dataclass(frozen=True)
class NeuralSettings:
    """What all neural models share.

    `embed`: size of the word vectors. `dropout`: on what the head sees. `dropout_embed`: whole words, drawn per batch.
    `head`: "full" softmax or "adaptive" (`cutoffs`: where its clusters begin, by rank of frequency; () chooses them).
    `init`: word vectors start uniform in +-init; None takes the kind's own rule.
    """

    embed: int | None = None
    dropout: float = 0.0
    dropout_embed: float = 0.0
    head: str = "full"
    cutoffs: tuple[int, ...] = ()
    init: float | None = None

    def __post_init__(self) -> None:
        check_choice("head", self.head, HEADS)
        values = vars(self)
        check_shares(self, *(name for name in values if name.startswith(("dropout", "weight_drop"))))
        check_sizes(self, *SIZES & values.keys())
        for name in ("init", "alpha", "beta"):
            check_positive(name, values.get(name))

    def widths(self) -> dict[str, int | tuple[int, ...]]:
        """The sizes that make a model of this kind wider or narrower, by the names of their options."""
        return {} if self.embed is None else {"embed": self.embed}

    @property
    def widest(self) -> int:
        """The units of the widest layer; those of the word vectors if there is no layer."""
        layers = (width for name, width in self.widths().items() if name != "embed")
        sizes = [size for width in layers for size in (width if isinstance(width, tuple) else (width,))]
        return max(sizes, default=0) or self.embed or 1

    @property
    def attends_to(self) -> int:
        """The maximum context in tokens; 0 if a state carries them."""
        return 0

    @property
    def activation_penalties(self) -> tuple[float, float]:
        """alpha and beta of activation regularisation and its temporal kind; 0 for models that have neither."""
        return 0.0, 0.0

    def complete(self, vocabulary_size: int) -> Self:
        """The same settings with every choice made."""
        if self.head == "full":
            return replace(self, cutoffs=())
        return replace(self, cutoffs=self.cutoffs or default_cutoffs(vocabulary_size))


@dataclass(frozen=True)
class AverageSettings(NeuralSettings):
    """The mean of the last `window` word vectors."""

    embed: int | None = 256
    window: int = 16
    tied: bool = False

    def complete(self, vocabulary_size: int) -> Self:
        check_tied(self.tied, self.head)
        return replace(super().complete(vocabulary_size), embed=self.embed or 256)


@dataclass(frozen=True)
class WindowSettings(NeuralSettings):
    """A hidden layer over the last `window` word vectors; `direct` lets the head see these vectors too."""

    embed: int | None = 64
    dropout: float = 0.1
    window: int = 5
    hidden: int = 256
    direct: bool = False

    def widths(self) -> dict[str, int | tuple[int, ...]]:
        return {**super().widths(), "hidden": self.hidden}

    def complete(self, vocabulary_size: int) -> Self:
        return replace(super().complete(vocabulary_size), embed=self.embed or 64)


@dataclass(frozen=True)
class RecurrentSettings(NeuralSettings):
    """What stacks of recurrent layers share.

    `sizes`: one per layer, in place of `hidden` and `layers`. `tied`: the head's matrix is the embedding's and the last
    layer has the embedding's size; None ties if the head is full. `dropout_input`, `dropout_hidden` (between layers)
    and `dropout` keep one mask for all steps. `alpha`, `beta`: activation regularisation and its temporal kind.
    `connect`: "residual" or "highway" round every layer but the first.
    """

    dropout: float = 0.2
    """Dropout probability, 0 to 1."""
    hidden: int = 256
    """Hidden size. Default: chosen from the size of the text."""
    layers: int = 2
    """Number of layers. Default: chosen from the size of the text."""
    sizes: tuple[int, ...] = ()
    tied: bool | None = None
    dropout_input: float = 0.0
    dropout_hidden: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0
    connect: str | None = None
    variant: ClassVar[type[CellOptions]] = CellOptions
    """The options of the cell among these settings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "sizes")
        if self.connect is not None:
            check_choice("connect", self.connect, CONNECTIONS)
        if isinstance(self, CellOptions):
            check_choices(self)

    def complete(self, vocabulary_size: int) -> Self:
        sizes = self.sizes or (self.hidden,) * self.layers
        tied = self.head == "full" if self.tied is None else self.tied
        check_tied(tied, self.head)
        embed = self.embed or (sizes[-1] if self.sizes else self.hidden)
        if tied:
            sizes = (*sizes[:-1], embed)
        return replace(
            super().complete(vocabulary_size), embed=embed, sizes=sizes, tied=tied, hidden=sizes[0], layers=len(sizes)
        )

    def widths(self) -> dict[str, int | tuple[int, ...]]:
        return {**super().widths(), "hidden": self.hidden, "sizes": self.sizes}

    @property
    def activation_penalties(self) -> tuple[float, float]:
        return self.alpha, self.beta

    @property
    def weight_dropout(self) -> float:
        """The share of recurrent weights that are dropped; cells that have none drop none."""
        return 0.0

    def cell_options(self) -> dict[str, OptionValue]:
        """The options passed to the cell."""
        return option_values(self.variant, self)


@dataclass(frozen=True)
class WeightDropSettings(RecurrentSettings):
    """A stack of cells with recurrent matrices, a share `weight_drop` of which is dropped throughout a batch."""

    weight_drop: float = 0.0

    @property
    def weight_dropout(self) -> float:
        return self.weight_drop


@dataclass(frozen=True)
class RnnSettings(ElmanOptions, WeightDropSettings):
    """The simple recurrent network."""

    variant = ElmanOptions


@dataclass(frozen=True)
class GruSettings(GRUVariant, WeightDropSettings):
    """The gated recurrent unit."""

    variant = GRUVariant


@dataclass(frozen=True)
class LstmSettings(LSTMVariant, WeightDropSettings):
    """Long short-term memory."""

    forget_bias: float = 1.0  # a configuration always has it; a cell may get None
    variant = LSTMVariant


@dataclass(frozen=True)
class AwdLstmSettings(LstmSettings):
    """The LSTM of Merity, Keskar and Socher 2018 (Regularizing and Optimizing LSTM Language Models)."""

    embed: int | None = 400
    sizes: tuple[int, ...] = (1150, 1150, 400)
    dropout: float = 0.4
    dropout_embed: float = 0.1
    dropout_input: float = 0.4
    dropout_hidden: float = 0.25
    weight_drop: float = 0.5
    alpha: float = 2.0
    beta: float = 1.0
    init: float | None = 0.1


@dataclass(frozen=True)
class MinGruSettings(RecurrentSettings):
    """minGRU: nothing to set beyond the stack."""


@dataclass(frozen=True)
class MinLstmSettings(RecurrentSettings):
    """minLSTM: nothing to set beyond the stack."""


@dataclass(frozen=True)
class TransformerSettings(NeuralSettings):
    """Causal attention blocks; word vectors have the size `hidden`, the feed-forward layers `inner` times that.

    `context`: the most tokens attended to; when it is full the last half is read again from position 0. `dropout` is on
    word vectors, attention weights and what each block adds.
    """

    dropout: float = 0.1
    hidden: int = 256
    layers: int = 4
    heads: int = 4
    inner: int = 4
    norm: str = "pre"
    positions: str = "sinusoidal"
    context: int = 256
    tied: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("norm", self.norm, NORMS)
        check_choice("positions", self.positions, POSITIONS)
        if self.hidden % self.heads:
            raise OptionError(f"hidden is {self.hidden} and heads is {self.heads}; expected a multiple; try heads=4")
        if self.context < 2:
            raise OptionError(f"context is {self.context}; expected at least 2 tokens; try context=256")
        if self.embed not in (None, self.hidden):
            raise OptionError(f"embed is {self.embed}; a transformer's word vectors have the size hidden; leave it out")

    @property
    def attends_to(self) -> int:
        return self.context

    def widths(self) -> dict[str, int | tuple[int, ...]]:
        return {**super().widths(), "hidden": self.hidden}

    def complete(self, vocabulary_size: int) -> Self:
        tied = self.head == "full" if self.tied is None else self.tied
        check_tied(tied, self.head)
        return replace(super().complete(vocabulary_size), embed=self.hidden, tied=tied)


SIZES = {"embed", "hidden", "layers", "window", "heads", "inner"}


def default_cutoffs(vocabulary_size: int) -> tuple[int, ...]:
    """Where clusters begin: after a twentieth and a quarter of the words, by rank; none in a small vocabulary."""
    first, second = vocabulary_size // 20, vocabulary_size // 4
    return (first, second) if first >= 100 else ()


def check_tied(tied: bool, head: str) -> None:
    if tied and head == "adaptive":
        raise OptionError("tied is true and head is 'adaptive', whose matrices have sizes of their own; try tied=False")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise OptionError(f"{name} is {value!r}; expected {' or '.join(map(repr, choices))}")


def check_share(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise OptionError(f"{name} is {value!r}; expected a share, 0 to below 1; try 0.2")


def check_size(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise OptionError(f"{name} is {value!r}; expected at least 1")


def check_sizes(settings: object, *names: str) -> None:
    """Refuse sizes below 1 in these fields; one that is a tuple has several."""
    for name in names:
        value = vars(settings)[name]
        for size in value if isinstance(value, tuple) else (value,):
            check_size(name, size)


def check_shares(settings: object, *names: str) -> None:
    """Refuse values outside 0 to 1 in these fields."""
    for name in names:
        check_share(name, vars(settings)[name])


def check_positive(name: str, value: float | None) -> None:
    if value is not None and not value >= 0.0:
        raise OptionError(f"{name} is {value!r}; expected 0 or more")
