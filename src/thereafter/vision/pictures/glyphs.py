"""Digits to be moved about: those of MNIST, or drawn ones.

Digits drawn by rule are strokes with a slant, width, size and shaking hand of their own, 28 x 28 as MNIST's.

A digit is a pure function of some random numbers, so that nothing needs to be stored. Each is written in one or more
ways: strokes through a few points, as line segments whose ends are linear in the points (splines of Catmull and Rom
1974), so that points may be moved and all digits of a batch drawn by one product. Shapes: N digits, B chosen ones, V
ways, P points, S segments, K random numbers, h pixels, 2 for x and y.

>>> glyph(7, np.random.default_rng(1)).shape
(28, 28)

Pictures of digits at random places among pieces of other digits are a pure function of (rule, seed, number).

A digit of h x h pixels is put anywhere in a picture of `size`. Then `pieces` squares of `piece` pixels are cut out of
other digits, each at a random place, and put anywhere; where things overlap the brighter pixel is seen. Mnih, Heess,
Graves and Kavukcuoglu (2014) take pictures of 60 x 60 with 4 pieces of 8 x 8. The label is the digit. Nothing is
stored but the rule. Shapes: B pictures, P pieces, h rows and columns of a digit, p of a piece, H and W of a picture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from thereafter.data import corpora
from thereafter.errors import FormatError, OptionError
from thereafter.vision.pictures.archives import open_idx, read_idx_labels
from thereafter.vision.pictures.picture import StackedPictures, StackingSource
from thereafter.vision.rules import Floats, Integers, Pixels, Rule, uniforms

SIDE = 28
"""Pixels from edge to edge."""
SEED = 20_261_117
_TRAITS = 8  # way, slant, turn, height, breadth, width of the pen, shift to the right, shift down
_SHAKE = 0.05
_AT_ONCE = 64


def glyph(digit: int, rng: np.random.Generator) -> Pixels:
    """One digit, 0 (paper) to 255 (ink), anti-aliased."""
    return np.asarray(draw(np.array([digit]), rng.random((1, draws_a_glyph())))[0], np.uint8)


def numbered_glyphs(numbers: ArrayLike) -> Pixels:
    """The digits of these numbers, [N, 28, 28]: number n is always the same digit n % 10.

    >>> bool((numbered_glyphs([3, 1])[0] == numbered_glyphs([3])[0]).all())
    True
    """
    numbers_N = np.asarray(numbers, np.int64)
    return draw(numbers_N % 10, uniforms(SEED, numbers_N, draws_a_glyph()))


def draws_a_glyph() -> int:
    """The random numbers that one digit takes."""
    return _TRAITS + 2 * int(written().points_VP2.shape[1])


def draw(digits_N: Integers, uniforms_NK: Floats) -> Pixels:
    """The pictures of digits, [N, 28, 28], by random numbers in [0, 1)."""
    if not ((digits_N >= 0) & (digits_N <= 9)).all():
        raise OptionError(f"digits are 0 to 9, got {digits_N.min()} to {digits_N.max()}")
    pictures_NHW = np.empty((len(digits_N), SIDE, SIDE), np.uint8)
    for at in range(0, len(digits_N), _AT_ONCE):  # so many that the distances stay in the cache of a processor
        here = slice(at, at + _AT_ONCE)
        begin_NS2, end_NS2 = _segments(digits_N[here], uniforms_NK[here])
        pen_N = 1.7 + 2.1 * uniforms_NK[here, 5]
        pictures_NHW[here] = _inked(begin_NS2, end_NS2, pen_N)
    return pictures_NHW


def _segments(digits_N: Integers, uniforms_NK: Floats) -> tuple[Floats, Floats]:
    """Where the segments of each digit begin and end, in pixels."""
    ways = written()
    way_N = ways.first[digits_N] + (uniforms_NK[:, 0] * ways.count[digits_N]).astype(np.int64)
    shaken = uniforms_NK[:, _TRAITS:].reshape(len(way_N), -1, 2) - 0.5
    points_NP2 = ways.points_VP2[way_N] + 2 * _SHAKE * shaken
    ends_N2S2 = np.stack([ways.begin_VSP[way_N] @ points_NP2, ways.end_VSP[way_N] @ points_NP2], 1)
    _, slant_N, turn_N, height_N, breadth_N, _, right_N, down_N = uniforms_NK[:, :_TRAITS].T
    x = (0.62 + 0.38 * breadth_N)[:, None, None] * ends_N2S2[..., 0]
    y = ends_N2S2[..., 1] - 0.5
    x = x - (0.5 * slant_N - 0.1)[:, None, None] * y
    angle = (0.24 * (turn_N - 0.5))[:, None, None]
    x, y = x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
    tall_N, wide_N = (np.ptp(part, axis=(1, 2)) for part in (y, x))
    scale_N = (16 + 3 * height_N) / np.maximum(tall_N, wide_N)
    middle = (SIDE - 1) / 2
    for part, shift_N in ((x, right_N), (y, down_N)):
        part -= ((part.max((1, 2)) + part.min((1, 2))) / 2)[:, None, None]
        part *= scale_N[:, None, None]
        part += (middle + 2 * (shift_N - 0.5))[:, None, None]
    ends = np.stack([x, y], -1)
    return ends[:, 0], ends[:, 1]


def _inked(begin_NS2: Floats, end_NS2: Floats, pen_N: Floats) -> Pixels:
    """Ink where a pixel is nearer to a segment than half the pen: 255 min(1, max(0, pen / 2 + 1 / 2 - distance)).

    With a the pixel and b the end of a segment, both from its begin, the nearest place is
    s b, s = clip(a.b / b.b, 0, 1).
    """
    pixel_Z = np.arange(SIDE, dtype=np.float32)
    begin, along = begin_NS2.astype(np.float32), (end_NS2 - begin_NS2).astype(np.float32)
    x_NS1W = pixel_Z - begin[:, :, 0, None, None]
    y_NSH1 = pixel_Z[:, None] - begin[:, :, 1, None, None]
    b_x, b_y = along[:, :, 0, None, None], along[:, :, 1, None, None]
    length = np.maximum(b_x**2 + b_y**2, np.float32(1e-6))
    share = x_NS1W * (b_x / length) + y_NSH1 * (b_y / length)  # a.b / b.b
    nearest = np.minimum(np.maximum(share, np.float32(0)), np.float32(1))
    share *= np.float32(-2)
    share += nearest
    share *= nearest
    share *= length
    share += x_NS1W**2  # |a - s b|^2 = a.a + b.b s (s - 2 a.b / b.b)
    share += y_NSH1**2
    distance_NHW = np.sqrt(np.maximum(share.min(1), np.float32(0)))
    ink = np.clip(pen_N.astype(np.float32)[:, None, None] / 2 + np.float32(0.5) - distance_NHW, 0, 1)
    return np.asarray(np.rint(255 * ink), np.uint8)


Point = tuple[float, float]
Stroke = tuple[Point, ...]
"""Points that a curve passes through, x to the right and y down, in a box of height 1."""

_WRITTEN = """
0  .55,0 .2,.14 .08,.55 .26,.93 .58,.98 .86,.62 .8,.2 .55,0
1  .5,0 .5,1
1  .26,.24 .52,0 | .52,0 .5,1
1  .26,.24 .52,0 | .52,0 .52,1 | .24,1 .8,1
2  .12,.24 .34,.02 .72,.06 .78,.34 .12,.97 | .12,.97 .9,.95
2  .14,.2 .4,0 .76,.14 .7,.46 .34,.88 .12,.92 .22,.76 .5,.84 .94,.96
3  .14,.12 .46,0 .8,.16 .68,.4 .36,.47 | .36,.47 .78,.56 .86,.8 .52,1 .1,.88
3  .14,.03 .82,.03 | .82,.03 .42,.42 | .42,.42 .8,.52 .84,.82 .48,1 .1,.9
4  .3,0 .24,.3 .1,.56 | .1,.56 .92,.54 | .76,.04 .68,1
4  .66,0 .08,.64 | .08,.64 .94,.64 | .66,0 .64,1
5  .86,.02 .26,.04 | .26,.04 .2,.44 | .2,.44 .52,.38 .84,.62 .72,.9 .42,1 .1,.88
6  .68,0 .36,.24 .15,.64 .28,.95 .62,.97 .82,.74 .62,.52 .34,.56 .17,.74
7  .1,.06 .88,.04 | .88,.04 .6,.46 .42,1
7  .1,.06 .88,.04 | .88,.04 .6,.46 .42,1 | .34,.52 .82,.5
8  .78,.14 .5,0 .22,.15 .33,.38 .64,.56 .84,.8 .48,1 .14,.8 .34,.55 .68,.36 .78,.14
9  .8,.2 .5,0 .16,.22 .32,.48 .64,.44 .8,.2 | .8,.2 .77,.6 .66,1
9  .8,.2 .5,0 .16,.22 .32,.48 .64,.44 .8,.2 | .8,.2 .84,.6 .64,.96 .26,.92
"""
"""The ways of writing each digit: the points x,y of every stroke, with | between strokes."""


def ways_of(digit: int) -> list[tuple[Stroke, ...]]:
    """The ways of writing a digit, each some strokes."""
    lines = [line[1:] for line in _WRITTEN.split("\n") if line[:1] == str(digit)]
    points = [[[point.split(",") for point in stroke.split()] for stroke in line.split("|")] for line in lines]
    return [tuple(tuple((float(x), float(y)) for x, y in stroke) for stroke in way) for way in points]


_A_SPAN = 3
"""Segments between two points of a stroke."""


@dataclass(frozen=True)
class StrokeTable:
    """All ways as arrays: `first` and `count` say which of them are those of a digit."""

    points_VP2: Floats
    begin_VSP: Floats
    end_VSP: Floats
    first: Integers
    count: Integers


@cache
def written() -> StrokeTable:
    """All ways as arrays; short ways are filled up with their last segment."""
    each = [ways_of(digit) for digit in range(10)]
    ways = [_linear(way) for several in each for way in several]
    most_points, most_segments = max(len(way[0]) for way in ways), max(len(way[1]) for way in ways)
    points_VP2 = np.zeros((len(ways), most_points, 2))
    begin_VSP = np.zeros((len(ways), most_segments, most_points))
    end_VSP = np.zeros_like(begin_VSP)
    for at, (points, begin, end) in enumerate(ways):
        points_VP2[at, : len(points)] = points
        filled = np.minimum(np.arange(most_segments), len(begin) - 1)
        begin_VSP[at, :, : len(points)] = begin[filled]
        end_VSP[at, :, : len(points)] = end[filled]
    count = np.array([len(several) for several in each])
    return StrokeTable(points_VP2, begin_VSP, end_VSP, np.cumsum(count) - count, count)


def _linear(way: tuple[Stroke, ...]) -> tuple[Floats, Floats, Floats]:
    """The points of a way, each once, and the weights by which they make the two ends of every segment."""
    bent = []  # a straight stroke has a point in its middle, where it may bend
    for first, *between, last in way:
        middle = ((first[0] + last[0]) / 2, (first[1] + last[1]) / 2)
        bent.append((first, *(between or [middle]), last))
    points = list(dict.fromkeys(point for stroke in bent for point in stroke))
    begin, end = [], []
    for stroke in bent:
        weights = _spline(len(stroke)) @ np.eye(len(points))[[points.index(point) for point in stroke]]
        begin.append(weights[:-1])
        end.append(weights[1:])
    return np.array(points), np.concatenate(begin), np.concatenate(end)


def _spline(points: int) -> Floats:
    """Weights of the points in the places along a Catmull-Rom spline through them: p(t), t = 0, 1/3, 2/3, ..."""
    weights = np.zeros(((points - 1) * _A_SPAN + 1, points))
    for at in range(len(weights)):
        span = min(at // _A_SPAN, points - 2)
        t = at / _A_SPAN - span
        shares = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3)
        for near, share in zip(range(span - 1, span + 3), shares, strict=True):
            if 0 <= near < points:
                weights[at, near] += share / 2
            else:  # beyond an end the spline goes on as it came: 2 p_end - p_before
                inner = 0 if near < 0 else points - 1
                weights[at, inner] += share
                weights[at, 1 if near < 0 else points - 2] -= share / 2
    return weights


SOURCES = ("mnist:train", "mnist:test", "glyphs")
"""Where the digits come from: MNIST's parts, or drawn by rule."""
GLYPHS = 10_000
"""The drawn digits that are meant where a rule does not say how many."""

