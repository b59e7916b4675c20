"""The task `next-frames`: what comes after the frames of a clip, pixel by pixel.

The first `read` frames of a clip are read and the next `ahead` are predicted, each pixel with the chance that it is
lit; the measure is nats a frame (`vision/measures.py`). `--task video` leads here where clips have no labels.

An encoder reads the frames of a clip, a forecaster continues from its states.

    x_t      = patches of frame t, p x p pixels each: p p channels on H/p x W/p places
    encoder:      s_t  = cell(x_t, s_{t-1})                              t = 1 ... T, frames that are read
    forecaster:   s'_k = cell'(x'_k, s'_{k-1}),  s'_0 = s_T              k = 1 ... K, frames that are predicted
    p_k      = sigmoid(W h'_k + b), patch by patch: the chance that a pixel is lit

The states of every layer are copied from encoder to forecaster (Srivastava, Mansimov and Salakhutdinov 2015; Shi et al.
2015). x'_k is the last frame that was read, or with `feedback` the frame p_{k-1} that was predicted before. Layers
above the first are joined by residual connections. `model="conv-lstm"`: states are maps and W is a convolution of
1 x 1; `model="lstm"`: frames are flat and everything is dense.

The loss of a frame is its Bernoulli cross-entropy in nats, -sum x log p + (1 - x) log(1 - p) over pixels, where x is
the intensity 0 to 1.

Shapes: B clips, T frames that are read, K frames ahead, H rows of pixels, W columns, I numbers of a frame's patches.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter import figures
from thereafter.base.config import Table
from thereafter.base.storage import replacing
from thereafter.base.tabular import Row
from thereafter.cells.options import OptionValue
from thereafter.errors import FormatError, OptionError
from thereafter.evaluation.bootstrap import ResampledMeans
from thereafter.inspection.measurement import DrawnFigure
from thereafter.inspection.trace import Trace
from thereafter.layers.recurrent import Recurrent
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.models.task_net import TaskNet
from thereafter.tasks.answers import Fields, Shown
from thereafter.tasks.batching import TensorBatch
from thereafter.tasks.graphs import Ungraphed
from thereafter.tasks.task import Answering, Picturing, Solving, Stacking
from thereafter.vision.clips.clip import MOST, ClipCodec, clip_shapes
from thereafter.vision.clips.reading import Clip, lengths_of
from thereafter.vision.encoder import as_floats, from_patches, to_patches
from thereafter.vision.measures import CopyCounts, FrameScore, resampled_frames, score_frames
from thereafter.vision.rules import Floats, Integers, Pixels
from thereafter.vision.task import ClipQuestion, ClipTask, FrameCodecs

CONV_LSTM, DENSE, COPY = "conv-lstm", "lstm", "copy"
FRAME_MODELS = (CONV_LSTM, DENSE, COPY)
_DARK = -3.0  # the first bias of a pixel: most are black
_MOST_UNITS = 1 << 15


@dataclass(frozen=True)
class FramePredictorSettings:
    """Sizes of a network that predicts frames, and how many it reads and predicts."""

    model: str = CONV_LSTM
    """The kind of network: "conv-lstm", dense "lstm", or "copy", which shows the last frame again."""
    hidden: int = 16
    """Channels of the convolutional LSTM."""
    layers: int = 1
    """Layers, one over the other."""
    kernel: int = 5
    """Places on the side of the kernel of the convolutional LSTM."""
    peephole: bool = False
    """Whether the gates of the convolutional LSTM see its memory."""
    patch: int = 4
    """Pixels on the side of a place."""
    units: int = 0
    """Units of the dense LSTM (0: as many as give it the parameters of the convolutional one)."""
    feedback: bool = False
    """Whether every predicted frame is read before the next is predicted."""
    dropout: float = 0.0
    """The share of what is between layers that is dropped while training."""
    read: int = 0
    """Frames of a clip that are read (0: half of them)."""
    ahead: int = 0
    """Frames that are predicted (0: the others)."""

    def __post_init__(self) -> None:
        check_choice("model", self.model, FRAME_MODELS)
        for name in ("hidden", "layers", "kernel", "patch"):
            check_size(name, vars(self)[name])
        for name in ("units", "read", "ahead"):
            if vars(self)[name] < 0:
                raise OptionError(f"{name} is {vars(self)[name]}; expected 1 or more, or 0 to choose it")
        if self.kernel % 2 == 0:
            raise OptionError(f"kernel is {self.kernel}; expected an odd number, such as 3 or 5")
        check_share("dropout", self.dropout)


@dataclass(frozen=True)
class FrameBatch(TensorBatch):
    """Frames that are read and those that come after them, as bytes; `future_BKHW` is None where it is asked for."""

    read_BTHW: Tensor
    future_BKHW: Tensor | None = None


class FrameNet(TaskNet[FrameBatch]):
    """A network that predicts frames, `ahead` of them where a batch does not say how many."""

    ahead: int

    @abstractmethod
    def frames_ahead(self, batch: FrameBatch, ahead: int) -> Tensor:
        """The log odds of every pixel of the next frames, [B, K, H, W]."""

    def logits(self, batch: FrameBatch, ahead: int | None = None) -> Tensor:
        """The same: `ahead` frames, else as many as the batch has."""
        if ahead is None:
            ahead = self.ahead if batch.future_BKHW is None else batch.future_BKHW.shape[1]
        return self.frames_ahead(batch, ahead)

    def nats(self, batch: FrameBatch) -> Tensor:
        return self.nats_by_frame(batch).sum()

    def nats_by_frame(self, batch: FrameBatch) -> Tensor:
        """The nats of every frame that came, [B, K]."""
        if batch.future_BKHW is None:
            raise OptionError("a batch without the frames that came next has no loss; expected them")
        z_BKHW = self.logits(batch).float()
        x_BKHW = as_floats(batch.future_BKHW, z_BKHW)
        return F.binary_cross_entropy_with_logits(z_BKHW, x_BKHW, reduction="none").sum((2, 3))

    def predict_frames(self, batch: FrameBatch, steps: int | None = None) -> Tensor:
        """The chance that each pixel of the next frames is lit, [B, K, H, W]."""
        with self.quietly():
            return self.logits(batch, steps).float().sigmoid()


class FramePredictor(Ungraphed, FrameNet):
    """See the module's equations."""

    no_graph = "it draws frames from frames it has drawn, a loop that no graph is written of"

    def __init__(self, settings: FramePredictorSettings, *, height: int, width: int, ahead: int) -> None:
        super().__init__()
        if settings.model not in (CONV_LSTM, DENSE):
            raise OptionError(f"model is {settings.model!r}, which is no network; expected {CONV_LSTM!r} or {DENSE!r}")
        self.settings, self.height, self.width, self.ahead = settings, height, width, ahead
        channels, rows, columns = settings.patch**2, -(-height // settings.patch), -(-width // settings.patch)
        self.map_shape, numbers = (channels, rows, columns), channels * rows * columns
        self.head: nn.Conv2d | nn.Linear
        options: dict[str, OptionValue] = {}
        if settings.model == CONV_LSTM:
            options |= {"height": rows, "width": columns, "kernel_size": settings.kernel, "peephole": settings.peephole}
            cell, units = "conv_lstm", settings.hidden * rows * columns
            self.head = nn.Conv2d(settings.hidden, channels, 1)
        else:
            cell, units = "lstm", settings.units or equal_units(settings, height=height, width=width)
            self.head = nn.Linear(units, numbers)
        sizes, dropout = (numbers, units, settings.layers), settings.dropout if settings.layers > 1 else 0.0
        self.encoder, self.forecaster = (
            Recurrent(
                cell, *sizes, bias="one", batch_first=True, connect="residual", dropout=dropout, cell_options=options
            )
            for _ in range(2)
        )
        if self.head.bias is not None:
            nn.init.constant_(self.head.bias, _DARK)

    def frames_ahead(self, batch: FrameBatch, ahead: int) -> Tensor:
        x_BTI = self._flat(as_floats(batch.read_BTHW, self.head.weight))
        _, state = self.encoder(x_BTI)
        if not self.settings.feedback:
            h_BKO, _ = self.forecaster(x_BTI[:, -1:].expand(-1, ahead, -1), state)
            return self._pixels(h_BKO)
        frames, read_B1I = [], x_BTI[:, -1:]
        for _ in range(ahead):
            h_B1O, state = self.forecaster(read_B1I, state)
            frames.append(self._pixels(h_B1O))
            read_B1I = self._flat(frames[-1].sigmoid().to(x_BTI.dtype))
        return torch.cat(frames, 1)

    def _flat(self, frames_BTHW: Tensor) -> Tensor:
        """The patches of frames as one axis, [B, T, I]."""
        maps = to_patches(frames_BTHW.flatten(0, 1), self.settings.patch)
        return maps.view(*frames_BTHW.shape[:2], -1)

    def _pixels(self, h_BKO: Tensor) -> Tensor:
        """The log odds of every pixel from what the forecaster made of a frame."""
        flat = h_BKO.flatten(0, 1)
        read = flat.view(len(flat), -1, *self.map_shape[1:]) if isinstance(self.head, nn.Conv2d) else flat
        maps = self.head(read).view(-1, *self.map_shape)
        z_NHW = from_patches(maps, self.settings.patch, self.height, self.width)
        return z_NHW.reshape(*h_BKO.shape[:2], self.height, self.width)


def equal_units(settings: FramePredictorSettings, *, height: int, width: int) -> int:
    """The units of the dense LSTM that has the parameters of the convolutional one, or the next fewer; 1 at least."""

    def parameters(chosen: FramePredictorSettings) -> int:
        with torch.device("meta"):
            return FramePredictor(chosen, height=height, width=width, ahead=1).parameters_count()

    most = parameters(replace(settings, model=CONV_LSTM))
    sizes = range(1, _MOST_UNITS + 1)
    return max(1, bisect_right(sizes, most, key=lambda units: parameters(replace(settings, model=DENSE, units=units))))


_LIT = 0.5 / 255  # fainter pixels are black


@dataclass(frozen=True, eq=False)
class NextFrames:
    """The frames that come next: the chance of each pixel to be lit, [K, H, W]."""

    frames_KHW: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.frames_KHW)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NextFrames) and np.array_equal(self.frames_KHW, other.frames_KHW)

    @property
    def pixels_KHW(self) -> Pixels:
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

    read_THW: Pixels
    came_KHW: Pixels
    predicted: NextFrames
    judged: JudgedFrames

    def as_dict(self) -> Table:
        """Plain JSON values: the figures of each step."""
        judged = zip(self.judged.nats_K, self.judged.errors_K, self.judged.least_K, strict=True)
        names = ("nats", "squared_error", "least")
        rows = zip(self.predicted.rows(), judged, strict=True)
        return {"read": len(self.read_THW), "steps": [row | dict(zip(names, own, strict=True)) for row, own in rows]}

    def __str__(self) -> str:
        ahead = len(self.came_KHW)
        lines = [f"{ahead:,} frame{'s' * (ahead != 1)} predicted from the {len(self.read_THW):,} before them"]
        for step, (nats, error) in enumerate(zip(self.judged.nats_K, self.judged.errors_K, strict=True), start=1):
            lines.append(f"  frame {len(self.read_THW) + step:>3}  {nats:8.1f} nats  squared error {error:7.1f}")
        return "\n".join(lines)


