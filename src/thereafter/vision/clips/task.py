"""What the tasks over clips have in common: how clips are read, asked about, checked and trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypedDict, TypeVar

from thereafter.data.finding import FileKind
from thereafter.tasks.task import (
    A,
    AskingFiles,
    Baselines,
    Comparing,
    Explaining,
    N,
    Preparing,
    S,
    Tabulating,
    Task,
    X,
)
from thereafter.training.settings import TrainingSettings
from thereafter.vision.clips.answers import asked_clip, clip_budget, cut_clips, read_example_clips, spelled_clips
from thereafter.vision.clips.clip import ClipCodec
from thereafter.vision.clips.reading import CLIP_FILES, Clip


class FrameCodecs(TypedDict):
    """What a run keeps of its clips."""

    clips: ClipCodec


C = TypeVar("C", bound=FrameCodecs)


class ClipTask(
    Preparing[Clip, C],
    AskingFiles[Clip, C],
    Tabulating[Clip, X, N, A, C],
    Explaining[Clip, X, N, C],
    Comparing[Clip, A, C],
    Baselines[Clip, A],
    Task[S, Clip, X, N, A, C],
    Generic[S, X, N, A, C],
):
    """Examples are clips; questions are clips too, whose labels are ignored."""

    kind = "clips"
    unit = "clip"
    file_kind: ClassVar[FileKind] = CLIP_FILES
    usual_steps: ClassVar[int]
    """Of a training whose length is not asked for, at most."""

    def read(self, files: Sequence[Path]) -> Sequence[Clip]:
        return read_example_clips(files)

    def codec_notes(self, codecs: C) -> list[str]:
        return [codecs["clips"].describe()]

    def budget(self, training: TrainingSettings, examples: int) -> TrainingSettings:
        return clip_budget(training, examples, self.usual_steps)

    def example(self, given: object) -> Clip:
        """A file or a folder of pictures with one clip, an array [T, H, W], or a `Clip`, whose labels are ignored."""
        return asked_clip(given)

    def prepare(self, given: object, codecs: C) -> Clip:
        clip = self.example(given)
        codecs["clips"].check([clip], clip.source.name)
        return clip

    def spelled(self, text: str) -> Sequence[object]:
        return spelled_clips(text)

    def cut(self, chunks: Iterable[str], codecs: C, *, pretokenised: bool = False) -> Iterator[tuple[int, str, Clip]]:
        for number, name, one in cut_clips(chunks):
            yield number, name, self.prepare(one, codecs)

    def ask(self, files: Sequence[Path], codecs: C) -> Iterator[tuple[int, str, Clip]]:
        """The clips of files; labels that stand in them are passed over."""
        for number, one in enumerate(read_example_clips(files), start=1):
            yield number, one.name, self.prepare(one, codecs)
