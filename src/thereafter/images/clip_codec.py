"""The clips of a task as arrays of one size; see `data/codecs.py` for the contract.

Shapes: N clips, B clips of a batch, T frames, H rows, W columns; a pixel is 0 (black) to 255 (white).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.images.clip import Clip, Clips, read_many

MOST = 4096
"""Rows, columns and frames that a run may have."""
_DAMAGED = "the clips of this run are damaged; expected the height and the width of a frame; try training again"


@dataclass(frozen=True)
class ClipCodec:
    """What the clips of a task have in common: the size of a frame. Clips may have any number of frames.

    `read` and `ahead`: how many frames are read and how many come after them, where those are predicted; else 0.
    """

    codec: ClassVar[str] = "clips"
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

    @property
    def size(self) -> int:
        return 0

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

    def encode(self, clip: Clip) -> NDArray[np.uint8]:
        """The frames of a clip, [T, H, W]."""
        return np.asarray(self.batch([clip])[0], np.uint8)

    def decode(self, numbers: NDArray[np.generic]) -> NDArray[np.uint8]:
        """Frames, as they are."""
        return np.asarray(numbers, np.uint8)

    def batch(self, clips: Sequence[Clip]) -> NDArray[np.uint8]:
        """The frames of several clips, [B, T, H, W]; shorter ones end in black."""
        self.check(list({clip.source: clip for clip in clips}.values()), "these")
        return read_many(clips)

    def to_json(self) -> Table:
        return {"height": self.height, "width": self.width, "read": self.read, "ahead": self.ahead}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        sizes = [size for name in ("height", "width", "read", "ahead") if type(size := stored.get(name)) is int]
        if len(sizes) != 4:
            raise FormatError(_DAMAGED)
        height, width, read, ahead = sizes
        if min(height, width) < 1 or min(read, ahead) < 0 or max(height, width, read, ahead) > MOST:
            raise FormatError(_DAMAGED)
        return cls(height, width, read, ahead)


def clip_shapes(clips: Sequence[Clip]) -> list[tuple[int, int, int]]:
    """T, H and W of each clip; those of one rule or array need not be made for it."""
    if isinstance(clips, Clips):
        return [clips.shape(row) for row in range(len(clips))]
    return [clip.shape for clip in clips]
