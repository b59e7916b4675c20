"""What the tasks over pictures, clips and games have in common: how examples are read, asked about and checked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind, find_files
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.tasks import task as contract
from thereafter.tasks.labelling import LabelCodecs, LabelTask, hold_out_by_label, require_known_labels
from thereafter.tasks.task import A, C, N, S, X
from thereafter.text.reading import lines_of
from thereafter.training.settings import TrainingSettings
from thereafter.vision.acting.game import Episode
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.clips.clip import ClipCodec
from thereafter.vision.clips.reading import CLIP_FILES, Clip, clip_of, read_example_clips
from thereafter.vision.measures import Rows, picture_rows
from thereafter.vision.pictures import labelled_pictures as labelled
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.picture import Picture
from thereafter.vision.pictures.sources import holds_pictures, picture_of, with_pictures

_EPOCHS = 20.0  # of a training over clips whose length is not asked for
Example = Picture | LabelledPicture | CaptionedPicture | Clip | Episode
E = TypeVar("E", bound=Example)


class VisionTask(
    contract.Locating[C],
    contract.Preparing[E, C],
    contract.AskingFiles[E, C],
    contract.Comparing[E, A, C],
    contract.Baselines[E, A],
    contract.Tabulating[E, X, N, A, C],
    contract.Explaining[E, X, N, C],
    contract.Task[S, E, X, N, A, C],
    Generic[S, E, X, N, A, C],
):
    """A task whose examples are in files of their own, with rows of answers, explanations, and models beside it."""

    most_held_out: ClassVar[int] = sys.maxsize
    """Examples that are held out for validation, at most."""

    def hold_out(self, examples: Sequence[E], share: float) -> tuple[Sequence[E], list[E], str]:
        """The last examples, at most `most_held_out`."""
        cut = len(examples) - min(self.most_held_out, max(1, round(share * len(examples))))
        return examples[:cut], list(examples[cut:]), ""

    def lengths(self, examples: Sequence[E], codecs: C) -> NDArray[np.int64]:
        """Examples are of one length, unless a task says otherwise."""
        return np.ones(len(examples), np.int64)

    def targets(self, examples: Sequence[E], codecs: C) -> int:
        return len(examples)

    def cut(self, chunks: Iterable[str], codecs: C, *, pretokenised: bool = False) -> Iterator[tuple[int, str, E]]:
        """The examples that the lines of a text name (`spelled`), each with the number of its line and its name."""
        for number, line in enumerate(lines_of(chunks), start=1):
            for one in self.spelled(line) if line.strip() else ():
                example = self.prepare(one, codecs)
                yield number, line.strip() if isinstance(one, str) else example.name, example

    def questions(self, files: Sequence[Path]) -> Sequence[E]:
        """What files ask about: their examples; answers that stand in them are passed over."""
        return self.read(files)

    def ask(self, files: Sequence[Path], codecs: C) -> Iterator[tuple[int, str, E]]:
        for number, example in enumerate(self.questions(files), start=1):
            yield number, example.name, self.prepare(example, codecs)


class PixelCodecs(LabelCodecs):
    """What numbers pictures and their labels."""

    pictures: PictureCodec


PC = TypeVar("PC", bound=PixelCodecs)


class LabelledPictures(
    VisionTask[S, LabelledPicture, X, N, str, PC], LabelTask[S, LabelledPicture, X, N, PC], Generic[S, X, N, PC]
):
    """What tasks have in common that give pictures a label."""

    kind = "pictures"
    unit = "picture"
    file_kind: ClassVar[FileKind] = labelled.LABELLED_FILES
    most_held_out: ClassVar[int] = labelled.MOST_HELD_OUT

    def part(self, given: Parts, part: str) -> Files | None:
        """The pictures of a part, and the file of their labels where there is one."""
        return labelled.part_of_pictures(given, part)

    def read(self, files: Sequence[Path]) -> list[LabelledPicture]:
        """Pictures with labels; with the pictures beside them, where the files are tables of labels alone."""
        every = with_pictures(files)
        if not any(map(holds_pictures, every)):
            raise EmptyCorpusError(
                f"{', '.join(map(str, files))}: no pictures there or beside it; expected idx files, LABEL/name.png in "
                "folders, an .npz with pixels and labels, or a table of labels beside its pictures"
            )
        return list(labelled.read_labelled_pictures(every))

    def hold_out(
        self, examples: Sequence[LabelledPicture], share: float
    ) -> tuple[list[LabelledPicture], list[LabelledPicture], str]:
        """The last pictures, at most 5,000; else, as in folders by label, the last of each label, of each its share."""
        learned, last, how = super().hold_out(examples, share)
        if {one.label for one in examples} == {one.label for one in last}:
            return list(learned), last, how
        return hold_out_by_label(examples, len(last) / len(examples))

    def check(self, examples: Sequence[LabelledPicture], codecs: PC, name: str) -> None:
        """Decode all pictures, so that a damaged one is an error now."""
        require_known_labels(self.unit, ((one.name, one.label) for one in examples), codecs["labels"].forms, name)
        codecs["pictures"].keep([one.picture for one in examples])

    def example(self, given: object) -> LabelledPicture:
        """A path, an array of pixels or features, a PIL image; or a `LabelledPicture`, whose label is ignored."""
        return LabelledPicture(given.picture if isinstance(given, LabelledPicture) else picture_of(given))

    def questions(self, files: Sequence[Path]) -> list[LabelledPicture]:
        """The pictures of files; labels that stand in them are passed over."""
        return list(map(LabelledPicture, labelled.asked_pictures_of(files)))

    def beside(self, learned: Sequence[LabelledPicture], asked: Sequence[LabelledPicture]) -> Rows:
        """The label of the nearest training picture, and the most frequent one."""
        return picture_rows(learned, asked)


class ClipQuestion(Clip):
    """A clip that is asked about: it has no labels, and what comes after it is not known."""


class FrameCodecs(TypedDict):
    """What a run keeps of its clips."""

    clips: ClipCodec


CC = TypeVar("CC", bound=FrameCodecs)


class ClipTask(VisionTask[S, Clip, X, N, A, CC], Generic[S, X, N, A, CC]):
    """Examples are clips; questions are clips too, whose labels are ignored."""

    kind = "clips"
    unit = "clip"
    typed = "clip.npz"
    file_kind: ClassVar[FileKind] = CLIP_FILES
    usual_steps: ClassVar[int]
    """Of a training whose length is not asked for, at most."""

    def read(self, files: Sequence[Path]) -> Sequence[Clip]:
        return read_example_clips(files)

    def codec_notes(self, codecs: CC) -> list[str]:
        return [codecs["clips"].describe()]

    def budget(self, training: TrainingSettings, examples: int) -> TrainingSettings:
        """Some epochs, but at most `usual_steps`, where nothing is asked for: clips made by rule are many."""
        return training.lasting(examples, _EPOCHS, most_steps=self.usual_steps)

    def example(self, given: object) -> Clip:
        """A file or a folder of pictures with one clip, an array [T, H, W], or a `Clip`, whose labels are ignored."""
        if isinstance(given, str) and not given.strip():
            raise OptionError(
                "the clip is an empty text; expected the path of a clip (.npz, .npy, a folder of pictures)"
            )
        clip = clip_of(given)
        return ClipQuestion(clip.source, clip.row, (), clip.name)

    def prepare(self, given: object, codecs: CC) -> Clip:
        clip = self.example(given)
        codecs["clips"].check([clip], clip.source.name)
        return clip

    def spelled(self, text: str) -> Sequence[object]:
        """The clips of a file or folder, where it has several; else the path itself."""
        files = find_files(text.strip(), CLIP_FILES)
        clips = read_example_clips(files) if files else ()
        return clips if len(clips) > 1 else [text]
