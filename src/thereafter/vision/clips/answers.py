"""Clips as the examples of a task, and what is answered about them: labels, or the frames that come next.

Clips are read, checked and held out. Labels stand with what the network believed after each frame.
Shapes: N clips, T frames, K frames ahead, L labels of a column, H rows, W columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.storage import replacing
from thereafter.base.tabular import Row
from thereafter.data.files import AnySource
from thereafter.data.finding import find_files
from thereafter.data.sources import is_read_once, locate
from thereafter.errors import FormatError, OptionError, ThereafterError
from thereafter.text.reading import lines_of
from thereafter.training.settings import TrainingSettings
from thereafter.vision.clips.reading import CLIP_FILES, Clip, Clips, clip_of, read_clips
from thereafter.vision.pictures.archives import npz_arrays
from thereafter.vision.pictures.labelled_pictures import last_of_each

Chances = Mapping[str, Mapping[str, float]]
"""The probability of every label, by column."""
_LIT = 0.5 / 255  # fainter pixels are black


@dataclass(frozen=True)
class ClipLabels:
    """The label of a clip in each column, and the probability of every label."""

    labels: dict[str, str]
    probabilities: Chances

    def __str__(self) -> str:
        parts = [f"{name} {label} ({_percent(self.probabilities[name][label])})" for name, label in self.labels.items()]
        return ", ".join(parts)

    def row(self) -> Row:
        """Each label and its probability."""
        row: Row = {}
        for name, label in self.labels.items():
            row |= {name: label, f"p_{name}": self.probabilities[name][label]}
        return row


@dataclass(frozen=True, eq=False)
class ClipExplained:
    """The labels of a clip, and what was believed of each column after every frame.

    `beliefs` has an array [T, L] for each column: p(label | the frames so far), the labels in the order of `names`.
    """

    answer: ClipLabels
    names: Mapping[str, tuple[str, ...]]
    beliefs: Mapping[str, NDArray[np.float32]]
    frames_THW: NDArray[np.uint8] = field(repr=False)

    def best(self, column: str, frame: int) -> tuple[str, float]:
        """The likeliest label of a column after a frame, counted from 0, and its probability."""
        at = int(self.beliefs[column][frame].argmax())
        return self.names[column][at], float(self.beliefs[column][frame, at])

    def as_dict(self) -> Table:
        """Plain JSON values."""
        frames = [
            {
                name: dict(zip(self.names[name], belief_TL[frame].tolist(), strict=True))
                for name, belief_TL in self.beliefs.items()
            }
            for frame in range(len(self.frames_THW))
        ]
        return {"labels": self.answer.labels, "probabilities": self.answer.probabilities, "frames": frames}

    def __str__(self) -> str:
        lines = [str(self.answer)]
        for frame in range(len(self.frames_THW)):
            best = {name: self.best(name, frame) for name in self.beliefs}
            wide = {name: max(map(len, labels)) for name, labels in self.names.items()}
            parts = [f"{name} {label:<{wide[name]}} {_percent(p):>7}" for name, (label, p) in best.items()]
            lines.append(f"  frame {frame + 1:>3}  {'  '.join(parts)}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class NextFrames:
    """The frames that come next: the chance of each pixel to be lit, [K, H, W]."""

    frames_KHW: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.frames_KHW)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NextFrames) and np.array_equal(self.frames_KHW, other.frames_KHW)

    @property
    def pixels_KHW(self) -> NDArray[np.uint8]:
        """The frames as pictures, 0 to 255."""
        return np.rint(255 * self.frames_KHW).astype(np.uint8)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the frames as a clip (`.npz`), which every task over clips reads."""
        place = Path(path)
        if place.suffix.lower() != ".npz":
            raise OptionError(f"{place.name!r} ends in {place.suffix!r}; expected .npz; try {place.stem}.npz")
        with replacing(place) as beside, open(beside, "wb") as file:
            np.savez_compressed(file, frames=self.pixels_KHW[None])
        return place

    def rows(self) -> list[Row]:
        """A row a frame: how much of it is lit, and where the middle of the light is, from the upper left corner."""
        rows: list[Row] = []
        for step, frame_HW in enumerate(self.frames_KHW, start=1):
            lit_HW = np.where(frame_HW < _LIT, 0, frame_HW).astype(np.float64)
            lit = float(lit_HW.sum())
            middle = [float((lit_HW.sum(1 - axis) * np.arange(size)).sum()) for axis, size in enumerate(lit_HW.shape)]
            place: Row = {"row": middle[0] / lit if lit else None, "column": middle[1] / lit if lit else None}
            rows.append({"step": step, "lit": lit, **place})
        return rows

    def __str__(self) -> str:
        steps, height, width = self.frames_KHW.shape
        lit = self.frames_KHW.sum((1, 2))
        size = f"{steps:,} frame{'s' * (steps != 1)} of {height} x {width} pixels"
        return f"{size}; lit in the first {lit[0]:.0f}, in the last {lit[-1]:.0f}"


