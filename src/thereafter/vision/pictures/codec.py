"""The pictures of a task as arrays of one shape; see `data/codecs.py` for the contract.

What training pictures have in common is measured: their kind, shape, mean and deviation.

Shapes: B pictures, C channels, H rows, W columns; of features S places, D numbers.

A picture may be read as a series of steps: row by row, pixel by pixel, or pixel by pixel in one fixed random order.

    rows        x_t = row t of the picture              T = H,    K = W C
    pixels      x_t = pixel t, row by row               T = H W,  K = C        (Le, Jaitly and Hinton 2015)
    permuted    x_t = pixel order[t]                    the same, neighbours torn apart

The order is drawn once from a seed and kept with its run. A map of features is read place by place, a vector in one
step; both are `rows`.

Shapes: B pictures, C channels, H rows, W columns, T steps, K numbers of a step.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.vision.pictures.archives import MappedArray
from thereafter.vision.pictures.decoding import fit_in
from thereafter.vision.pictures.picture import (
    GivenPicture,
    Picture,
    PictureKind,
    PictureSource,
    StackedPictures,
    StackingSource,
    given_array,
)

MOST_SIZE = 4096
_MEASURED = 2_000  # pictures, for mean and deviation
_BLOCK = 64  # pictures that are decoded at once
_LARGEST = 1 << 24  # side of a picture that a run may have
_DAMAGED = "the pictures of this run are damaged; expected their size, mean and deviation; try training again"


@dataclass(frozen=True)
class PictureCodec:
    """What the pictures of a task have in common.

    Pixels: uint8 [channels, height, width]. Vectors: float32 [width]. Maps: float32 [height, width], `height` places of
    `width` numbers. `mean` and `deviation` are those of the training pictures: by channel of pixels / 255; one of all
    numbers of features. Encoded pictures are not scaled: that is cheaper in the network.
    """

    codec: ClassVar[str] = "pictures"
    size: ClassVar[int] = 0
    kind: PictureKind
    height: int
    width: int
    channels: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def fit(cls, pictures: Sequence[Picture], size: int = 0) -> Self:
        """The shape, mean and deviation of training pictures.

        Size 0 is that of the pictures where all are equal and at most 256 a side, else 64. They are grey unless one has
        colours. Mean and deviation are of at most 2,000 pictures, spread evenly.
        """
        if not pictures:
            raise OptionError("there are no pictures to learn from; expected at least one")
        if not 0 <= size <= MOST_SIZE:
            raise OptionError(f"size is {size}; expected 1 to {MOST_SIZE} pixels, or 0 for that of the pictures")
        kind = common_kind(pictures)
        height, width, channels = pixel_shape(pictures, size) if kind == "pixels" else feature_shape(pictures)
        bare = cls(kind, height, width, channels, (0.0,) * channels, (1.0,) * channels)
        rows = np.unique(np.linspace(0, len(pictures) - 1, min(len(pictures), _MEASURED)).round().astype(int))
        measured = [pictures[row] for row in rows]
        blocks = (measured[begin : begin + _BLOCK] for begin in range(0, len(measured), _BLOCK))
        mean, deviation = moments((bare.batch(block) for block in blocks), kind)
        return cls(kind, height, width, channels, mean, deviation)

    @property
    def sizes(self) -> dict[str, int]:
        """What a network over pixels is built for."""
        return {"height": self.height, "width": self.width, "channels": self.channels}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one encoded picture."""
        if self.kind == "pixels":
            return (self.channels, self.height, self.width)
        return (self.width,) if self.kind == "vectors" else (self.height, self.width)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of an encoded picture."""
        return np.dtype(np.uint8 if self.kind == "pixels" else np.float32)

    def describe(self) -> str:
        """What the network is given, in words.

        >>> PictureCodec("pixels", 28, 20, 1, (0.1,), (0.3,)).describe()
        'pictures are read as pixels 28 x 20, grey'
        """
        shape = (self.height, self.width, self.channels) if self.kind == "pixels" else self.shape
        colours = {1: ", grey", 3: ", in colour"}.get(self.channels, "") if self.kind == "pixels" else ""
        return f"pictures are read as {described(self.kind, shape)}{colours}"

    def encode(self, picture: Picture) -> NDArray[np.generic]:
        """One picture; pixels are cut to the aspect around the middle and resized where their size is another."""
        source = picture.source
        if isinstance(source, GivenPicture):
            values = source.read_as(self.kind)
        elif source.kind == self.kind:
            values = picture.read()
        else:
            raise OptionError(f"{named(picture)} is {described(source.kind, picture.shape())}; {self._expected()}")
        if self.kind == "pixels":
            return fit_in(np.asarray(values, np.uint8), self.height, self.width, self.channels)
        if values.shape != self.shape:
            raise OptionError(f"{named(picture)} is {described(self.kind, values.shape)}; {self._expected()}")
        return values

    def decode(self, numbers: NDArray[np.generic]) -> Picture:
        """An encoded picture as one that was given."""
        pixels = self.kind == "pixels"
        return given_array(np.moveaxis(numbers, 0, 2) if pixels else np.asarray(numbers, np.float32), self.kind)

    def batch(self, pictures: Sequence[Picture]) -> NDArray[np.generic]:
        """Several pictures, stacked; each is decoded once."""
        by_source: dict[PictureSource, list[int]] = {}
        for place, picture in enumerate(pictures):
            by_source.setdefault(picture.source, []).append(place)
        stacked = np.empty((len(pictures), *self.shape), self.dtype)
        for source, places in by_source.items():
            stacked[places] = self._rows(source, [pictures[place] for place in places])
        return stacked

    def keep(self, pictures: Sequence[Picture]) -> None:
        """Decode pictures beforehand, with a progress bar: a damaged one is an error now and not in the middle."""
        with progress.task("decoding pictures", total=len(pictures), unit="pictures") as advance:
            for begin in range(0, len(pictures), _BLOCK):
                block = pictures[begin : begin + _BLOCK]
                self.batch(block)
                advance(len(block))

    def _rows(self, source: PictureSource, pictures: Sequence[Picture]) -> NDArray[np.generic]:
        rows = [picture.row for picture in pictures]
        wanted = (self.height, self.width, self.channels) if self.kind == "pixels" else self.shape
        if isinstance(source, StackingSource) and source.kind == self.kind and source.shape(0) == wanted:
            values = source.stack(rows)
            return np.moveaxis(values, 3, 1) if self.kind == "pixels" else values
        if len(source) == 1:  # a question, not what is learned from
            return np.stack([self.encode(picture) for picture in pictures])
        by_row = dict(zip(rows, pictures, strict=True))
        with _choosing:
            by_shape = _kept.setdefault(source, {})
            key = (self.shape, self.dtype.str)
            if key not in by_shape:
                by_shape[key] = KeptPictures(len(source), self.shape, self.dtype)
        return by_shape[key].take(rows, lambda row: self.encode(by_row[row]))

    def _expected(self) -> str:
        if self.kind == "pixels":
            return f"expected pixels, of which {self.height} x {self.width} are read"
        return f"expected {described(self.kind, self.shape)}, as in training"

    def to_json(self) -> Table:
        return vars(self) | {"mean": list(self.mean), "deviation": list(self.deviation)}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        values: Table = {one.name: stored.get(one.name) for one in fields(cls)}
        kind, *sizes, mean, deviation = values.values()
        sound = kind in ("pixels", "vectors", "maps") and isinstance(mean, list) and isinstance(deviation, list)
        sound = sound and all(type(size) is int and 0 < size <= _LARGEST for size in sizes) and sizes[2] in (1, 3)
        sound = sound and all(isinstance(number, float) and math.isfinite(number) for number in [*mean, *deviation])
        if not sound or not len(mean) == len(deviation) == sizes[2] or min(deviation) <= 0:
            raise FormatError(_DAMAGED)
        return cls(**values | {"mean": tuple(mean), "deviation": tuple(deviation)})


# Pictures decoded once: an epoch after the first reads pixels from a temporary file that is mapped into memory.
#
# The file belongs to the source of the pictures and is gone with it. Of an array, nothing is copied where its pictures
# have the right shape already.


Encoded = NDArray[np.generic]


class KeptPictures:
    """The rows of a source in one shape, decoded when they are first asked for."""

    def __init__(self, count: int, shape: tuple[int, ...], dtype: DTypeLike, purpose: str = "decoded pictures") -> None:
        self._mapped = MappedArray((count, *shape), dtype, purpose)
        self._done_N = np.zeros(count, np.bool_)

    def take(self, rows: Sequence[int], encode: Callable[[int], Encoded]) -> Encoded:
        """The rows as one array; `encode` gives those that are not here yet."""
        for row in dict.fromkeys(rows):
            if not self._done_N[row]:
                self._mapped.write(row, encode(row))
                self._done_N[row] = True
        return self._mapped.array[np.asarray(rows, np.int64)]


_kept: WeakKeyDictionary[PictureSource, dict[tuple[object, ...], KeptPictures]] = WeakKeyDictionary()
_choosing = threading.Lock()


USUAL_SIZE = 64
"""Of pictures that have different sizes, or are large."""
LARGE = 256
"""Equal pictures of a longer side are read at the usual size, unless another is asked for."""


def common_kind(pictures: Sequence[Picture]) -> PictureKind:
    """Pixels, vectors or maps; FormatError where there are several kinds."""
    by_kind: dict[PictureKind, Picture] = {}
    for picture in pictures:
        by_kind.setdefault(picture.source.kind, picture)
    if len(by_kind) > 1:
        listed = " and ".join(f"{kind} ({named(one)})" for kind, one in by_kind.items())
        raise FormatError(f"the pictures are {listed}; expected one kind; try training on one of them")
    return next(iter(by_kind))


def pixel_shape(pictures: Sequence[Picture], size: int) -> tuple[int, int, int]:
    """Height, width and channels; size 0 is that of the pictures where all are equal and none is large."""
    shapes = _shapes(pictures)
    sizes = {shape[:2] for shape in shapes}
    grey = sum(shape[2] == 1 for shape in shapes)
    channels = 1 if grey == len(shapes) else 3
    if 0 < grey < len(shapes):
        progress.note(f"{grey:,} of {len(shapes):,} pictures {'is' if grey == 1 else 'are'} grey, read as colours")
    if size:
        return size, size, channels
    if len(sizes) == 1:
        height, width = sizes.pop()
        if max(height, width) <= LARGE:
            return height, width, channels
        progress.note(
            f"the pictures have {height:,} x {width:,} pixels, more than {LARGE} a side; their middles are read as "
            f"{USUAL_SIZE} x {USUAL_SIZE}; for more of them try size={LARGE} (--set size={LARGE})"
        )
        return USUAL_SIZE, USUAL_SIZE, channels
    progress.note(f"the pictures have {len(sizes):,} sizes; their middles are read as {USUAL_SIZE} x {USUAL_SIZE}")
    return USUAL_SIZE, USUAL_SIZE, channels


def feature_shape(pictures: Sequence[Picture]) -> tuple[int, int, int]:
    """Places, numbers of a place and 1; FormatError where features have different shapes."""
    first, kind = pictures[0], pictures[0].source.kind
    for picture, shape in zip(pictures, _shapes(pictures), strict=True):
        if shape != first.shape():
            raise FormatError(
                f"{named(picture)} is {described(kind, shape)} and {named(first)} is "
                f"{described(kind, first.shape())}; expected the same of all"
            )
    shape = first.shape()
    return (1, shape[0], 1) if kind == "vectors" else (shape[0], shape[1], 1)


def moments(batches: Iterable[NDArray[np.generic]], kind: PictureKind) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation by channel of pixels / 255, or of all numbers of features; a constant has deviation 1."""
    count, axes = 0, (0, 2, 3) if kind == "pixels" else None
    total = squares = np.zeros(1)
    for batch in batches:
        values = np.asarray(batch, np.float64) / (255.0 if kind == "pixels" else 1.0)
        count += values.size // (values.shape[1] if kind == "pixels" else 1)
        total = total + values.sum(axis=axes)
        squares = squares + np.square(values).sum(axis=axes)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - np.square(mean), 0.0))
    deviation = np.where(deviation > 1e-6 * np.maximum(1.0, np.abs(mean)), deviation, 1.0)
    return tuple(map(float, mean)), tuple(map(float, deviation))


