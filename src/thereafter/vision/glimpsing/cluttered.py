"""Digits at random places among pieces of other digits: pictures as a pure function of (rule, seed, number).

A digit of h x h pixels is put anywhere in a picture of `size`. Then `pieces` squares of `piece` pixels are cut out of
other digits, each at a random place, and put anywhere; where things overlap the brighter pixel is seen. Mnih, Heess,
Graves and Kavukcuoglu (2014) take pictures of 60 x 60 with 4 pieces of 8 x 8. The label is the digit. Nothing is
stored but the rule. Shapes: B pictures, P pieces, h rows and columns of a digit, p of a piece, H and W of a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import OptionError
from thereafter.vision.pictures.glyphs import SIDE, DigitPool, DigitRule, open_pool
from thereafter.vision.pictures.picture import StackingSource
from thereafter.vision.rules import uniforms

_DIGIT, _PIECE = 3, 5  # random numbers: which digit, its column and row; of a piece those it is cut from as well


@dataclass(frozen=True)
class ClutterRule(DigitRule):
    """`count` pictures of size x size pixels, a digit in each, and so many `pieces` of `piece` x `piece` pixels.

    The digits are those from `begin` to before `end` of the `source` (end 0: to the last one).
    """

    format: ClassVar[str] = "cluttered digits"
    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {**DigitRule.bounds, "pieces": (0, 32), "piece": (1, SIDE)}
    size: int = 60
    pieces: int = 4
    piece: int = 8
    count: int = 1000
    seed: int = 0
    source: str = "glyphs"
    begin: int = 0
    end: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.end and self.end < self.begin + 2:
            raise OptionError(
                f"the digits from begin={self.begin} to end={self.end} are too few; expected at least two: pieces are "
                "those of others"
            )


class ClutteredPictures(StackingSource):
    """The pictures of a rule. A batch of them is painted at once (`stack`).

    >>> pictures = ClutteredPictures(ClutterRule(count=3))
    >>> pictures.stack([0, 2]).shape, pictures.labels()
    ((2, 60, 60, 1), ['3', '3', '5'])
    """

    def __init__(self, rule: ClutterRule, name: str = ClutterRule.format, pool: DigitPool | None = None) -> None:
        self.rule, self.name = rule, name
        self.pool = open_pool(rule.source, rule.begin, rule.end) if pool is None else pool

    def __len__(self) -> int:
        return self.rule.count

    def labels(self) -> list[str]:
        """The digit of every picture."""
        which_N = self._which(uniforms(self.rule.seed, np.arange(len(self)), 1)[:, 0])
        return [str(digit) for digit in self.pool.digits[which_N].tolist()]

    def shape(self, row: int) -> tuple[int, ...]:
        return self.rule.size, self.rule.size, 1

    def stack(self, rows: ArrayLike) -> NDArray[np.uint8]:
        """Several pictures at once, uint8 [B, H, W, 1]."""
        rule, side, cut = self.rule, self.pool.side, self.rule.piece
        rows_B = np.asarray(rows, np.int64)
        drawn_BK = uniforms(rule.seed, rows_B, _DIGIT + _PIECE * rule.pieces)
        digit_B = self._which(drawn_BK[:, 0])
        painted_BHW = np.zeros((len(rows_B), rule.size, rule.size), np.uint8)
        _put(painted_BHW, self.pool.take(digit_B), *_places(drawn_BK[:, 1:3], rule.size - side))
        each_B = np.arange(len(rows_B))
        for at in range(rule.pieces):
            own_B5 = drawn_BK[:, _DIGIT + _PIECE * at : _DIGIT + _PIECE * (at + 1)]
            others = len(self.pool) - 1
            other_B = (digit_B + 1 + (own_B5[:, 0] * others).astype(np.int64)) % len(self.pool)
            column_B, row_B = _places(own_B5[:, 1:3], side - cut)
            windows = sliding_window_view(self.pool.take(other_B), (cut, cut), axis=(1, 2))
            _put(painted_BHW, windows[each_B, row_B, column_B], *_places(own_B5[:, 3:5], rule.size - cut))
        return painted_BHW[..., None]

    def _which(self, drawn: NDArray[np.float64]) -> NDArray[np.int64]:
        return (drawn * len(self.pool)).astype(np.int64)


def _places(drawn_B2: NDArray[np.float64], room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Column and row of an upper left corner, each of 0 to `room` equally likely."""
    place_B2 = (drawn_B2 * (room + 1)).astype(np.int64)
    return place_B2[:, 0], place_B2[:, 1]


def _put(
    painted_BHW: NDArray[np.uint8],
    what_Bpp: NDArray[np.uint8],
    column_B: NDArray[np.int64],
    row_B: NDArray[np.int64],
) -> None:
    """Paint a square into every picture, in place; the brighter pixel stays."""
    windows = sliding_window_view(painted_BHW, what_Bpp.shape[1:], axis=(1, 2), writeable=True)
    each_B = np.arange(len(painted_BHW))
    windows[each_B, row_B, column_B] = np.maximum(windows[each_B, row_B, column_B], what_Bpp)


def is_clutter_rule(path: Path) -> bool:
    """Whether a file is a rule of cluttered digits, by its ending and its first bytes."""
    if path.suffix.lower() != ".json":
        return False
    try:
        with path.open("rb") as file:
            return f'"{ClutterRule.format}"'.encode() in file.read(200)
    except OSError:
        return False