@dataclass(frozen=True)
class JudgedFrames:
    """How well the frames of a clip were predicted that are known: nats, squared error and least nats of each."""

    nats_K: tuple[float, ...]
    errors_K: tuple[float, ...]
    least_K: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class FramesExplained:
    """The last frames of a clip as they were predicted from those before them, beside what came."""

    read_THW: NDArray[np.uint8]
    came_KHW: NDArray[np.uint8]
    predicted: NextFrames
    judged: JudgedFrames

    def as_dict(self) -> Table:
        """Plain JSON values: the figures of each step."""
        steps = zip(self.judged.nats_K, self.judged.errors_K, self.judged.least_K, strict=True)
        rows = zip(self.predicted.rows(), steps, strict=True)
        return {
            "read": len(self.read_THW),
            "steps": [
                row | {"nats": nats, "squared_error": error, "least": least} for row, (nats, error, least) in rows
            ],
        }

    def __str__(self) -> str:
        ahead = len(self.came_KHW)
        lines = [f"{ahead:,} frame{'s' * (ahead != 1)} predicted from the {len(self.read_THW):,} before them"]
        for step, (nats, error) in enumerate(zip(self.judged.nats_K, self.judged.errors_K, strict=True), start=1):
            lines.append(f"  frame {len(self.read_THW) + step:>3}  {nats:8.1f} nats  squared error {error:7.1f}")
        return "\n".join(lines)


