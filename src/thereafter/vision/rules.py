"""Made corpora as rules: what is read from one is a pure function of (rule, row), of which nothing is stored.

A rule is a small JSON file, {"format": "moving digits", "size": 64, ...}. Random numbers come by their place, as those
of a table and not of a stream, so that any row can be drawn alone: SplitMix64 (Steele, Lea and Flood 2014) as a
function of (seed, row, column), the same on every machine, all rows at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.storage import read_plain
from thereafter.errors import FormatError, OptionError, nearest

_LONGEST_FILE = 100_000
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
MOST_COLUMNS = 256
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Rule:
    """To inherit from, as a dataclass of the entries. `format` names the kind of corpus; `bounds` are the least and the
    largest value of each entry that is a whole number."""

    format: ClassVar[str]
    bounds: ClassVar[Mapping[str, tuple[int, int]]]

    def __post_init__(self) -> None:
        for name, (least, most) in self.bounds.items():
            value = vars(self)[name]
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise OptionError(f"{name} is {value!r}; expected a whole number from {least} to {most}")

    def to_json(self) -> str:
        """The rule as the content of a file."""
        return json.dumps({"format": self.format, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str = "the rule") -> Self:
        """A rule from the content of a file, checked; errors call it by its `name`."""
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError) as broken:
            raise FormatError(f"{name} is not JSON ({broken}); expected a rule of {cls.format}") from None
        if not isinstance(entries, dict) or entries.pop("format", None) != cls.format:
            raise FormatError(f'{name} is not a rule of {cls.format}; expected an object with "format": "{cls.format}"')
        known = [field.name for field in fields(cls)]
        for key in entries:
            if key not in known:
                raise FormatError(
                    f"{name} has an entry {key!r}, which no rule of {cls.format} has; {nearest(key, known)}"
                )
        make: Callable[..., Self] = cls
        try:
            return make(**entries)
        except OptionError as wrong:
            raise FormatError(f"{name}: {wrong}") from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """The rule of a file; a long one is none."""
        try:
            if path.stat().st_size > _LONGEST_FILE:
                raise FormatError(
                    f"{path} has {path.stat().st_size:,} bytes; expected a rule of {cls.format}, which has some hundred"
                )
            return cls.from_json(read_plain(path), str(path))
        except OSError as failed:
            raise FormatError(f"{path} could not be read: {failed.strerror or failed}") from None


def uniforms(seed: int, rows: ArrayLike, columns: int) -> Floats:
    """Numbers in [0, 1): one row for each of `rows`, as many `columns` as are asked for.

    >>> bool(uniforms(1, [5], 3)[0, 2] == uniforms(1, [4, 5], 8)[1, 2])
    True
    """
    rows_N = np.asarray(rows, np.uint64)
    place_K = np.arange(1, columns + 1, dtype=np.uint64)
    counter_NK: NDArray[np.uint64] = rows_N[:, None] * np.uint64(MOST_COLUMNS) + place_K
    begin_1 = _mixed(np.array([seed % 2**64], np.uint64))
    bits_NK = _mixed(np.asarray(begin_1 + counter_NK * _GOLDEN, np.uint64)) >> np.uint64(11)
    return bits_NK.astype(np.float64) * 2.0**-53


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return np.asarray(state ^ (state >> np.uint64(31)), np.uint64)
