"""Clips: pictures in the order of time, rendered or decoded when they are asked for, and as arrays of one size.

`read_many(clips)` reads a batch at once, which is many times faster than one by one.

Shapes: N clips, B clips of a batch, T frames, H rows of pixels, W columns; a pixel is 0 (black) to 255 (white).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.vision.pictures.decoding import grey
from thereafter.vision.pictures.picture import as_bytes
from thereafter.vision.rules import Integers, Pixels

_AT_ONCE = 4096

Labels = tuple[tuple[str, str], ...]
"""What is known of a clip: the name of a column and the label in it, as in (("digit", "7"), ("direction", "E"))."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip of a source, not read yet. Two are equal if they are the same row of the same source."""

    source: Clips
    row: int
    labels: Labels = field(default=(), compare=False)
    name: str = field(default="", compare=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """T, H and W, without reading the clip."""
        return self.source.shape(self.row)

    def read(self) -> Pixels:
        """The frames, [T, H, W]."""
        return np.asarray(self.source.read_many([self.row])[0], np.uint8)


class Clips(Sequence[Clip], ABC):
    """Clips of one source in order; `columns` are their labels: a name, and as many labels as there are clips."""

    name: str
    columns: Mapping[str, Sequence[str]]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def shape(self, row: int) -> tuple[int, int, int]:
        """T, H and W of a clip, without reading it."""

    @abstractmethod
    def read_many(self, rows: ArrayLike) -> Pixels:
        """The frames of several clips, [B, T, H, W]; shorter ones end in black."""

    def clip_name(self, row: int) -> str:
        """What a table of predictions calls a clip."""
        return str(row)

    @overload
    def __getitem__(self, at: int) -> Clip: ...
    @overload
    def __getitem__(self, at: slice) -> list[Clip]: ...
    def __getitem__(self, at: int | slice) -> Clip | list[Clip]:
        if isinstance(at, slice):
            return self._made(range(*at.indices(len(self))))
        row = at + len(self) if at < 0 else at
        if not 0 <= row < len(self):
            raise IndexError(f"clip {at} of {len(self)}")
        return self._made(range(row, row + 1))[0]

    def __iter__(self) -> Iterator[Clip]:
        for begin in range(0, len(self), _AT_ONCE):
            yield from self._made(range(begin, min(begin + _AT_ONCE, len(self))))

    def _made(self, rows: range) -> list[Clip]:
        """Clips of these rows; those with the same labels share them, so that a hundred thousand take little memory."""
        names = tuple(self.columns)
        known: dict[tuple[str, ...], Labels] = {}
        made = []
        for row in rows:
            values = tuple(column[row] for column in self.columns.values())
            if values not in known:
                known[values] = tuple(zip(names, values, strict=True))
            made.append(Clip(self, row, known[values], self.clip_name(row)))
        return made


class ArrayClips(Clips):
    """Clips of one array [N, T, H, W], of bytes or of floats from 0 to 1, or with a last axis of 1 or 3 colours. It may
    be mapped from a file: clips are read when they are asked for."""

    def __init__(
        self, frames: NDArray[np.generic], columns: Mapping[str, Sequence[str]] | None = None, name: str = "an array"
    ) -> None:
        self.name = name
        self.columns = columns or {}
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def shape(self, row: int) -> tuple[int, int, int]:
        frames, height, width = self._frames.shape[1:4]
        return frames, height, width

    def read_many(self, rows: ArrayLike) -> Pixels:
        frames = as_bytes(self._frames[np.asarray(rows, np.int64)], self.name)
        return grey(frames) if frames.ndim == 5 else frames


def read_many(clips: Sequence[Clip]) -> Pixels:
    """The frames of a batch of clips, uint8 [B, T, H, W]; shorter ones end in black.

    Clips of one source, as in a training, are read by one call of it.
    """
    rows: dict[Clips, list[int]] = {}
    for place, clip in enumerate(clips):
        rows.setdefault(clip.source, []).append(place)
    if len(rows) == 1:
        return clips[0].source.read_many([clip.row for clip in clips])
    shapes = {clip.shape[1:]: clip for clip in clips}
    if len(shapes) != 1:
        one, other, *_ = (f"{size[0]} x {size[1]} in {clip.source.name}" for size, clip in shapes.items())
        raise FormatError(f"clips have frames of {one} and of {other}; expected one size; try scaling them beforehand")
    most = max(clip.shape[0] for clip in clips)
    frames_BTHW = np.zeros((len(clips), most, *next(iter(shapes))), np.uint8)
    for source, places in rows.items():
        part_BTHW = source.read_many([clips[place].row for place in places])
        frames_BTHW[places, : part_BTHW.shape[1]] = part_BTHW
    return frames_BTHW


def lengths_of(clips: Sequence[Clip]) -> Integers:
    """The frames that each clip has, [B]."""
    return np.array([clip.shape[0] for clip in clips], np.int64)


MOST = 4096
"""Rows, columns and frames that a run may have."""
_DAMAGED = "the clips of this run are damaged; expected the height and the width of a frame; try training again"


@dataclass(frozen=True)
class ClipCodec:
    """What the clips of a task have in common: the size of a frame, any number of frames. See `data/codecs.py`.

    `read` and `ahead`: how many frames are read and how many come after them, where those are predicted; else 0.
    """

    codec: ClassVar[str] = "clips"
    size: ClassVar[int] = 0
    height: int
    width: int
    read: int = 0
    ahead: int = 0

    @classmethod
    def fit(cls, clips: Sequence[Clip], read: int = 0, ahead: int = 0) -> Self:
        """The size of the first clip; `check` says whether the others have it too."""
        if not clips:
            raise OptionError("there are no clips to learn from; expected at least one")
        _, height, width = clips[0].shape
        return cls(height, width, read, ahead)

    def check(self, clips: Sequence[Clip], name: str) -> None:
        """Refuse frames of another size."""
        for row, (_, height, width) in enumerate(clip_shapes(clips)):
            if (height, width) != (self.height, self.width):
                got = f"the clip {clips[row].name} of {name} has frames of {height} x {width} pixels"
                raise FormatError(f"{got}; expected {self.height} x {self.width}; try scaling it beforehand")

    def describe(self) -> str:
        """What the network is given, in words.

        >>> ClipCodec(64, 48, 10, 5).describe()
        'frames have 64 x 48 pixels; 10 are read, 5 predicted'
        """
        ahead = f"; {self.read} are read, {self.ahead} predicted" if self.ahead else ""
        return f"frames have {self.height} x {self.width} pixels{ahead}"

    def encode(self, clip: Clip) -> Pixels:
        """The frames of a clip, [T, H, W]."""
        return np.asarray(self.batch([clip])[0], np.uint8)

    def decode(self, numbers: NDArray[np.generic]) -> Pixels:
        """Frames, as they are."""
        return np.asarray(numbers, np.uint8)

    def batch(self, clips: Sequence[Clip]) -> Pixels:
        """The frames of several clips, [B, T, H, W]; shorter ones end in black."""
        self.check(list({clip.source: clip for clip in clips}.values()), "these")
        return read_many(clips)

    def to_json(self) -> Table:
        return {"height": self.height, "width": self.width, "read": self.read, "ahead": self.ahead}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        least = {"height": 1, "width": 1, "read": 0, "ahead": 0}
        sizes: Table = {name: stored.get(name) for name in least}
        if not all(type(size) is int and least[name] <= size <= MOST for name, size in sizes.items()):
            raise FormatError(_DAMAGED)
        return cls(**sizes)


def clip_shapes(clips: Sequence[Clip]) -> list[tuple[int, int, int]]:
    """T, H and W of each clip; those of one rule or array need not be made for it."""
    if isinstance(clips, Clips):
        return [clips.shape(row) for row in range(len(clips))]
    return [clip.shape for clip in clips]