def named(picture: Picture) -> str:
    """A picture in errors."""
    return f"the picture {picture.name!r} of {picture.source.name}" if picture.name else picture.source.name


def described(kind: PictureKind, shape: tuple[int, ...]) -> str:
    """A kind and a shape in words.

    >>> described("maps", (49, 512)), described("pixels", (28, 28, 1))
    ('a map of 49 places with 512 numbers each', 'pixels 28 x 28')
    """
    if kind == "pixels":
        return f"pixels {shape[0]} x {shape[1]}"
    if kind == "vectors":
        return f"a vector of {shape[0]:,} numbers"
    return f"a map of {shape[0]} places with {shape[1]:,} numbers each"


def _shapes(pictures: Sequence[Picture]) -> list[tuple[int, ...]]:
    """The shape of every picture; of files by their first bytes."""
    stacked: dict[PictureSource, tuple[int, ...]] = {}
    shapes = []
    with progress.task("looking at pictures", total=len(pictures), unit="pictures") as advance:
        for number, picture in enumerate(pictures, start=1):
            shape = stacked.get(picture.source)
            if shape is None:
                shape = picture.shape()
                if isinstance(picture.source, StackedPictures):
                    stacked[picture.source] = shape
            shapes.append(shape)
            if number % 256 == 0 or number == len(pictures):
                advance((number - 1) % 256 + 1)
    return shapes


