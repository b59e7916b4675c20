"""The neural models by name: their settings, the model itself with fresh weights, and kinds made of a user's own cell.

Importing this file imports no torch: settings can be looked at, checked and completed without it.

A package adds its kinds by entry points (docs/extending.md). `register` is for notebooks and scripts: it makes the row,
the settings and the model of a kind from the class of a cell alone, in this process.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, make_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from thereafter.base.kinds import KINDS, Kind, KindTable
from thereafter.cells import CELLS
from thereafter.cells.options import OptionValue
from thereafter.errors import OptionError
from thereafter.models.settings import NeuralSettings, RecurrentSettings

if TYPE_CHECKING:
    from thereafter.cells.base import Cell
    from thereafter.models.neural import NeuralModel


NEURAL = KindTable("neural model", attrgetter("model"))
"""The classes."""
SETTINGS = KindTable("neural model", attrgetter("settings"))
"""The dataclasses of their options."""


def settings_of(name: str) -> type[NeuralSettings]:
    """The options of a kind of model, with their defaults."""
    settings: type[NeuralSettings] = SETTINGS.load(name)
    return settings


def build(
    name: str,
    settings: NeuralSettings | None = None,
    *,
    vocabulary_size: int,
    context: str = "stream",
    line_end: int | None = None,
    counts: Sequence[int] | None = None,
) -> NeuralModel:
    """A model with fresh weights, drawn from torch's global generator, in training mode.

    `settings` are of the type `settings_of(name)` (None: its defaults); the model keeps them completed as `.settings`.
    `counts`: how often each token was seen; an adaptive head sorts the words by them, and takes ids as ranks without.
    """
    model_type: type[NeuralModel] = NEURAL.load(name)  # raises, with the nearest names
    own = settings_of(name)
    settings = own() if settings is None else settings
    if not isinstance(settings, own):
        raise OptionError(f"settings of the model {name!r} are {type(settings).__name__}; expected {own.__name__}")
    return model_type(
        settings.complete(vocabulary_size),
        vocabulary_size=vocabulary_size,
        context=context,
        line_end=line_end,
        counts=counts,
    )


_CLASSES: dict[str, type[object]] = {}  # the classes that the rows of registered kinds name, see `__getattr__`
_VALUES = (bool, int, float, str)
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def __getattr__(name: str) -> type[object]:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _CLASSES[name]


def register(cell: type[Cell], *, title: str | None = None, colour: str = "#8E44AD") -> Kind:
    """Register the class of a cell as a kind of model under its `name`, until this process ends.

    `thereafter.train(..., model=MyCell.name)` trains it like the built-in kinds. Its settings are those of the built-in
    cell that it inherits from, if any, and the keyword-only arguments of its constructor. `title`, `colour`: of menus
    and pictures. A class that is registered again replaces the one before. Another process must register it too before
    it loads a run.

    Example: thereafter.register(MyCell, title="My cell")
    """
    from thereafter.cells.base import Cell
    from thereafter.models.recurrent import RecurrentModel

    _check_class(cell)
    name = cell.name
    if name in KINDS and name not in _CLASSES:
        raise OptionError(f"there is a model {name!r} already; give {cell.__name__} another name, such as 'my-{name}'")
    relatives = [kind for kind in KINDS.values() if kind.cell in CELLS and CELLS.load(kind.cell) in cell.__mro__]
    base: type[RecurrentSettings] = SETTINGS.load(relatives[0].name) if relatives else RecurrentSettings
    row = Kind(
        name, title or cell.__name__, colour, cell=f"{__name__}:{name}", gated=len(cell.gates) > 1,
        adam_rate=relatives[0].adam_rate if relatives else 1.0, compared=False,
        model=f"{__name__}:{name} model", settings=f"{__name__}:{name} settings",
    )  # fmt: skip
    settings = _settings_of(cell, base, CELLS.load(relatives[0].cell) if relatives else Cell)
    _check_step(cell)
    model = type(f"{cell.__name__}Model", (RecurrentModel,), {"__module__": __name__, "__qualname__": f"{name} model"})
    _CLASSES.update({name: cell, f"{name} model": model, f"{name} settings": settings})
    KINDS.add(row, replace=True)
    return row


def _check_class(cell: type[Cell]) -> None:
    from thereafter.cells.base import Cell

    if not (isinstance(cell, type) and issubclass(cell, Cell)):
        raise OptionError(f"got {cell!r}; expected a class that inherits from thereafter.cells.base.Cell or a cell")
    missing = sorted({"gates", "name"} - set(dir(cell)) | set(cell.__abstractmethods__))
    if missing:
        raise OptionError(f"{cell.__name__} lacks {', '.join(missing)}; see docs/extending.md for a whole cell")
    if "name" not in vars(cell) or not _NAME.fullmatch(cell.name):
        raise OptionError(
            f"the name of {cell.__name__} is {cell.name!r}; expected one of its own, in small letters, digits and "
            f"hyphens; try: name = {cell.__name__.lower()!r}"
        )


def _settings_of(cell: type[Cell], base: type[RecurrentSettings], parent: type[Cell]) -> type[RecurrentSettings]:
    """The dataclass of its settings: `base`, those of the `parent`, and the options that the cell adds."""
    inherited = {option.name for option in (*fields(base), *fields(parent.options_type))}
    options = {option.name: option.default for option in fields(cell.options_type) if option.name not in inherited}
    for owner in reversed(cell.__mro__[: cell.__mro__.index(parent)]):
        if "__init__" in vars(owner):
            arguments = inspect.signature(vars(owner)["__init__"]).parameters.values()
            options |= {
                arg.name: arg.default for arg in arguments if arg.kind is arg.KEYWORD_ONLY and arg.name != "bias"
            }
    wrong = [name for name, value in options.items() if not isinstance(value, _VALUES)]
    if wrong:
        raise OptionError(
            f"the option {wrong[0]!r} of {cell.__name__} needs a default that is a number, a text or a truth value, "
            f"for the settings of a run; try: {wrong[0]}: int = 1"
        )

    def cell_options(self: RecurrentSettings) -> dict[str, OptionValue]:
        return {**base.cell_options(self), **{name: vars(self)[name] for name in options}}

    body: dict[str, str | Callable[..., object]] = {"__module__": __name__, "cell_options": cell_options}
    listed = [(name, type(value), value) for name, value in options.items()]
    return make_dataclass(f"{cell.__name__}Settings", listed, bases=(base,), frozen=True, namespace=body)


def _check_step(cell: type[Cell]) -> None:
    """Take one step of a small one, so that a mistake in it is reported here and not in the middle of training."""
    import torch

    rows, size = 2, 4
    try:
        small = cell(3, size)
        weights = {name: torch.zeros(shape) for name, shape in small.shapes().items()}
        small.initialise(weights)
        x_BTI = torch.zeros(rows, 1, 3)
        output, state = small.step(small.project(x_BTI, weights)[:, 0], small.zero_state(rows, x_BTI), weights)
        shapes = [tuple(part.shape) for part in (output, *state)]
    except Exception as error:  # of any kind: it comes from the user's class
        raise OptionError(f"{cell.__name__}(3, {size}) cannot take a step: {error}") from error
    expected = [(rows, small.output_size), *((rows, width) for width in small.state_sizes().values())]
    if shapes != expected:
        raise OptionError(f"a step of {cell.__name__}(3, {size}) gives the shapes {shapes}; expected {expected}")