def figures_of(answers: Sequence[object]) -> tuple[Floats, Floats, Floats]:
    """Nats, squared errors and least nats of judged clips, [N, K] each."""
    judged = [one for one in answers if isinstance(one, JudgedFrames)]
    nats_NK, errors_NK, least_NK = (
        np.array(list(rows), np.float64)
        for rows in zip(*((one.nats_K, one.errors_K, one.least_K) for one in judged), strict=True)
    )
    return nats_NK, errors_NK, least_NK


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


# The last frame again: what every predictor of frames has to beat.
#
#     p_k = e_k + (1 - 2 e_k) x_T        e_k the smoothing of step k, solved on the training clips
#
# `vision/measures.py` has the best e_k. Shapes: B clips, T frames that are read, K frames ahead, H rows, W
# columns.


_FIRST = 0.05  # a smoothing before any clip was seen


class FrameCopier(FrameNet):
    """See the module's equation; beyond its last step the smoothing is that of the last."""

    smoothing_K: Tensor

    def __init__(self, ahead: int) -> None:
        super().__init__()
        self.ahead = ahead
        self.register_buffer("smoothing_K", torch.full((ahead,), _FIRST))

    def frames_ahead(self, batch: FrameBatch, ahead: int) -> Tensor:
        at_K = torch.arange(ahead, device=self.device).clamp_max(self.ahead - 1)
        smoothing_K11 = self.smoothing_K[at_K, None, None]
        last_B1HW = as_floats(batch.read_BTHW[:, -1:], self.smoothing_K)
        return torch.logit(smoothing_K11 + (1 - 2 * smoothing_K11) * last_B1HW)


