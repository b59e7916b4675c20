"""Objects by name; and the kinds of model, one row each: everything that describes a kind is here and nowhere else.

Nothing is imported before it is used, and an unknown name is an error.

>>> pets = Registry("pet", {"counter": "collections:Counter"})
>>> pets.load("counter").__name__
'Counter'

Help texts, errors, defaults, colours, the studio's menus and the tables of classes are drawn from the rows, oldest
generation first. Another package adds a kind by an entry point of the group `thereafter.kinds` that leads to a `Kind`.

Nothing heavy is imported here: classes are named by their paths and loaded by those who need them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from thereafter.base import progress
from thereafter.errors import UnknownNameError


class Registry:
    """A table of `name -> "module:attribute"`, resolved on demand."""

    def __init__(self, kind: str, paths: dict[str, str]) -> None:
        self.kind = kind
        self._paths = dict(paths)

    @property
    def paths(self) -> dict[str, str]:
        """The table."""
        return self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.path_of(name) is not None

    def path_of(self, name: str) -> str | None:
        """What a name stands for; None if it is unknown."""
        return self.paths.get(name)

    def add(self, name: str, path: str) -> None:
        """Register `"package.module:attribute"` under a new name; an existing name is not replaced."""
        if self.paths.get(name, path) != path:
            raise ValueError(f"the {self.kind} {name!r} is already registered as {self.paths[name]}")
        self._paths[name] = path

    def load(self, name: str) -> Any:
        """The object registered under `name`; UnknownNameError names the nearest ones."""
        path = self.path_of(name)
        if path is None:
            raise UnknownNameError(self.kind, name, self.paths)
        module, _, attribute = path.partition(":")
        return getattr(import_module(module), attribute)


GROUP = "thereafter.kinds"
SIZES = ("hidden", "layers")


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    `title`: its name in menus. `colour`: the same in every picture, `on_dark` if it would be invisible on a dark page.
    `training`: its `training.kinds.ModelKind`, as "module:attribute"; empty for neural kinds, which are trained alike.
    `model` and `settings`: the class of a neural kind and the dataclass of its options. `cell`: what a recurrent kind
    steps with, a name in `cells.CELLS` or a class as "module:Class"; `gated`: whether it has gates. `adam_rate`: a
    factor on the default learning rate. `sizes`: the numbers in its form. `compared`:
    whether `compare` includes it by default.
    """

    name: str
    title: str
    colour: str
    on_dark: str = ""
    training: str = ""
    model: str = ""
    settings: str = ""
    cell: str = ""
    gated: bool = False
    adam_rate: float = 1.0
    sizes: tuple[str, ...] = SIZES
    compared: bool = True

    @property
    def recurrent(self) -> bool:
        """Whether a state is carried from token to token."""
        return bool(self.cell)

    @property
    def cell_name(self) -> str:
        """Its cell in `cells.CELLS`, where a class of another package has the name of its kind."""
        return self.name if ":" in self.cell else self.cell

    @property
    def neural(self) -> bool:
        """Whether it is trained in steps, by gradients."""
        return bool(self.model)


def _neural(module: str, stem: str, kind: Kind, settings: str = "") -> Kind:
    """A neural kind of this package: its model and, by default, its settings have one stem."""
    options = f"thereafter.models.settings:{settings or stem}Settings"
    return replace(kind, model=f"thereafter.models.{module}:{stem}Model", settings=options)


