"""Clips as folders of pictures: CLIP/*.png, or LABEL/CLIP/*.png.

A frame is decoded when it is first asked for, and kept in a temporary file. Shapes: B clips, T frames, H rows of
pixels, W columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import FormatError
from thereafter.images.clip import Clips
from thereafter.images.decoding import decode, shape_of_file
from thereafter.images.fitting_in import grey
from thereafter.images.mapped import MappedArray
from thereafter.images.picture_files import open_binary


class FolderClips(Clips):
    """Clips of the pictures of folders, a folder a clip; frames are in the order of their names, 2 before 10.

    The folder above is the label, where there are at least two such names.
    """

    def __init__(self, files: Sequence[Path], notes: list[str]) -> None:
        folders: dict[Path, list[Path]] = {}
        for path in files:
            folders.setdefault(path.absolute().parent, []).append(path)
        self._folders = sorted(folders, key=_natural)
        self._files = [path for folder in self._folders for path in sorted(folders[folder], key=_natural)]
        lengths = np.array([len(folders[folder]) for folder in self._folders])
        self._end_N = np.cumsum(lengths)
        self._begin_N = self._end_N - lengths
        labels = [folder.parent.name for folder in self._folders]
        self.columns = {"label": labels} if len(set(labels)) > 1 else {}
        self.name = str(self._folders[0].parent)
        with open_binary(self._files[0]) as file:
            self._height, self._width, _ = shape_of_file(file, str(self._files[0]))
        self._decoded_N = np.zeros(len(self._files), np.bool_)
        self._kept = MappedArray((len(self._files), self._height, self._width), np.uint8, "decoded frames")
        if len(set(lengths.tolist())) > 1:
            notes.append(f"clips have {lengths.min():,} to {lengths.max():,} frames; shorter ones end in black")

    def __len__(self) -> int:
        return len(self._folders)

    def shape(self, row: int) -> tuple[int, int, int]:
        return int(self._end_N[row] - self._begin_N[row]), self._height, self._width

    def clip_name(self, row: int) -> str:
        return self._folders[row].name

    def read_many(self, rows: ArrayLike) -> NDArray[np.uint8]:
        rows_B = np.asarray(rows, np.int64)
        spans = list(zip(self._begin_N[rows_B].tolist(), self._end_N[rows_B].tolist(), strict=True))
        most = max(end - begin for begin, end in spans)
        frames_BTHW = np.zeros((len(spans), most, self._height, self._width), np.uint8)
        for place, (begin, end) in enumerate(spans):
            for at in range(begin, end):
                if not self._decoded_N[at]:
                    self._kept.write(at, self._decode(self._files[at]))
                    self._decoded_N[at] = True
            frames_BTHW[place, : end - begin] = self._kept.array[begin:end]
        return frames_BTHW

    def _decode(self, path: Path) -> NDArray[np.uint8]:
        with open_binary(path) as file:
            pixels_HW = grey(decode(file, str(path)))
        if pixels_HW.shape != (self._height, self._width):
            raise FormatError(
                f"{path} has {pixels_HW.shape[0]} x {pixels_HW.shape[1]} pixels, {self._files[0]} has {self._height} x "
                f"{self._width}; expected frames of one size; try scaling them beforehand"
            )
        return pixels_HW


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Names with their numbers as numbers: frame2 before frame10."""
    parts = re.findall(r"\d+|\D+", str(path))
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts]
