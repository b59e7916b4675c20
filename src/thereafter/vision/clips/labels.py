"""The task `video`: the labels of a clip, such as which digit moves in it and where it goes.

A clip has one label or several, a column each. Where clips have no labels, `--task video` leads to `next-frames`.
Convolutions read each frame, recurrent layers read frame after frame:

    e_t = relu(W_e flat(convolutions(frame_t)) + b)        or the map itself, where the cell is a convolutional LSTM
    h_t = cell(e_t, h_{t-1})
    p_c(label | frames 1 to t) = softmax(W_c h_t + b_c)    for every column c of labels

The answer is the belief after the last frame. While training the loss of a clip is the mean over its frames
(`learn="every"`), so that beliefs are meant at every frame, or that of the last alone. What is measured is the last.

Shapes: B clips, T frames, H rows of pixels, W columns, C columns of labels, L labels of one, U features of a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter import figures
from thereafter.base.config import Table
from thereafter.base.tabular import Row
from thereafter.data.corpora import is_read_once, locate_source
from thereafter.data.files import AnySource
from thereafter.errors import FormatError, OptionError, ThereafterError
from thereafter.inspection.measurement import DrawnFigure
from thereafter.inspection.trace import Trace
from thereafter.layers.recurrent import Recurrent
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.models.task_net import TaskNet
from thereafter.series.forecasters.settings import cells
from thereafter.tasks.answers import Fields, Shown, percent
from thereafter.tasks.batching import FillableBatch
from thereafter.tasks.graphs import Ungraphed
from thereafter.tasks.labelling import ResampledLabels, SeveralLabels, last_of_each, measure_labels, split_at
from thereafter.tasks.lexicon import ColumnLexicons
from thereafter.tasks.task import Picturing, Stacking
from thereafter.vision.clips.clip import ClipCodec, clip_shapes
from thereafter.vision.clips.reading import CLIP_FILES, Clip, Clips, read_clips
from thereafter.vision.encoder import FrameEncoder, as_floats
from thereafter.vision.pictures.archives import npz_arrays
from thereafter.vision.task import ClipTask, FrameCodecs

CONV_LSTM = "conv-lstm"
SEES = ("all", "last")
LEARN = ("every", "last")


def clip_cells() -> dict[str, str]:
    """What can read the frames of a clip one after the other, each with the name of its cell."""
    return cells() | {CONV_LSTM: "conv_lstm"}


@dataclass(frozen=True)
class ClipClassifierSettings:
    """Sizes of a classifier of clips, and what it sees and learns from."""

    cell: str = "lstm"
    """The kind of its recurrent layers: `clip_cells()`. The memory of conv-lstm is a map."""
    hidden: int = 96
    """Units a layer; of conv-lstm, channels."""
    layers: int = 1
    """Recurrent layers, one over the other."""
    width: int = 12
    """Channels of the first convolutions."""
    stages: int = 0
    """How often convolutions halve the frames (0: until about 4 x 4 places are left)."""
    kernel: int = 3
    """Places on the side of the kernel of conv-lstm."""
    dropout: float = 0.1
    """The share of what each layer and the heads read that is dropped while training."""
    sees: str = "all"
    """What a belief is about: "all" frames so far, or the "last" alone."""
    learn: str = "every"
    """Which beliefs are learned from: those after "every" frame, or the "last" alone."""

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, tuple(clip_cells()))
        check_choice("sees", self.sees, SEES)
        check_choice("learn", self.learn, LEARN)
        for name in ("hidden", "layers", "width", "kernel"):
            check_size(name, vars(self)[name])
        if not 0 <= self.stages <= 8:
            raise OptionError(f"stages is {self.stages}; expected 1 to 8, or 0 to choose it")
        if self.kernel % 2 == 0:
            raise OptionError(f"kernel is {self.kernel}; expected an odd number, such as 3 or 5")
        check_share("dropout", self.dropout)


@dataclass(frozen=True)
class ClipBatch(FillableBatch):
    """Frames as bytes, black beyond a clip's end; `labels_BC` is None where they are asked for."""

    frames_BTHW: Tensor
    lengths_B: Tensor
    labels_BC: Tensor | None = None

    def __len__(self) -> int:
        return len(self.frames_BTHW)


