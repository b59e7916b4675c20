"""The task `video`: the labels of a clip, such as which digit moves in it and where it goes.

A clip has one label or several, a column each, and every column has a softmax of its own. Where clips have no labels,
`--task video` leads to `next-frames`. Shapes: B clips, T frames, H rows, W columns, L labels of a column, C columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.data.files import AnySource
from thereafter.data.finding import FileKind
from thereafter.evaluation.several_labels import SeveralLabels, measure_labels
from thereafter.images.clip_codec import ClipCodec, clip_shapes
from thereafter.images.clips import CLIP_FILES, Clip
from thereafter.models.clip_classifier import ClipBatch, ClipClassifier, ClipClassifierSettings
from thereafter.tasks.clip_answers import ClipExplained, ClipLabels, ClipPrediction
from thereafter.tasks.clip_examples import (
    asked_clip,
    clip_budget,
    cut_clips,
    hold_out_clips,
    label_columns,
    read_example_clips,
    require_known_columns,
    source_has_labels,
    spelled_clips,
)
from thereafter.tasks.column_lexicons import ColumnLexicons
from thereafter.tasks.shown import Fields, Shown
from thereafter.tasks.task import Task
from thereafter.training.settings import TrainingSettings

_STEPS = 4_000  # of a training whose length is not asked for


class ClipCodecs(TypedDict):
    """What numbers the parts of an example."""

    clips: ClipCodec
    labels: ColumnLexicons


class Video(Task[ClipClassifierSettings, Clip, ClipBatch, ClipClassifier, ClipLabels, ClipCodecs]):
    """See `task.Task`."""

    name = "video"
    kind = "clips"
    settings = ClipClassifierSettings
    defaults: ClassVar[Mapping[str, object]] = {"batch": 16, "rate": 2e-3, "steps": 1024}
    file_kind: ClassVar[FileKind] = CLIP_FILES
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "frame")}
    asks_files = True

    def name_for(self, source: AnySource) -> str:
        """Clips without labels are for another task: what can be learned from them is what comes next."""
        return self.name if source_has_labels(source) else "next-frames"

    def read(self, files: Sequence[Path]) -> Sequence[Clip]:
        return read_example_clips(files)

    def hold_out(self, examples: Sequence[Clip], share: float) -> tuple[list[Clip], list[Clip], str]:
        """The last clips of every combination of labels: a sorted file has all of them on both sides."""
        return hold_out_clips(examples, share)

    def codecs(self, examples: Sequence[Clip]) -> ClipCodecs:
        columns = label_columns(examples, "the training")
        return {"clips": ClipCodec.fit(examples), "labels": ColumnLexicons.fit(columns)}

    def codec_notes(self, codecs: ClipCodecs) -> list[str]:
        return [codecs["clips"].describe()]

    def check(self, examples: Sequence[Clip], codecs: ClipCodecs, name: str) -> None:
        codecs["clips"].check(examples, name)
        require_known_columns(examples, codecs["labels"].forms, name)

    def build(self, settings: ClipClassifierSettings, codecs: ClipCodecs) -> ClipClassifier:
        clips = codecs["clips"]
        return ClipClassifier(settings, height=clips.height, width=clips.width, labels=codecs["labels"].counts)

    def budget(self, training: TrainingSettings, examples: int) -> TrainingSettings:
        return clip_budget(training, examples, _STEPS)

    def lengths(self, examples: Sequence[Clip], codecs: ClipCodecs) -> NDArray[np.int64]:
        return np.array([frames for frames, _, _ in clip_shapes(examples)], np.int64)

    def targets(self, examples: Sequence[Clip], codecs: ClipCodecs) -> int:
        return len(examples) * len(codecs["labels"].names)

    def batch(self, examples: Sequence[Clip], codecs: ClipCodecs) -> ClipBatch:
        frames_BTHW, lengths_B = codecs["clips"].batch(examples), self.lengths(examples, codecs)
        labels_BC = None
        if all(one.labels for one in examples):
            labels_BC = torch.from_numpy(codecs["labels"].encode_rows([dict(one.labels) for one in examples]))
        return ClipBatch(torch.from_numpy(frames_BTHW), torch.from_numpy(lengths_B), labels_BC)

    def answers(self, net: ClipClassifier, batch: ClipBatch, codecs: ClipCodecs) -> list[ClipLabels]:
        return _labelled(net.decide(batch), codecs["labels"].forms)

    def tabulate(
        self,
        net: ClipClassifier,
        batch: ClipBatch,
        texts: Sequence[str],
        examples: Sequence[Clip],
        codecs: ClipCodecs,
        options: Mapping[str, object],
    ) -> list[ClipPrediction]:
        """The labels of every clip."""
        return [ClipPrediction(*pair) for pair in zip(texts, self.answers(net, batch, codecs), strict=True)]

    def choices(self, codecs: ClipCodecs) -> list[str]:
        return [label for labels in codecs["labels"].forms.values() for label in labels]

    def explain_probabilities(self, net: ClipClassifier) -> str:
        return "probabilities are those of a softmax over the labels of each column"

    def explain(
        self, net: ClipClassifier, batch: ClipBatch, examples: Sequence[Clip], codecs: ClipCodecs
    ) -> list[ClipExplained]:
        """The labels of every clip, and what was believed after each frame."""
        forms = codecs["labels"].forms
        names = {name: tuple(labels) for name, labels in forms.items()}
        beliefs = [belief_BTL.float().cpu().numpy() for belief_BTL in net.beliefs(batch)]
        explained = []
        for row, (one, answer) in enumerate(zip(examples, self.answers(net, batch, codecs), strict=True)):
            frames_THW = one.read()
            own = [belief_BTL[row, : len(frames_THW)] for belief_BTL in beliefs]
            explained.append(ClipExplained(answer, names, dict(zip(names, own, strict=True)), frames_THW))
        return explained

    def shown(self, net: ClipClassifier, batch: ClipBatch, example: Clip, codecs: ClipCodecs) -> Shown:
        (explained,) = self.explain(net, batch, [example], codecs)
        fields: Fields = {"frames": (("frame", "row", "column"), explained.frames_THW)}
        for name, belief_TL in explained.beliefs.items():
            fields[f"belief.{name}"] = (("frame", name), belief_TL)
        about = {"answer": str(explained.answer), "labels": {name: list(one) for name, one in explained.names.items()}}
        return Shown([str(frame + 1) for frame in range(len(explained.frames_THW))], [], fields, about)

    def example(self, given: object) -> Clip:
        """A file or a folder of pictures with one clip, an array [T, H, W], or a `Clip`, whose labels are ignored."""
        return asked_clip(given)

    def spelled(self, text: str) -> Sequence[object]:
        return spelled_clips(text)

    def prepare(self, given: object, codecs: ClipCodecs) -> Clip:
        clip = self.example(given)
        codecs["clips"].check([clip], clip.source.name)
        return clip

    def cut(
        self, chunks: Iterable[str], codecs: ClipCodecs, *, pretokenised: bool = False
    ) -> Iterator[tuple[int, str, Clip]]:
        for number, name, one in cut_clips(chunks):
            yield number, name, self.prepare(one, codecs)

    def ask(self, files: Sequence[Path], codecs: ClipCodecs) -> Iterator[tuple[int, str, Clip]]:
        """The clips of files; labels that stand in them are passed over."""
        for number, one in enumerate(read_example_clips(files), start=1):
            yield number, one.name, self.prepare(one, codecs)

    def measure(self, examples: Sequence[Clip], answers: Sequence[ClipLabels], codecs: ClipCodecs) -> SeveralLabels:
        gold = [dict(one.labels) for one in examples]
        return measure_labels(gold, [one.labels for one in answers], codecs["labels"].forms)


def _labelled(chances: Sequence[Tensor], forms: Mapping[str, Sequence[str]]) -> list[ClipLabels]:
    """The answers of a batch, from the probabilities [B, L] of each column."""
    columns = {name: p_BL.float().cpu().tolist() for name, p_BL in zip(forms, chances, strict=True)}
    answers = []
    for row in range(len(chances[0])):
        spread = {name: dict(zip(forms[name], rows[row], strict=True)) for name, rows in columns.items()}
        answers.append(ClipLabels({name: max(known, key=known.__getitem__) for name, known in spread.items()}, spread))
    return answers


VIDEO = Video()