_NGRAM = "thereafter.training.ngram:NGRAM"
_ROWS = (
    Kind("ngram", "n-gram (counted, seconds)", "#000000", on_dark="#B0B0B0", training=_NGRAM, sizes=("order",)),
    _neural("feedforward", "Average", Kind("average", "average of word vectors", "#B8A800", sizes=())),
    _neural("feedforward", "Window", Kind("window", "window (Bengio)", "#E69F00", sizes=("hidden",))),
    _neural("recurrent", "Rnn", Kind("rnn", "RNN (Elman)", "#D55E00", cell="elman")),
    _neural("recurrent", "Gru", Kind("gru", "GRU", "#009E73", cell="gru", gated=True)),
    # the LSTM's gates begin half closed: see docs/claims.md
    _neural("recurrent", "Lstm", Kind("lstm", "LSTM", "#0072B2", "#2E97D6", cell="lstm", gated=True, adam_rate=2.0)),
    _neural(
        "recurrent",
        "Lstm",
        Kind("awd-lstm", "AWD-LSTM", "#004C80", "#5B8FC7", cell="lstm", gated=True, compared=False),
        settings="AwdLstm",
    ),
    _neural("recurrent", "MinGru", Kind("mingru", "minGRU", "#56B4E9", cell="mingru", gated=True)),
    _neural("recurrent", "MinLstm", Kind("minlstm", "minLSTM", "#9AD0F5", cell="minlstm", gated=True, compared=False)),
    _neural("feedforward", "Transformer", Kind("transformer", "Transformer", "#CC79A7", adam_rate=0.5)),
)


class Kinds(Mapping[str, Kind]):
    """The rows by name; those of other packages are loaded at first use."""

    def __init__(self, rows: tuple[Kind, ...]) -> None:
        self._rows = {row.name: row for row in rows}
        self._complete = False
        self._looking, self._adding = threading.local(), threading.Lock()

    def __getitem__(self, name: str) -> Kind:
        return self._rows[name] if name in self._rows else self._all()[name]  # no other package may take a name

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def add(self, row: Kind, *, replace: bool = False) -> None:
        """Add a kind; an existing name is an error, unless `replace`."""
        with self._adding:
            if self._rows.get(row.name, row) != row and not replace:
                raise ValueError(f"there is a kind {row.name!r} already; give this one another name")
            self._rows = self._rows | {row.name: row}  # another thread may be going through the rows

    def _all(self) -> dict[str, Kind]:
        # Every thread that asks before they are there looks for itself: one that waited for another could keep it from
        # a module that both import. A package may ask while it is imported.
        if not self._complete and not vars(self._looking):
            from importlib.metadata import entry_points

            self._looking.now = True
            for point in entry_points(group=GROUP):
                try:
                    self.add(point.load())
                except Exception as error:  # another package's fault must not end this one
                    progress.warn(f"the kind of model {point.name!r} of {point.value} cannot be used: {error}")
            self._complete = True
        return self._rows


KINDS = Kinds(_ROWS)


class KindTable(Registry):
    """What the rows name in one of their columns: a registry of the kinds that have something there."""

    def __init__(self, what: str, column: Callable[[Kind], str]) -> None:
        super().__init__(what, {})
        self._column = column

    @property
    def paths(self) -> dict[str, str]:
        return {name: path for name, row in KINDS.items() if (path := self._column(row))}

    def path_of(self, name: str) -> str | None:
        return self._column(KINDS[name]) or None if name in KINDS else None

    def add(self, name: str, path: str) -> None:
        """A kind is added as a whole."""
        raise ValueError(f"the kind {name!r} needs a row: KINDS.add(Kind(...))")


class CellTable(Registry):
    """Cells by name: ours, and those of kinds that other packages add: a kind whose `cell` is a class gives it its own
    name. The names of our own cells stay theirs."""

    @property
    def paths(self) -> dict[str, str]:
        return {name: kind.cell for name, kind in KINDS.items() if ":" in kind.cell} | self._paths


def recurrent_names() -> list[str]:
    """The kinds that carry a state from token to token."""
    return [name for name, kind in KINDS.items() if kind.recurrent]


def cell_of(model: type[object]) -> str:
    """The name of the cell that a class of models steps with, as the row of its kind has it."""
    paths = [f"{base.__module__}:{base.__qualname__}" for base in model.__mro__]
    rows = [row for path in paths for row in KINDS.values() if row.model == path]
    if not rows:
        raise LookupError(f"no kind of model is made of {model.__qualname__}; try KINDS.add(Kind(...))")
    return rows[0].cell_name


def listed(names: list[str] | None = None, last: str = "or") -> str:
    """Names as a sentence has them: all kinds, or these.

    >>> listed(["rnn", "gru", "lstm"])
    'rnn, gru or lstm'
    """
    *others, final = list(KINDS) if names is None else names
    return f"{', '.join(others)} {last} {final}" if others else final