_MOST_GLYPHS = 1_000_000


class DigitRule(Rule):
    """A rule over the digits of a `source`, from `begin` to before `end` (0: to the last one)."""

    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {
        "size": (SIDE + 1, 512), "count": (1, 10**7), "seed": (0, 2**63 - 1), "begin": (0, 10**9), "end": (0, 10**9),
    }  # fmt: skip
    source: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source not in SOURCES:
            raise OptionError(f"source is {self.source!r}; expected one of {', '.join(SOURCES)}")


class DigitPool(ABC):
    """Pictures of single digits, h x h pixels, by their number; `digits`: which digit each shows, [N]."""

    side = SIDE
    digits: Integers

    def __len__(self) -> int:
        return len(self.digits)

    @abstractmethod
    def take(self, rows_B: Integers) -> Pixels:
        """Pictures by their numbers, [B, h, h]."""


class GlyphPool(DigitPool):
    """Drawn digits: each is drawn when it is first asked for, and kept."""

    def __init__(self, begin: int, end: int) -> None:
        if end - begin > _MOST_GLYPHS:
            raise OptionError(f"a rule asks for {end - begin:,} drawn digits; expected at most {_MOST_GLYPHS:,}")
        self.digits = np.arange(begin, end) % 10
        self._begin = begin
        self._drawn_N = np.zeros(end - begin, np.bool_)
        self._pictures_Nhh = np.zeros((end - begin, SIDE, SIDE), np.uint8)

    def take(self, rows_B: Integers) -> Pixels:
        missing = np.unique(rows_B[~self._drawn_N[rows_B]])
        if len(missing):
            self._pictures_Nhh[missing] = numbered_glyphs(self._begin + missing)
            self._drawn_N[missing] = True  # last: another thread may draw the same digit, never see half of one
        return self._pictures_Nhh[rows_B]