def figures_of(answers: Sequence[object]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Nats, squared errors and least nats of judged clips, [N, K] each."""
    judged = [one for one in answers if isinstance(one, JudgedFrames)]
    nats_NK, errors_NK, least_NK = (
        np.array(list(rows), np.float64)
        for rows in zip(*((one.nats_K, one.errors_K, one.least_K) for one in judged), strict=True)
    )
    return nats_NK, errors_NK, least_NK


def _percent(p: float) -> str:
    return f"{p:.1%}".replace("%", " %")


_EPOCHS = 20  # of a training whose length is not asked for


def read_example_clips(files: Sequence[Path]) -> Sequence[Clip]:
    """The clips of files, with notes on how they were read."""
    notes: list[str] = []
    clips = read_clips(files, notes)
    for note in notes:
        progress.note(note)
    return clips


class ClipQuestion(Clip):
    """A clip that is asked about: it has no labels, and what comes after it is not known."""


def asked_clip(given: object) -> ClipQuestion:
    """What a user hands over as one clip."""
    if isinstance(given, str) and not given.strip():
        raise OptionError("the clip is an empty text; expected the path of a clip (.npz, .npy, a folder of pictures)")
    clip = clip_of(given)
    return ClipQuestion(clip.source, clip.row, (), clip.name)


def spelled_clips(path: str) -> Sequence[object]:
    """The clips of a file or folder, where it has several; else the path itself."""
    files = find_files(path.strip(), CLIP_FILES)
    clips = read_example_clips(files) if files else ()
    return clips if len(clips) > 1 else [path]


def cut_clips(chunks: Iterable[str]) -> Iterator[tuple[int, str, object]]:
    """The clips that the lines of a text name, each with the number of its line and its name."""
    for number, line in enumerate(lines_of(chunks), start=1):
        for one in spelled_clips(line) if line.strip() else ():
            yield number, one.name if isinstance(one, Clip) else line.strip(), one


def clip_budget(training: TrainingSettings, examples: int, most: int) -> TrainingSettings:
    """Some epochs, but no more than `most` steps, where nothing is asked for: clips made by rule are many."""
    if (training.epochs, training.tokens_budget, training.minutes) != (None, None, None):
        return training
    batches = max(1, -(-examples // int(training.batch or 1)))
    epochs = min(float(_EPOCHS), most / batches)
    every = training.validate_every or max(1, min(batches, round(epochs * batches / _EPOCHS)))
    return replace(training, epochs=epochs, validate_every=every)


def count_frames(count: int) -> str:
    """Frames in words: 1 frame, 2 frames."""
    return f"{count:,} frame{'s' * (count != 1)}"


def read_and_ahead(frames: int, read: int, ahead: int) -> tuple[int, int]:
    """How many of the frames of a clip are read and how many predicted, where 0 is not chosen: half of them, or all the
    others."""
    shortest = f"the shortest clip has {count_frames(frames)}"
    if frames < 2:
        raise OptionError(f"{shortest}; expected at least 2: one to read and one to predict")
    for count, what in ((read, "read"), (ahead, "predicted")):
        if count >= frames:
            raise OptionError(
                f"{shortest}, and {count} are to be {what}; expected 1 to {frames - 1}, so that some are left; try "
                f"read={frames // 2} (--set read=...)"
            )
    read = read or (frames - ahead if ahead else frames // 2)
    ahead = ahead or frames - read
    if read + ahead > frames:
        raise OptionError(
            f"{shortest}, and {read} are to be read and {ahead} predicted; expected no more than there are; try "
            f"read={frames // 2} (--set read=...)"
        )
    return read, ahead


def source_has_labels(source: AnySource) -> bool:
    """Whether the clips of a source have labels; True where that cannot be known yet."""
    try:
        if is_read_once(source):
            return True
        given = locate(source, CLIP_FILES)
        files = next((part.files for name, part in given.parts.items() if name in ("train", "text")), None)
        if given.kind not in ("text", "clips") or not files:
            return True
        if all(path.suffix.lower() == ".npz" for path in files):
            return all(len(npz_arrays(path)) > 1 for path in files)
        clips = read_clips(files)
        return not clips or bool(clips[0].labels)
    except (ThereafterError, OSError, ValueError):  # what is wrong with it is said when the examples are read
        return True


def label_columns(clips: Sequence[Clip], name: str) -> dict[str, list[str]]:
    """The labels of clips by column; FormatError where one has none, or other columns than the first."""
    if isinstance(clips, Clips) and clips.columns:
        return {column: list(labels) for column, labels in clips.columns.items()}
    columns: dict[str, list[str]] = {column: [] for column, _ in clips[0].labels}
    for clip in clips:
        labels = dict(clip.labels)
        if not labels:
            raise FormatError(
                f"the clip {clip.name} of {name} has no label; expected one for each clip, as a second array of the "
                ".npz or as folders LABEL/CLIP/*.png; what comes next is learned without: try --task next-frames"
            )
        if labels.keys() != columns.keys():
            raise FormatError(
                f"the clip {clip.name} of {name} has the labels {', '.join(labels)}; expected {', '.join(columns)}, as "
                "the first one has"
            )
        for column, label in labels.items():
            columns[column].append(label)
    return columns


def require_known_columns(clips: Sequence[Clip], known: Mapping[str, Sequence[str]], name: str) -> None:
    """FormatError where clips have other columns than those that were learned, or a label that was never met."""
    columns = label_columns(clips, name)
    if columns.keys() != known.keys():
        raise FormatError(f"{name} has the labels {', '.join(columns)}; expected {', '.join(known)}, as in training")
    for column, labels in columns.items():
        if strange := sorted(set(labels).difference(known[column])):
            raise FormatError(
                f"{name} has the {column} {strange[0]!r}, which the training clips never have; expected one of "
                f"{', '.join(known[column][:20])}"
            )


def hold_out_clips(clips: Sequence[Clip], share: float) -> tuple[list[Clip], list[Clip], str]:
    """The first and the last clips, the last of every combination of labels, so that a file that is sorted has all of
    them on both sides; and how they were chosen. Where combinations are rare, the last clips without which every label
    still occurs."""
    last = last_of_each([one.labels for one in clips], share)
    how = ", of each label its share,"
    if len(last) < share * len(clips) / 2:
        last, how = _spared(clips, max(1, round(share * len(clips)))), ", without the only one of a label,"
    learned = [one for at, one in enumerate(clips) if at not in last]
    return learned, [clips[at] for at in sorted(last)], how


def _spared(clips: Sequence[Clip], wanted: int) -> set[int]:
    """The last clips that can be spared: every label they have is that of another clip too."""
    counts = Counter(label for one in clips for label in one.labels)
    spared: set[int] = set()
    for at in reversed(range(len(clips))):
        labels = clips[at].labels
        if len(spared) < wanted and all(counts[label] > 1 for label in labels):
            counts.subtract(labels)
            spared.add(at)
    return spared or {len(clips) - 1}