class ClipClassifier(Ungraphed, TaskNet[ClipBatch]):
    """See the module's equations. `labels`: how many each column has."""

    no_graph = "its frames go through convolutions that no graph is written of; try torch.export on net"

    def __init__(self, settings: ClipClassifierSettings, *, height: int, width: int, labels: Sequence[int]) -> None:
        super().__init__()
        if not labels or min(labels) < 2:
            raise OptionError(
                f"the columns have {', '.join(map(str, labels)) or 'no'} labels; expected at least 2 in each"
            )
        self.settings = settings
        self.frames = FrameEncoder(height, width, channels=settings.width, stages=settings.stages)
        channels, rows, columns = self.frames.shape
        places = rows * columns
        self.squeeze: nn.Linear | None = None
        units, inputs, options = settings.hidden, settings.hidden, {}
        if settings.cell == CONV_LSTM:
            units, inputs = settings.hidden * places, channels * places
            options = {"height": rows, "width": columns, "kernel_size": settings.kernel}
        else:
            self.squeeze = nn.Linear(channels * places, inputs)
        cell, dropout = clip_cells()[settings.cell], settings.dropout if settings.layers > 1 else 0.0
        self.reader = Recurrent(
            cell, inputs, units, settings.layers, batch_first=True, dropout=dropout, cell_options=options
        )
        self.heads = nn.ModuleList(nn.Linear(units, count) for count in labels)

    def nats(self, batch: ClipBatch) -> Tensor:
        if batch.labels_BC is None:
            raise OptionError("a batch without labels has no loss; expected labels")
        steps, lengths_B = batch.frames_BTHW.shape[1], batch.lengths_B
        time_T = torch.arange(steps)
        share_BT = (time_T == lengths_B[:, None] - 1).float()
        if self.training and self.settings.learn == "every":
            share_BT = (time_T < lengths_B[:, None]) / lengths_B[:, None].float()
        share_BT = share_BT.to(batch.frames_BTHW.device)
        total = share_BT.new_zeros(())
        for column, z_BTL in enumerate(self.scores(batch)):
            labels_BT = batch.labels_BC[:, column, None].expand(-1, steps)
            nats_BT = F.cross_entropy(z_BTL.float().transpose(1, 2), labels_BT, reduction="none")
            total = total + (share_BT * nats_BT).sum()
        return total

    def scores(self, batch: ClipBatch) -> list[Tensor]:
        """The score of every label after every frame, [B, T, L] for each column."""
        features_BTU = F.dropout(self._features(batch), self.settings.dropout, self.training)
        return [head(features_BTU) for head in self.heads]

    def _features(self, batch: ClipBatch) -> Tensor:
        """h of every frame."""
        rows, steps = batch.frames_BTHW.shape[:2]
        like = next(self.parameters())
        maps = self.frames(as_floats(batch.frames_BTHW, like).flatten(0, 1))
        if self.squeeze is None:
            x_BTI = maps.reshape(rows, steps, -1)
        else:
            x_BTI = torch.relu(self.squeeze(maps.flatten(1))).view(rows, steps, -1)
        x_BTI = F.dropout(x_BTI, self.settings.dropout, self.training)
        ragged = bool((batch.lengths_B < steps).any())
        alone_BT = None
        if self.settings.sees == "last":
            alone_BT = torch.ones(rows, steps, dtype=torch.bool, device=x_BTI.device)  # nothing is remembered
        h_BTU: Tensor = self.reader(x_BTI, lengths=batch.lengths_B if ragged else None, reset=alone_BT)[0]
        return h_BTU

    def beliefs(self, batch: ClipBatch) -> list[Tensor]:
        """The probability of every label after every frame, [B, T, L] for each column; beyond a clip's end that of its
        last frame."""
        with self.quietly():
            time_BT = torch.arange(batch.frames_BTHW.shape[1]).minimum(batch.lengths_B[:, None] - 1)
            at_BT1 = time_BT.unsqueeze(-1).to(batch.frames_BTHW.device)
            return [z.float().gather(1, at_BT1.expand(-1, -1, z.shape[2])).softmax(-1) for z in self.scores(batch)]

    def decide(self, batch: ClipBatch) -> list[Tensor]:
        """The probability of every label of each column, [B, L]: the belief after the last frame."""
        return [belief_BTL[:, -1] for belief_BTL in self.beliefs(batch)]