Foreseen = NextFrames | JudgedFrames
"""Of a question the frames that come next; of a clip that goes on, how well they were predicted."""
_SOLVED_ON = 4_000  # clips, spread evenly
_AT_ONCE = 64


class NextFramesTask(
    Picturing[FrameNet],
    Stacking,
    Answering[FrameBatch, FrameNet, Foreseen, FrameCodecs],
    Solving[FramePredictorSettings, FrameNet, Clip, FrameCodecs],
    ClipTask[FramePredictorSettings, FrameBatch, FrameNet, Foreseen, FrameCodecs],
):
    """See `Task`. `chosen` are the settings it is configured with."""

    name = "next-frames"
    settings = FramePredictorSettings
    defaults: ClassVar[Mapping[str, object]] = {"batch": 8, "rate": 2e-3, "steps": 1024, "weight_decay": 0.0}
    asked: ClassVar[Mapping[str, object]] = {"ahead": None}
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"encoder": ("", "frame"), "forecaster": ("ahead.", "step")}
    reported: ClassVar[tuple[str, ...]] = ("nats", "squared_error")
    judged = "nats"
    usual_steps = 2_000

    def kinds(self) -> Sequence[str]:
        return FRAME_MODELS

    def codecs(self, examples: Sequence[Clip]) -> FrameCodecs:
        frames = min(frames for frames, _, _ in clip_shapes(examples))
        read, ahead = read_and_ahead(frames, self.chosen.read, self.chosen.ahead)
        return {"clips": ClipCodec.fit(examples, read, ahead)}

    def check(self, examples: Sequence[Clip], codecs: FrameCodecs, name: str) -> None:
        codec = codecs["clips"]
        codec.check(examples, name)
        shapes = clip_shapes(examples)
        if min(shapes)[0] < codec.read + codec.ahead:
            short = shapes.index(min(shapes))
            raise FormatError(
                f"the clip {examples[short].name} of {name} has {count_frames(shapes[short][0])}; expected at least "
                f"{codec.read + codec.ahead}: {codec.read} that are read and {codec.ahead} after them"
            )

    def build(self, settings: FramePredictorSettings, codecs: FrameCodecs) -> FrameNet:
        codec = codecs["clips"]
        if settings.model == COPY:
            return FrameCopier(codec.ahead)
        return FramePredictor(settings, height=codec.height, width=codec.width, ahead=codec.ahead)

    def solves(self, settings: FramePredictorSettings) -> bool:
        return settings.model == COPY

    def solve(self, net: FrameNet, examples: Sequence[Clip], codecs: FrameCodecs) -> None:
        """The smoothing of each step of a copy."""
        codec = codecs["clips"]
        counts = CopyCounts(codec.ahead)
        rows = np.unique(np.linspace(0, len(examples) - 1, min(len(examples), _SOLVED_ON)).round().astype(int)).tolist()
        for begin in range(0, len(rows), _AT_ONCE):
            frames_BTHW = codec.batch([examples[row] for row in rows[begin : begin + _AT_ONCE]])
            counts.add(frames_BTHW[:, codec.read - 1], frames_BTHW[:, codec.read : codec.read + codec.ahead])
        if isinstance(net, FrameCopier):
            net.smoothing_K.copy_(torch.from_numpy(counts.smoothing()))

    def lengths(self, examples: Sequence[Clip], codecs: FrameCodecs) -> Integers:
        return np.full(len(examples), codecs["clips"].read + codecs["clips"].ahead, np.int64)

    def targets(self, examples: Sequence[Clip], codecs: FrameCodecs) -> int:
        return len(examples) * codecs["clips"].ahead

    def batch(self, examples: Sequence[Clip], codecs: FrameCodecs) -> FrameBatch:
        """The first frames of clips and those after them; of questions the last frames."""
        codec = codecs["clips"]
        frames_BTHW = codec.batch(examples)
        if all(isinstance(one, ClipQuestion) for one in examples):
            at_BT = lengths_of(examples)[:, None] - codec.read + np.arange(codec.read)
            return FrameBatch(torch.from_numpy(frames_BTHW[np.arange(len(examples))[:, None], at_BT]))
        frames = torch.from_numpy(frames_BTHW[:, : codec.read + codec.ahead])
        return FrameBatch(frames[:, : codec.read], frames[:, codec.read :])

    def answers_with(
        self, net: FrameNet, batch: FrameBatch, codecs: FrameCodecs, options: Mapping[str, object]
    ) -> list[Foreseen]:
        """`ahead`: how many frames are predicted, by default those of the run."""
        if batch.future_BKHW is not None:
            return list(_judged(net, batch))
        ahead = options.get("ahead") or codecs["clips"].ahead
        if not isinstance(ahead, int) or not 1 <= ahead <= MOST:
            raise OptionError(f"ahead is {ahead!r}; expected a whole number of frames, 1 to {MOST:,}")
        return list(_foreseen(net, batch, ahead))

    def columns(self, answer: Foreseen) -> list[Row]:
        """Every predicted frame."""
        return answer.rows() if isinstance(answer, NextFrames) else []

    def explain(
        self, net: FrameNet, batch: FrameBatch, examples: Sequence[Clip], codecs: FrameCodecs
    ) -> list[FramesExplained]:
        """The last frames of every clip as they are predicted from those before them, beside what came."""
        codec, explained = codecs["clips"], []
        for one in examples:
            frames_THW = one.read()
            read = min(codec.read, len(frames_THW) - codec.ahead)
            if read < 1:
                raise OptionError(
                    f"the clip {one.name} has {count_frames(len(frames_THW))}; expected more than {codec.ahead}: the "
                    f"last {codec.ahead} are shown beside what is predicted from those before them; try a longer clip; "
                    "the frames that come after it are predicted by predict, or in the shell with --out frames.npz"
                )
            ours_1THW = torch.from_numpy(frames_THW[None, -read - codec.ahead :]).to(net.device)
            cut = FrameBatch(ours_1THW[:, :read], ours_1THW[:, read:])
            (foreseen,), (judged,) = _foreseen(net, cut, codec.ahead), _judged(net, cut)
            last_THW = frames_THW[-read - codec.ahead :]
            explained.append(FramesExplained(last_THW[:read], last_THW[read:], foreseen, judged))
        return explained

    def figure(
        self, net: FrameNet, explained: object, given: object, name: str, trace: Callable[[object], Trace]
    ) -> DrawnFigure:
        """Frames that were read, came and were predicted, in rows."""
        assert isinstance(explained, FramesExplained)
        measured = figures.measured_frames(explained, model="the network", text=name)
        return figures.predicted_frames([measured])

    def stack(self, answers: Iterable[object]) -> dict[str, NDArray[np.generic]]:
        """`frames` [N, K, H, W] after the last of each clip, which can be read as clips again; of explained clips their
        last frames: `read` [N, T, H, W], `came`, `predicted` [N, K, H, W] and `nats` [N, K]."""
        parts: dict[str, list[NDArray[np.generic]]] = {}
        for one in answers:
            arrays: dict[str, NDArray[np.generic]] = {}
            if isinstance(one, NextFrames):
                arrays = {"frames": one.pixels_KHW}
            elif isinstance(one, FramesExplained):
                arrays = {"read": one.read_THW, "came": one.came_KHW, "predicted": one.predicted.pixels_KHW}
                arrays["nats"] = np.array(one.judged.nats_K, np.float32)
            for key, array in arrays.items():
                parts.setdefault(key, []).append(array)
        if len({array.shape for array in parts.get("read", ())}) > 1:
            raise OptionError(
                "some clips are shorter than the frames that the run reads and predicts; expected clips with all of "
                "them; try one clip, or leave --explain out"
            )
        return {key: np.stack(arrays) for key, arrays in parts.items()}

    def shown(self, net: FrameNet, batch: FrameBatch, example: Clip, codecs: FrameCodecs) -> Shown:
        (answer,) = _foreseen(net, batch, codecs["clips"].ahead)
        read_THW = batch.read_BTHW[0].cpu().numpy()
        fields: Fields = {
            "read": (("frame", "row", "column"), read_THW),
            "next": (("step", "row", "column"), answer.frames_KHW),
        }
        return Shown([str(frame + 1) for frame in range(len(read_THW))], [], fields, {"answer": str(answer)})

    def prepare(self, given: object, codecs: FrameCodecs) -> Clip:
        clip, codec = super().prepare(given, codecs), codecs["clips"]
        if clip.shape[0] < codec.read:
            raise OptionError(
                f"the clip {clip.name} of {clip.source.name} has {count_frames(clip.shape[0])}; expected at least "
                f"{codec.read}, which the run reads"
            )
        return clip

    def measure(self, examples: Sequence[Clip], answers: Sequence[Foreseen], codecs: FrameCodecs) -> FrameScore:
        return score_frames(*figures_of(answers))

    def resampled(self, examples: Sequence[Clip], answers: Sequence[Foreseen], codecs: FrameCodecs) -> ResampledMeans:
        nats_NK, errors_NK, _ = figures_of(answers)
        return resampled_frames(nats_NK, errors_NK)

    def variants(self, learned: Sequence[Clip]) -> Mapping[str, Mapping[str, object]]:
        """The last frame again, smoothed; a dense LSTM with as many parameters."""
        return {"last frame again": {"model": COPY}, "dense LSTM of that size": {"model": "lstm", "units": 0}}


def _foreseen(net: FrameNet, batch: FrameBatch, ahead: int) -> list[NextFrames]:
    return list(map(NextFrames, net.predict_frames(batch, ahead).cpu().numpy()))


def _judged(net: FrameNet, batch: FrameBatch) -> list[JudgedFrames]:
    if batch.future_BKHW is None:
        raise OptionError("the frames that came next are not known; expected a clip that goes on")
    with net.quietly():
        z_BKHW = net.logits(batch).float()
        x_BKHW = batch.future_BKHW.float() / 255
        nats_BK = F.binary_cross_entropy_with_logits(z_BKHW, x_BKHW, reduction="none").sum((2, 3))
        errors_BK = (z_BKHW.sigmoid() - x_BKHW).square().sum((2, 3))
        least_BK = (torch.special.entr(x_BKHW) + torch.special.entr(1 - x_BKHW)).sum((2, 3))
    rows = zip(*(figures_BK.cpu().tolist() for figures_BK in (nats_BK, errors_BK, least_BK)), strict=True)
    return [JudgedFrames(*map(tuple, row)) for row in rows]


NEXT_FRAMES = NextFramesTask()
