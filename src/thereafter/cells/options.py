"""The options of each cell, declared once: names, defaults, and the values that a choice has.

A cell's constructor, the layers of `thereafter.nn`, the settings of models and the cases of the parity suite all take
them from here. Nothing here needs torch: settings and help texts are made without it. The classes of cells explain what
the options mean.

A model's settings inherit a `...Variant`: what a user may set in a configuration. `...Options` adds what only a layer
or a cell is given.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from itertools import product

from thereafter.errors import OptionError

OptionValue = bool | int | float | str | None


def choice(*values: str, meaning: str = "", alone: bool = False) -> str:
    """A field with one of these values, the first where none is given; `meaning` ends the error message.

    `alone`: tests try the other values without any switch on.
    """
    made: str = field(default=values[0], metadata={"choices": values, "meaning": meaning, "alone": alone})
    return made


@dataclass(frozen=True)
class CellOptions:
    """The options of a cell beyond its sizes and its bias: none."""

    @property
    def layer_norm(self) -> bool:
        """Whether products are normalised; an option of the cells that have a recurrent product."""
        return False


@dataclass(frozen=True)
class ElmanOptions(CellOptions):
    """The options of the simple recurrent network."""

    nonlinearity: str = choice("tanh", "relu", "leaky_relu", "relu6", "sigmoid", "identity", alone=True)
    layer_norm: bool = False


@dataclass(frozen=True)
class GRUVariant(CellOptions):
    """The variants of the gated recurrent unit."""

    reset: str = choice("after", "before", meaning="the recurrent product")
    update: str = choice("old", "new", meaning="what z multiplies")
    layer_norm: bool = False


@dataclass(frozen=True)
class GRUOptions(GRUVariant):
    """All options of the gated recurrent unit."""

    update_bias: float | None = None


@dataclass(frozen=True)
class LSTMVariant(CellOptions):
    """The variants of the LSTM."""

    peephole: bool = False
    coupled: bool = False
    layer_norm: bool = False
    forget_bias: float | None = 1.0


@dataclass(frozen=True)
class LSTMOptions(LSTMVariant):
    """All options of the LSTM."""

    proj_size: int = field(default=0, metadata={"tried": 2})
    """`tried`: a value that the parity suite gives it."""


@dataclass(frozen=True)
class ConvLSTMOptions(LSTMOptions):
    """All options of the convolutional LSTM: the size of its maps and of its kernel; it has no projection."""

    proj_size: int = 0
    height: int = 1
    width: int = 1
    kernel_size: int = 1


def check_choices(options: CellOptions) -> None:
    """OptionError where an option is none of its choices."""
    for option in fields(options):
        value, choices = vars(options)[option.name], option.metadata.get("choices")
        if choices is not None and value not in choices:
            meaning = f" ({option.metadata['meaning']})" if option.metadata["meaning"] else ""
            raise OptionError(f"{option.name} is {value!r}; expected {' or '.join(map(repr, choices))}{meaning}")


def choices_of(kind: type[CellOptions], name: str) -> tuple[str, ...]:
    """The values of an option that is a choice."""
    choices: tuple[str, ...] = next(option for option in fields(kind) if option.name == name).metadata["choices"]
    return choices


def option_values(kind: type[CellOptions], chosen: object) -> dict[str, OptionValue]:
    """The options of a cell, of this kind, as they stand in settings that inherit them."""
    return {option.name: vars(chosen)[option.name] for option in fields(kind)}


def option_cases(kind: type[CellOptions]) -> list[dict[str, OptionValue]]:
    """What a test of a cell should try: every combination of choices, plain, with each switch alone and with all on.

    >>> option_cases(GRUVariant)[:3]
    [{'reset': 'after', 'update': 'old'}, {'reset': 'after', 'update': 'new'}, {'reset': 'before', 'update': 'old'}]
    >>> option_cases(LSTMOptions)[-1]
    {'peephole': True, 'coupled': True, 'layer_norm': True, 'proj_size': 2}
    """
    choices = {option.name: option.metadata for option in fields(kind) if "choices" in option.metadata}
    values = [
        dict(zip(choices, values, strict=True)) for values in product(*(about["choices"] for about in choices.values()))
    ]
    alone = {name for name, about in choices.items() if about["alone"]}
    switches = {option.name: option.metadata.get("tried", True) for option in fields(kind) if _is_switch(option)}
    added: list[dict[str, OptionValue]] = [{}, *({name: value} for name, value in switches.items())]
    added += [switches] if len(switches) > 1 else []
    return [
        case | more
        for more in added
        for case in values
        if not more or all(case[name] == choices[name]["choices"][0] for name in alone)
    ]


def _is_switch(option: Field[OptionValue]) -> bool:
    return option.default is False or "tried" in option.metadata