Chances = Mapping[str, Mapping[str, float]]
"""The probability of every label, by column."""


@dataclass(frozen=True)
class ClipLabels:
    """The label of a clip in each column, and the probability of every label."""

    labels: dict[str, str]
    probabilities: Chances

    def __str__(self) -> str:
        parts = [f"{name} {label} ({percent(self.probabilities[name][label])})" for name, label in self.labels.items()]
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
        named = self.beliefs.items()
        frames = [
            {name: dict(zip(self.names[name], belief_TL[frame].tolist(), strict=True)) for name, belief_TL in named}
            for frame in range(len(self.frames_THW))
        ]
        return {"labels": self.answer.labels, "probabilities": self.answer.probabilities, "frames": frames}

    def __str__(self) -> str:
        lines = [str(self.answer)]
        for frame in range(len(self.frames_THW)):
            best = {name: self.best(name, frame) for name in self.beliefs}
            wide = {name: max(map(len, labels)) for name, labels in self.names.items()}
            parts = [f"{name} {label:<{wide[name]}} {percent(p):>7}" for name, (label, p) in best.items()]
            lines.append(f"  frame {frame + 1:>3}  {'  '.join(parts)}")
        return "\n".join(lines)


class ClipCodecs(FrameCodecs):
    """What numbers the parts of an example."""

    labels: ColumnLexicons