READINGS = ("rows", "pixels", "permuted")
PERMUTATION = 92916
"""The seed by which the literature permutes the pixels of MNIST (Wisdom et al. 2016)."""
_DAMAGED_ORDER = "the order of the pixels of this run is damaged; expected each pixel once; try training again"


@dataclass(frozen=True)
class PixelOrder:
    """How a picture becomes steps, and steps a picture; see `data/codecs.py` for the contract.

    `order`: which pixel each step of "permuted" reads, counted row by row; empty for the others.

    >>> order = PixelOrder("pixels", 2, 2, 1)
    >>> order.encode(np.array([[[1, 2], [3, 4]]])).tolist()
    [[1], [2], [3], [4]]
    """

    codec: ClassVar[str] = "pixel-order"
    size: ClassVar[int] = 0
    read: str
    height: int
    width: int
    channels: int
    seed: int = PERMUTATION
    order: tuple[int, ...] = ()

    @classmethod
    def fit(cls, pictures: PictureCodec, read: str = "rows", seed: int = PERMUTATION) -> Self:
        """The order in which pictures of that shape are read."""
        if read not in READINGS:
            raise OptionError(f"read is {read!r}; expected one of {', '.join(READINGS)}")
        if pictures.kind != "pixels" and read != "rows":
            raise OptionError(f"read is {read!r}, and the pictures are {pictures.kind} of features; try read=rows")
        height, width, channels = pictures.height, pictures.width, pictures.channels
        order: tuple[int, ...] = ()
        if read == "permuted":
            # the stream of RandomState is frozen, so that a seed means the same order for everybody, for ever
            order = tuple(np.random.RandomState(seed).permutation(height * width).tolist())
        return cls(read, height, width, channels, seed, order)

    @property
    def steps(self) -> int:
        """T."""
        return self.height if self.read == "rows" else self.height * self.width

    @property
    def numbers(self) -> int:
        """K: those of a step."""
        return self.channels * self.width if self.read == "rows" else self.channels

    def encode(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """One picture [C, H, W] as steps [T, K]."""
        steps_TK: NDArray[np.generic] = self.encode_batch(np.asarray(values)[None])[0]
        return steps_TK

    def encode_batch(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Pictures [B, C, H, W] as steps [B, T, K]; features as `PictureCodec` has them."""
        values_BHWC = np.moveaxis(values.reshape(len(values), self.channels, self.height, self.width), 1, 3)
        steps_BTK = values_BHWC.reshape(len(values), self.steps, self.numbers)
        return steps_BTK[:, list(self.order)] if self.order else steps_BTK

    def decode(self, numbers: NDArray[np.generic]) -> NDArray[np.generic]:
        """Steps [T, K] as a picture [C, H, W]."""
        steps_TK = np.asarray(numbers).reshape(self.steps, self.numbers)
        if self.order:
            steps_TK = steps_TK[np.argsort(self.order)]
        return np.moveaxis(steps_TK.reshape(self.height, self.width, self.channels), 2, 0)

    def name_of(self, step: int) -> str:
        """Which place of the picture a step reads.

        >>> PixelOrder("pixels", 28, 28, 1).name_of(30)
        'row 1, column 2'
        """
        if self.read == "rows":
            return f"row {step}"
        place = self.order[step] if self.order else step
        return f"row {place // self.width}, column {place % self.width}"

    def describe(self) -> str:
        """How pictures are read, in a sentence."""
        steps = f"{self.steps:,} step{'s' * (self.steps > 1)} of {self.numbers:,} number{'s' * (self.numbers > 1)}"
        if not self.order:
            return f"a picture is read in {steps} ({self.read})"
        first = ", ".join(map(str, self.order[:4]))
        return f"a picture is read in {steps}: its pixels in the order of seed {self.seed} ({first}, ...)"

    def to_json(self) -> Table:
        return vars(self) | {"order": list(self.order)}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        values: Table = {one.name: stored.get(one.name) for one in fields(cls)}
        read, *sizes, seed, order = values.values()
        sound = all(type(size) is int and 0 < size <= _LARGEST for size in sizes) and type(seed) is int
        sound = sound and read in READINGS and isinstance(order, list) and all(type(place) is int for place in order)
        if not sound or sorted(order) != list(range(sizes[0] * sizes[1] if read == "permuted" else 0)):
            raise FormatError(_DAMAGED_ORDER)
        return cls(**values | {"order": tuple(order)})
