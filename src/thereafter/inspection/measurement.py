"""A measurement: the figures of an instrument as named arrays. Pictures and tables are made of these."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import FormatError
from thereafter.inspection import arrays as stored

_KEY = "measurement"
Arrays = dict[str, NDArray[Any]]
"""Arrays by name: figures, counts, and the names of the places along an axis."""


@dataclass(frozen=True)
class Measurement:
    """The figures of one instrument.

    `kind` names the instrument, such as "gradient-flow", and with it which pictures can be drawn. `arrays[name]` has
    the axes `axes[name]`; an axis whose places have names or values is an array of its own, of that axis' name. `about`
    says of which model and text, in words for a caption, and the settings.

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

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def save(self, path: str | Path) -> Path:
        """Write as `.npz`."""
        return stored.write(path, _KEY, {"kind": self.kind, "axes": self.axes, "about": self.about}, self.arrays)

    @classmethod
    def load(cls, path: str | Path) -> Measurement:
        """Read what `save` wrote; nothing is unpickled."""
        try:
            described, arrays = stored.read(path, _KEY)
            axes = {name: tuple(names) for name, names in described["axes"].items()}
            return cls(str(described["kind"]), arrays, axes, dict(described["about"]))
        except stored.UNREADABLE as error:
            raise FormatError(
                f"{path} is not a measurement ({stored.reason(error)}); "
                "expected a .npz file written by thereafter inspect"
            ) from error