class Video(
    Picturing[ClipClassifier],
    Stacking,
    ClipTask[ClipClassifierSettings, ClipBatch, ClipClassifier, ClipLabels, ClipCodecs],
):
    """See `task.Task`."""

    name = "video"
    settings = ClipClassifierSettings
    defaults: ClassVar[Mapping[str, object]] = {"batch": 16, "rate": 2e-3, "steps": 1024}
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "frame")}
    stacks_explained = True
    usual_steps = 4_000

    def name_for(self, source: AnySource) -> str | None:
        """Clips without labels are for another task: what can be learned from them is what comes next."""
        return None if source_has_labels(source) else "next-frames"

    def hold_out(self, examples: Sequence[Clip], share: float) -> tuple[list[Clip], list[Clip], str]:
        """The first and the last clips, the last of every combination of labels, so that a file that is sorted has all
        of them on both sides; and how they were chosen. Where combinations are rare, the last clips without which every
        label still occurs."""
        last, how = last_of_each([one.labels for one in examples], share), ", of each label its share,"
        if len(last) < share * len(examples) / 2:
            last, how = _spared(examples, max(1, round(share * len(examples)))), ", without the only one of a label,"
        return *split_at(examples, last), how

    def codecs(self, examples: Sequence[Clip]) -> ClipCodecs:
        columns = label_columns(examples, "the training")
        return {"clips": ClipCodec.fit(examples), "labels": ColumnLexicons.fit(columns)}

    def check(self, examples: Sequence[Clip], codecs: ClipCodecs, name: str) -> None:
        codecs["clips"].check(examples, name)
        require_known_columns(examples, codecs["labels"].forms, name)

    def build(self, settings: ClipClassifierSettings, codecs: ClipCodecs) -> ClipClassifier:
        clips = codecs["clips"]
        return ClipClassifier(settings, height=clips.height, width=clips.width, labels=codecs["labels"].counts)

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

    def columns(self, answer: ClipLabels) -> list[Row]:
        return [answer.row()]

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

    def figure(
        self, net: ClipClassifier, explained: object, given: object, name: str, trace: Callable[[object], Trace]
    ) -> DrawnFigure:
        """The probability of every label after each frame."""
        truth = dict(given.labels) if isinstance(given, Clip) else {}
        assert isinstance(explained, ClipExplained)
        measured = figures.measured_belief(explained, model="the network", text=name, truth=truth)
        return figures.belief_by_frame(measured)

    def stack(self, answers: Iterable[object]) -> dict[str, NDArray[np.generic]]:
        """`belief.COLUMN` [N, T, L] after every frame, NaN beyond the end of a clip, and `labels.COLUMN` [L]."""
        explained = [one for one in answers if isinstance(one, ClipExplained)]
        most = max(len(one.frames_THW) for one in explained)
        arrays: dict[str, NDArray[np.generic]] = {}
        for column, labels in explained[0].names.items():
            belief_NTL = np.full((len(explained), most, len(labels)), np.nan, np.float32)
            for row, one in enumerate(explained):
                belief_NTL[row, : len(one.frames_THW)] = one.beliefs[column]
            arrays |= {f"belief.{column}": belief_NTL, f"labels.{column}": np.array(labels, dtype=str)}
        return arrays

    def shown(self, net: ClipClassifier, batch: ClipBatch, example: Clip, codecs: ClipCodecs) -> Shown:
        (explained,) = self.explain(net, batch, [example], codecs)
        fields: Fields = {"frames": (("frame", "row", "column"), explained.frames_THW)}
        for name, belief_TL in explained.beliefs.items():
            fields[f"belief.{name}"] = (("frame", name), belief_TL)
        about = {"answer": str(explained.answer), "labels": {name: list(one) for name, one in explained.names.items()}}
        return Shown([str(frame + 1) for frame in range(len(explained.frames_THW))], [], fields, about)

    def measure(self, examples: Sequence[Clip], answers: Sequence[ClipLabels], codecs: ClipCodecs) -> SeveralLabels:
        gold = [dict(one.labels) for one in examples]
        return measure_labels(gold, [one.labels for one in answers], codecs["labels"].forms)

    def resampled(self, examples: Sequence[Clip], answers: Sequence[ClipLabels], codecs: ClipCodecs) -> ResampledLabels:
        gold = [dict(one.labels) for one in examples]
        return ResampledLabels.of(gold, [one.labels for one in answers], codecs["labels"].names)

    def beside(self, learned: Sequence[Clip], asked: Sequence[Clip]) -> Mapping[str, Callable[[], list[ClipLabels]]]:
        return {"most frequent labels": lambda: [_frequent_labels(learned)] * len(asked)}

    def variants(self, learned: Sequence[Clip]) -> Mapping[str, Mapping[str, object]]:
        """The same network that sees the last frame alone."""
        return {"last frame alone": {"sees": "last"}}


def source_has_labels(source: AnySource) -> bool:
    """Whether the clips of a source have labels; True where that cannot be known yet."""
    try:
        if is_read_once(source):
            return True
        given = locate_source(source, CLIP_FILES)
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


def _labelled(chances: Sequence[Tensor], forms: Mapping[str, Sequence[str]]) -> list[ClipLabels]:
    """The answers of a batch, from the probabilities [B, L] of each column."""
    columns = {name: p_BL.float().cpu().tolist() for name, p_BL in zip(forms, chances, strict=True)}
    answers = []
    for row in range(len(chances[0])):
        spread = {name: dict(zip(forms[name], rows[row], strict=True)) for name, rows in columns.items()}
        answers.append(ClipLabels({name: max(known, key=known.__getitem__) for name, known in spread.items()}, spread))
    return answers


def _frequent_labels(learned: Sequence[Clip]) -> ClipLabels:
    """The answer that is right most often; equal counts are decided by the spelling."""
    spread = {}
    for name, labels in label_columns(learned, "the training").items():
        counts = Counter(labels)
        ranked = sorted(counts, key=lambda label: (-counts[label], label))
        spread[name] = {label: counts[label] / len(labels) for label in ranked}
    return ClipLabels({name: next(iter(shares)) for name, shares in spread.items()}, spread)


VIDEO = Video()
