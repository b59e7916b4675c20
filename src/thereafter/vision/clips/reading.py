"""Clips of files: arrays of frames, folders of pictures, and the rules of moving digits.

.json            a rule of moving digits
.npz             an array of frames [N, T, H, W]; every other array of N entries is a column of labels
.npy             frames alone, [N, T, H, W]; one clip [T, H, W]
CLIP/*.png       a folder a clip, its frames in the order of their names (2 before 10)
LABEL/CLIP/*.png the same with labels, where there are at least two of them

Pixels are uint8, or floats from 0 to 1; coloured frames (a last axis of 3) become grey. A frame of a folder is decoded
when it is first asked for, and kept in a temporary file.

Shapes: N clips, B clips of a batch, T frames, H rows of pixels, W columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base import progress
from thereafter.data.finding import FileKind, find_files
from thereafter.errors import EmptyCorpusError, FormatError, SourceError
from thereafter.vision.clips.clip import ArrayClips, Clip, Clips, lengths_of, read_many
from thereafter.vision.clips.moving import MovingClips, MovingRule
from thereafter.vision.pictures.archives import find_array, npy_array, npz_array, npz_strings
from thereafter.vision.pictures.codec import KeptPictures
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS, decode, grey, shape_of_file
from thereafter.vision.pictures.picture import open_binary

__all__ = ["CLIP_FILES", "Clip", "Clips", "clip_of", "lengths_of", "read_clips", "read_many"]

CLIP_FILES = FileKind("clips", ((".npz", ".npy"), (".json",), PICTURE_ENDINGS))
_FRAMES = ("frames", "clips", "videos", "x")
_PUBLISHED = (20, 10_000, 64, 64)  # of mnist_test_seq.npy (Srivastava et al. 2015): time comes first


def read_clips(files: Sequence[Path], notes: list[str] | None = None) -> Sequence[Clip]:
    """The clips of one array or rule, of several, or of the pictures of a folder; `notes` takes what to print."""
    notes = [] if notes is None else notes
    pictures = [path for path in files if path.name.lower().endswith(PICTURE_ENDINGS)]
    if pictures and len(pictures) < len(files):
        other = next(path for path in files if path not in set(pictures))
        raise SourceError(
            f"{other} is no picture, {pictures[0]} is one; expected clips of one kind; try them one by one"
        )
    if pictures:
        return FolderClips(pictures, notes)
    parts = [_of_file(path, notes) for path in files]
    if not parts:
        raise EmptyCorpusError("no files of clips; expected .npz, .npy, .json or folders of pictures")
    return parts[0] if len(parts) == 1 else [clip for part in parts for clip in part]


def read_example_clips(files: Sequence[Path]) -> Sequence[Clip]:
    """The clips of files, with notes on how they were read."""
    notes: list[str] = []
    clips = read_clips(files, notes)
    for note in notes:
        progress.note(note)
    return clips


def _of_file(path: Path, notes: list[str]) -> Clips:
    ending = path.suffix.lower()
    if ending == ".json":
        return MovingClips(MovingRule.read(path), str(path))
    if ending == ".npz":
        return _of_npz(path, notes)
    if ending == ".npy":
        return array_clips(npy_array(path), {}, str(path), notes)
    raise SourceError(
        f"{path} is no file of clips; expected .npz or .npy with frames [clips, frames, height, width], a .json rule "
        "of moving digits, or a folder with a folder of pictures for each clip"
    )


def clip_of(given: object) -> Clip:
    """What a user hands over as one clip: frames [T, H, W] as an array, a clip, a file or a folder of pictures."""
    if isinstance(given, Clip):
        return given
    if isinstance(given, np.ndarray):
        if given.ndim not in (3, 4) or (given.ndim == 4 and given.shape[3] not in (1, 3)):
            raise FormatError(f"a clip has the shape {list(given.shape)}; expected frames [frames, height, width]")
        return array_clips(given[None], {}, "the clip", [])[0]
    if not isinstance(given, str | os.PathLike):
        raise FormatError(f"a clip is {type(given).__name__}; expected an array [frames, height, width] or a path")
    files = find_files(given, CLIP_FILES)
    if not files:
        raise SourceError(
            f"there is no file or folder {os.fspath(given)[:200]!r}; expected the path of a clip: .npz, .npy, or a "
            "folder of pictures"
        )
    clips = read_clips(files)
    if len(clips) != 1:
        raise FormatError(f"{os.fspath(given)} has {len(clips):,} clips; expected one")
    return clips[0]


def array_clips(
    array: NDArray[np.generic], columns: Mapping[str, Sequence[str]], name: str, notes: list[str]
) -> ArrayClips:
    """Clips of an array [N, T, H, W], with a last axis of 1 or 3 colours or without, and of one clip [T, H, W]."""
    if array.dtype.kind not in "biuf":
        raise FormatError(f"{name} has the type {array.dtype}; expected uint8, or floats from 0 to 1")
    if array.shape == _PUBLISHED:
        notes.append(f"{name} has the shape {list(array.shape)}: read as 10,000 clips of 20 frames")
        array = np.swapaxes(array, 0, 1)
    if array.ndim == 3:
        array = array[None]
    if array.ndim not in (4, 5) or (array.ndim == 5 and array.shape[4] not in (1, 3)):
        raise FormatError(
            f"{name} has the shape {list(array.shape)}; expected frames [clips, frames, height, width], as uint8 or "
            "floats from 0 to 1"
        )
    if 0 in array.shape:
        raise EmptyCorpusError(
            f"{name} has the shape {list(array.shape)}: nothing is in it; expected at least one clip"
        )
    return ArrayClips(array, columns, name)


def _of_npz(path: Path, notes: list[str]) -> ArrayClips:
    members, key = find_array(path, _FRAMES, "frames", "frames")
    frames, where = npz_array(path, members[key]), f"{key} in {path}"
    count = len(array_clips(frames, {}, where, []))
    columns: dict[str, Sequence[str]] = {}
    for other, member in members.items():
        if other == key:
            continue
        column = npz_strings(path, member)
        if len(column) != count:
            raise FormatError(
                f"{other} in {path} has {len(column):,} entries and {key} has {count:,} clips; expected a label "
                "for each; try leaving it out"
            )
        columns[other] = column
    return array_clips(frames, columns, where, notes)


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
        self._kept = KeptPictures(len(self._files), (self._height, self._width), np.uint8, "decoded frames")
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
            frames_BTHW[place, : end - begin] = self._kept.take(range(begin, end), self._decode)
        return frames_BTHW

    def _decode(self, at: int) -> NDArray[np.uint8]:
        path = self._files[at]
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