class PicturePool(DigitPool):
    """Pictures of digits in one array, from `begin` to before `end`; read from their file when they are asked for."""

    def __init__(self, pictures: StackedPictures, labels: Sequence[str], begin: int, end: int) -> None:
        if len(pictures) != len(labels) or pictures.shape(0) != (SIDE, SIDE, 1):
            raise FormatError(
                f"{pictures.name} has {len(pictures):,} pictures of {list(pictures.shape(0))}, {len(labels):,} labels; "
                f"expected a label for each, and {SIDE} x {SIDE} grey pixels"
            )
        if max(end, begin + 1) > len(pictures):
            raise OptionError(
                f"{pictures.name} has {len(pictures):,} digits; got a rule for those from {begin:,} to {end:,}"
            )
        wrong = sorted(set(labels) - set("0123456789"))
        if wrong:
            raise FormatError(f"{pictures.name} has a label {wrong[0]!r}; expected the digits 0 to 9")
        self.digits = np.array(labels[begin : end or len(labels)], np.int64)
        self._pictures = pictures
        self._begin = begin

    def take(self, rows_B: Integers) -> Pixels:
        return np.asarray(self._pictures.stack((self._begin + rows_B).tolist())[..., 0], np.uint8)


def open_pool(source: str, begin: int = 0, end: int = 0) -> DigitPool:
    """The digits from `begin` to before `end` (0: to the last) of "glyphs", "mnist:train" or "mnist:test"."""
    if source == "glyphs":
        return GlyphPool(begin, end or max(GLYPHS, begin + 1))
    corpus, _, part = source.partition(":")
    pictures, labels = _opened(*(str(corpora.locate(corpus).parts[key]) for key in (part, f"{part}.labels")))
    return PicturePool(pictures, labels, begin, end)


@lru_cache(maxsize=4)
def _opened(images: str, labels: str) -> tuple[StackedPictures, list[str]]:
    """Files that several clips share, opened once: gzipped ones are inflated."""
    return open_idx(Path(images)), read_idx_labels(Path(labels))


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

    def stack(self, rows: ArrayLike) -> Pixels:
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

    def _which(self, drawn: Floats) -> Integers:
        return (drawn * len(self.pool)).astype(np.int64)


def _places(drawn_B2: Floats, room: int) -> tuple[Integers, Integers]:
    """Column and row of an upper left corner, each of 0 to `room` equally likely."""
    place_B2 = (drawn_B2 * (room + 1)).astype(np.int64)
    return place_B2[:, 0], place_B2[:, 1]


def _put(painted_BHW: Pixels, what_Bpp: Pixels, column_B: Integers, row_B: Integers) -> None:
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
