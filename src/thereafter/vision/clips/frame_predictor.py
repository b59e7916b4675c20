"""The frames that come next: an encoder reads the frames of a clip, a forecaster continues from its states.

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
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells.options import OptionValue
from thereafter.errors import OptionError
from thereafter.layers.recurrent import Recurrent
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.models.task_net import TaskNet
from thereafter.tasks.batching import TensorBatch
from thereafter.tasks.graphs import Ungraphed
from thereafter.vision.encoder import as_floats, from_patches, to_patches

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
