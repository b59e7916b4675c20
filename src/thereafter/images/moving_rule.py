"""The rule by which digits move, as a small JSON file: all there is of a corpus of moving digits."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from thereafter.errors import OptionError
from thereafter.images.glyphs import SIDE
from thereafter.images.rules import check_whole_numbers, rule_of_file, rule_of_text, rule_text

SOURCES = ("mnist:train", "mnist:test", "glyphs")
"""Where the digits come from: MNIST's parts, or drawn by rule."""
NAMES = ("E", "ENE", "NE", "NNE", "N", "NNW", "NW", "WNW", "W", "WSW", "SW", "SSW", "S", "SSE", "SE", "ESE")
"""The 16 directions, counter-clockwise from the right, y up."""
FORMAT = "moving digits"
_MOST = {
    "digits": 8,
    "frames": 1000,
    "size": 512,
    "count": 10**7,
    "seed": 2**63 - 1,
    "begin": 10**9,
    "end": 10**9,
}
_LEAST = {"digits": 1, "frames": 1, "size": SIDE + 1, "count": 1, "seed": 0, "begin": 0, "end": 0}
_MOST_PIXELS = 64_000_000


@dataclass(frozen=True)
class MovingRule:
    """`count` clips of `frames` pictures, size x size pixels, in which `digits` digits move and bounce.

    A digit begins in one of so many `directions` (4, 8 or 16; 0: any angle) at a speed from `slowest` to `fastest`
    pixels a frame. The digits are those from `begin` to before `end` of the `source` (end 0: to the last one).
    """

    digits: int = 1
    frames: int = 10
    size: int = 64
    directions: int = 16
    slowest: float = 2.0
    fastest: float = 5.0
    count: int = 1000
    seed: int = 0
    source: str = "glyphs"
    begin: int = 0
    end: int = 0

    def __post_init__(self) -> None:
        check_whole_numbers(vars(self), _LEAST, _MOST)
        if self.directions not in (0, 4, 8, 16) or isinstance(self.directions, bool):
            raise OptionError(f"directions is {self.directions!r}; expected 4, 8, 16, or 0 for any angle")
        if self.source not in SOURCES:
            raise OptionError(f"source is {self.source!r}; expected one of {', '.join(SOURCES)}")
        if self.end and self.end <= self.begin:
            raise OptionError(f"the digits from begin={self.begin} to end={self.end} are none; expected end > begin")
        for name in ("slowest", "fastest"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise OptionError(f"{name} is {value!r}; expected a number of pixels a frame")
        if not 0 < self.slowest <= self.fastest <= self.size - SIDE:
            raise OptionError(
                f"speeds are from slowest={self.slowest} to fastest={self.fastest}; expected 0 < slowest <= fastest <= "
                f"{self.size - SIDE} (size - {SIDE}), so that a digit can take its first step"
            )
        if self.frames * self.size**2 > _MOST_PIXELS:
            raise OptionError(
                f"a clip has {self.frames} x {self.size} x {self.size} pixels; expected at most {_MOST_PIXELS:,}; try "
                "fewer frames or a smaller size"
            )

    @property
    def direction_names(self) -> tuple[str, ...]:
        """The directions in which a digit may begin, counter-clockwise from the right; none where any angle may be."""
        return NAMES[:: len(NAMES) // self.directions] if self.directions else ()

    def to_json(self) -> str:
        """The rule as the content of a file."""
        return rule_text(FORMAT, asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes, name: str = "the rule") -> MovingRule:
        """A rule from the content of a file, checked; errors call it by its `name`."""
        return rule_of_text(cls, [field.name for field in fields(cls)], FORMAT, text, name)


def read_rule(path: Path) -> MovingRule:
    """The rule of a file."""
    return rule_of_file(MovingRule.from_json, FORMAT, path)
