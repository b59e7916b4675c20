"""A measurement: the figures of an instrument as named arrays, and the way from these to pictures.

Pictures stand a floor above: their drawers are named here, and imported when one is asked for.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.kinds import Registry
from thereafter.base.tabular import PlainTable, Row, Tabular
from thereafter.errors import FormatError
from thereafter.inspection import arrays as stored
from thereafter.inspection.arrays import array_rows, description_rows

KEY = "measurement"
Arrays = dict[str, NDArray[Any]]
"""Arrays by name: figures, counts, and the names of the places along an axis."""


@dataclass(frozen=True)
class KindOfMeasurement:
    """`main`: the array whose axes make the rows of the table; places along `across` become columns of it."""

    main: str
    across: tuple[str, ...] = ()
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)


@cache
def kinds() -> dict[str, KindOfMeasurement]:
    """The kinds of measurement by name."""
    return {kind: _read(rows) for kind, rows in _tables().items() if kind != "axes"}


@cache
def _tables() -> dict[str, dict[str, str]]:
    """The rows of each kind by name; "axes": what arrays mean that are called alike in all kinds."""
    tables = tomllib.loads(Path(__file__).with_name("meanings.toml").read_text(encoding="utf-8"))
    return tables | {"dependency": tables["agreement"]}


def _read(arrays: Mapping[str, str]) -> KindOfMeasurement:
    """A kind from its rows, such as "[step | word] probability of the word to come next"."""
    axes, meanings = {}, {}
    across: tuple[str, ...] = ()
    for name, row in arrays.items():
        listed, _, meanings[name] = row.removeprefix("[").partition("] ")
        if "|" in listed:
            across = tuple(re.findall(r"\w+", listed.partition("|")[2]))
        axes[name] = tuple(re.findall(r"\w+", listed))
    return KindOfMeasurement(next(iter(arrays)), across, axes, meanings)


@dataclass(frozen=True)
class Measurement(Tabular):
    """The figures of one instrument.

    `kind` names the instrument, such as "gradient-flow", and with it which pictures can be drawn. `arrays[name]` has
    the axes `axes[name]`; an axis whose places have names or values is an array of its own, of that axis' name. `about`
    says of which model and text, in words for a caption, and the settings. `describe()` says what the arrays mean.

    >>> import numpy as np
    >>> decay = Measurement("decay", {"norm": np.ones(3)}, {"norm": ("distance",)}, {"model": "rnn"})
    >>> decay["norm"].shape, decay.about["model"]
    ((3,), 'rnn')
    """

    kind: str
    arrays: Arrays
    axes: dict[str, tuple[str, ...]]
    about: Table = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            if len(self.axes.get(name, ())) != array.ndim:
                raise ValueError(f"{name} has the shape {array.shape} and the axes {self.axes.get(name)}")

    @classmethod
    def of(cls, kind: str, arrays: Arrays, about: Table) -> Measurement:
        """A measurement whose arrays have the axes that `meanings.toml` states for its kind.

        >>> import numpy as np
        >>> Measurement.of("memory", {"n": np.arange(2), "accuracy": np.ones(2)}, {}).axes["accuracy"]
        ('n',)
        """
        axes = kinds()[kind].axes
        return cls(kind, arrays, {name: axes.get(name, (name,)) for name in arrays}, about)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def to_rows(self) -> list[Row]:
        """The table of this kind: a row for each place along the axes of its main array."""
        kind = self._kind()
        return array_rows(self.arrays, self.axes, kind.main, kind.across)

    def table_of(self, array: str) -> PlainTable:
        """The table around any of the arrays: a row for each of its places, and what else is known of them."""
        return PlainTable(tuple(array_rows(self.arrays, self.axes, array)))

    def describe(self) -> PlainTable:
        """Which arrays there are: name, axes, shape, meaning. The same names are the keys of the `.npz` file."""
        return PlainTable(description_rows(self.arrays, self.axes, _tables()["axes"] | dict(self._kind().meanings)))

    def _kind(self) -> KindOfMeasurement:
        """The row of its kind; for one that is not known here, a table around its first array that is no axis."""
        main = next((name for name in self.arrays if self.axes[name] != (name,)), next(iter(self.arrays), ""))
        return kinds().get(self.kind) or KindOfMeasurement(main)

    def figure(self, name: str | None = None, *others: Measurement, **options: object) -> DrawnFigure:
        """The picture of this kind, or the one of that name where there are several (`thereafter figure` lists them).

        Pictures that compare models take the `others` as well: `rnn.figure("gradient-decay", lstm)`.
        """
        return draw("measurement", self, name, *others, **options)

    def save(self, path: str | Path) -> Path:
        """Write as `.npz`."""
        return stored.write(path, KEY, {"kind": self.kind, "axes": self.axes, "about": self.about}, self.arrays)

    @classmethod
    def load(cls, path: str | Path) -> Measurement:
        """Read what `save` wrote; nothing is unpickled."""
        try:
            described, arrays = stored.read(path, KEY)
            axes = {name: tuple(names) for name, names in described["axes"].items()}
            return cls(str(described["kind"]), arrays, axes, dict(described["about"]))
        except stored.UNREADABLE as error:
            raise FormatError(
                f"{path} is not a measurement ({stored.reason(error)}); "
                "expected a .npz file written by thereafter inspect"
            ) from error


DRAWERS = Registry(
    "way to draw",
    {
        "measurement": "thereafter.figures.catalogue:draw_measurement",
        "trace": "thereafter.figures.catalogue:draw_trace",
        "comparison": "thereafter.figures.catalogue:draw_comparison",
        "forecasts": "thereafter.series.forecasting.figures:draw_forecasts",
        "points": "thereafter.series.forecasting.figures:draw_points",
        "backtest": "thereafter.series.forecasting.figures:draw_backtest",
    },
)
"""Who draws what; each takes the object, the name of a figure or None, and the options of that figure."""


class DrawnFigure(Protocol):
    """What `figure()` returns, a `figures.figure.Figure`: shown by a notebook, saved as a file, read as a table."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def caption(self) -> str: ...
    def save(self, path: str | PathLike[str]) -> Path: ...
    def to_rows(self) -> list[Row]: ...
    def _repr_html_(self) -> str: ...


def draw(kind: str, shown: object, name: str | None, *others: object, **options: object) -> DrawnFigure:
    """The picture of a measurement, a trace or a comparison, by the drawer of that kind."""
    drawer: Callable[..., DrawnFigure] = DRAWERS.load(kind)
    return drawer(shown, name, *others, **options)
