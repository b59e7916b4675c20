"""What the tasks over pictures, clips and games have in common: how examples are read, asked about and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Generic, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind, find_files
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.tasks import task as contract
from thereafter.tasks.labelling import LabelCodecs, LabelTask
from thereafter.tasks.task import A, C, E, N, S, X
from thereafter.text.reading import lines_of
from thereafter.training.settings import TrainingSettings
from thereafter.vision.baselines import Rows, picture_rows
from thereafter.vision.clips.clip import ClipCodec
from thereafter.vision.clips.reading import CLIP_FILES, Clip, clip_of, read_example_clips
from thereafter.vision.pictures import labelled_pictures as labelled
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.sources import holds_pictures, picture_of, with_pictures

_EPOCHS = 20  # of a training over clips whose length is not asked for


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

    def lengths(self, examples: Sequence[E], codecs: C) -> NDArray[np.int64]:
        """Examples are of one length, unless a task says otherwise."""
        return np.ones(len(examples), np.int64)

    def targets(self, examples: Sequence[E], codecs: C) -> int:
        return len(examples)


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
        labels = [one.label for one in examples]
        count = min(labelled.MOST_HELD_OUT, max(1, round(share * len(examples))))
        if set(labels) == set(labels[-count:]):
            return list(examples[:-count]), list(examples[-count:]), ""
        last = labelled.last_of_each(labels, count / len(examples))
        if not last:  # a few of each label: at least one is held out, of the most frequent
            ((frequent, _),) = Counter(labels).most_common(1)
            last = {max(at for at, label in enumerate(labels) if label == frequent)}
        return *labelled.split_at(examples, last), ", of each label its share,"

    def check(self, examples: Sequence[LabelledPicture], codecs: PC, name: str) -> None:
        """Decode all pictures, so that a damaged one is an error now."""
        labelled.require_known_picture_labels(examples, codecs["labels"].forms, name)
        codecs["pictures"].keep([one.picture for one in examples])

    def example(self, given: object) -> LabelledPicture:
        """A path, an array of pixels or features, a PIL image; or a `LabelledPicture`, whose label is ignored."""
        return LabelledPicture(given.picture if isinstance(given, LabelledPicture) else picture_of(given))

    def ask(self, files: Sequence[Path], codecs: PC) -> Iterator[tuple[int, str, LabelledPicture]]:
        """The pictures of files; labels that stand in them are passed over."""
        for number, picture in enumerate(labelled.asked_pictures_of(files), start=1):
            yield number, picture.name, LabelledPicture(picture)

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
    file_kind: ClassVar[FileKind] = CLIP_FILES
    usual_steps: ClassVar[int]
    """Of a training whose length is not asked for, at most."""

    def read(self, files: Sequence[Path]) -> Sequence[Clip]:
        return read_example_clips(files)

    def codec_notes(self, codecs: CC) -> list[str]:
        return [codecs["clips"].describe()]

    def budget(self, training: TrainingSettings, examples: int) -> TrainingSettings:
        """Some epochs, but at most `usual_steps`, where nothing is asked for: clips made by rule are many."""
        if (training.epochs, training.tokens_budget, training.minutes) != (None, None, None):
            return training
        batches = max(1, -(-examples // int(training.batch or 1)))
        epochs = min(float(_EPOCHS), self.usual_steps / batches)
        every = training.validate_every or max(1, min(batches, round(epochs * batches / _EPOCHS)))
        return replace(training, epochs=epochs, validate_every=every)

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

    def cut(self, chunks: Iterable[str], codecs: CC, *, pretokenised: bool = False) -> Iterator[tuple[int, str, Clip]]:
        """The clips that the lines of a text name, each with the number of its line and its name."""
        for number, line in enumerate(lines_of(chunks), start=1):
            for one in self.spelled(line) if line.strip() else ():
                name = one.name if isinstance(one, Clip) else line.strip()
                yield number, name, self.prepare(one, codecs)

    def ask(self, files: Sequence[Path], codecs: CC) -> Iterator[tuple[int, str, Clip]]:
        """The clips of files; labels that stand in them are passed over."""
        for number, one in enumerate(read_example_clips(files), start=1):
            yield number, one.name, self.prepare(one, codecs)
