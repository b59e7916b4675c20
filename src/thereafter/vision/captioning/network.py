"""A picture into words: a network over the pixels before a recurrent decoder (`word_decoder.RecurrentDecoder`).

    m_s = encoder(x)_s,      h_s = W m_s,      v = mean over s of h_s        (`vision/encoder.py`)

What the decoder sees of it, `see`:

    attention    begins with tanh(W v), and looks at all h_s again for every word      (Xu et al. 2015)
    every        begins with tanh(W v), and reads it beside every word                 (Mao et al. 2015)
    first        reads W v in the place of a word before all others, and no more       (Vinyals et al. 2015)
    nothing      never sees the picture: what the captions alone make likely

Features that were made elsewhere, a vector or a map of vectors for each picture, take the place of m. While training,
`bag` times the -log p of all words of the captions under softmax(U v), a bag of words, is added to the loss: it tells
the encoder what is in a picture before the decoder can.

Pictures are changed at random while the network is trained, so that it sees another picture every time (`Augmenting`):

    flip      left and right change places, for one picture in two
    shift     moved by up to this share of its side, each way; what comes in is mirrored at the border
    zoom      smaller or larger by up to this share
    colour    times 1 + a, plus b for each channel; a and b up to this share, in standard deviations of the pixels
    erase     a rectangle with sides up to this share is set to the mean (Zhong et al. 2020, Random Erasing)

All is drawn from torch's own generator on the device of the pictures, which a snapshot of a training keeps: a resumed
training draws the same. While not training, pictures stay what they are.

Shapes: P pictures, B captions, C channels, H rows and W columns of pixels, S places, D numbers of a place, L layers,
H units, T steps, N targets without padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.layers.dropout import locked
from thereafter.layers.inputs import probability
from thereafter.models.settings import check_choice, check_positive, check_share, check_size
from thereafter.models.task_net import Memory, TaskNet
from thereafter.models.word_decoder import DecoderSettings, WordDecoder, check_count
from thereafter.tasks.batching import TensorBatch
from thereafter.tasks.graphs import LONGEST, ROWS, Feeds, Inputs, RecurrentGraphs, Tensors
from thereafter.vision.encoder import NORMS, PictureEncoder

SEES = ("attention", "every", "first", "nothing")
MOST_STAGES = 8
_VARIED = ("flip", "shift", "zoom", "colour", "erase")


@dataclass(frozen=True)
class CaptionerSettings(DecoderSettings):
    """Those of `DecoderSettings`, of the encoder of pictures, and of how pictures are varied while training
    (`vision/captioning/network.py`)."""

    idle: ClassVar[tuple[str, ...]] = ("heads", "feedforward")
    """Settings that do nothing here: those of Transformers."""

    cell: str = "lstm"
    embed: int = 256
    hidden: int = 256
    dropout: float = 0.5
    longest: int = 60
    see: str = "attention"
    """What the decoder sees of a picture: all places for every word (attention), the whole beside every word (every)
    or once before all words (first), or nothing."""
    size: int = 0
    """Pixels a side to which pictures are brought (0: their own where all are equal and at most 256, else 64)."""
    width: int = 32
    """Channels of the first stage of convolutions."""
    blocks: int = 1
    """Residual blocks a stage."""
    stages: int = 3
    """How often the channels double and the sides are halved."""
    norm: str = "batch"
    """How convolutions are normalised: `NORMS`."""
    drop_picture: float = 0.2
    """The share of the channels of a picture's map that is dropped while training."""
    bag: float = 0.3
    """The weight of a second loss: the words of a caption as a bag, predicted from the picture alone."""
    flip: bool = True
    """Whether one picture in two is mirrored while training. Leave it out where captions tell left from right."""
    shift: float = 0.1
    """Pictures are moved by up to this share of their side while training."""
    zoom: float = 0.1
    """Pictures are made smaller or larger by up to this share while training."""
    colour: float = 0.1
    """Brightness and each channel are varied by up to this many deviations while training."""
    erase: float = 0.3
    """A rectangle with sides of up to this share is greyed out while training."""
    min_count: int = 3
    """How often a word must stand in the training captions to be learned."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("see", self.see, SEES)
        check_choice("norm", self.norm, NORMS)
        check_count("size", self.size)
        values = vars(self)
        for name in ("width", "blocks", "stages", "min_count"):
            check_size(name, values[name])
        for name in ("drop_picture", "shift", "zoom", "colour", "erase"):
            check_share(name, values[name])
        check_positive("bag", self.bag)
        if self.stages > MOST_STAGES:
            raise OptionError(f"stages is {self.stages}; expected 1 to {MOST_STAGES}: each has twice the channels")
        if self.see == "attention" and self.attention == "none":
            raise OptionError(
                "see is 'attention' and attention is 'none'; expected a kind of attention; try see='every', or "
                "attention='additive'"
            )


@dataclass(frozen=True)
class PictureForm:
    """What the network is given of a picture.

    `kind`: "pixels" [channels, height, width] of 0 to 255, "vectors" [D] or "maps" [S, D]; `shape`: these sizes. `mean`
    and `deviation` of the training pictures, of pixels / 255 for each channel.
    """

    kind: str
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class PictureBatch(TensorBatch):
    """Pictures as their form says, and all their captions, which are None where they are asked for.

    `row_B`: the picture of each caption. `at_N`: the places of the flattened captions that are no padding.
    """

    pictures: Tensor
    row_B: Tensor | None = None
    target_BT: Tensor | None = None
    at_N: Tensor | None = None

    def places(self) -> None:
        """Captions have other lengths in every batch: a step over them is not recorded."""


class Captioner(RecurrentGraphs, TaskNet[PictureBatch]):
    """See the module's equations. It is its own decoder: `given(encode(batch))` predicts the words."""

    settings: CaptionerSettings
    mean: Tensor
    deviation: Tensor

    def __init__(
        self, settings: CaptionerSettings, form: PictureForm, *, words: int, unknown: int | None = None, limit: int = 60
    ) -> None:
        attends = settings.see == "attention"
        decoder = settings if attends else replace(settings, attention="none")
        WordDecoder.__init__(self, decoder, settings.embed, unknown=unknown, limit=limit)
        self.form = form
        self.words = self._table(words)
        self._add_head(self.words)
        self._add_layers(repeated=settings.see == "every")
        self._add_sight()

    def _add_sight(self) -> None:
        """The network over pictures, and what leads from it to the decoder."""
        settings, form = self.settings, self.form
        channels = len(form.mean)
        self.register_buffer("mean", torch.tensor(form.mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(form.deviation).view(-1, 1, 1), persistent=False)
        self.pixels: PictureEncoder | None = None
        if settings.see == "nothing":
            return
        read = form.shape[-1]
        if form.kind == "pixels":
            self.augment = Augmenting(**{name: vars(settings)[name] for name in _VARIED})
            self.pixels = PictureEncoder(
                channels, width=settings.width, blocks=settings.blocks, stages=settings.stages, norm=settings.norm
            )
            read = self.pixels.size
        size = settings.hidden
        self.place = nn.Linear(read, size)
        fields = len(self.decoder.lanes[0].cell.state_sizes())
        self.begins = nn.Linear(size, settings.embed if settings.see == "first" else fields * settings.layers * size)
        self.bag = nn.Linear(size, self.words.words) if settings.bag else None

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the places that attention looks at."""
        kind, shape = self.form.kind, self.form.shape
        if self.pixels is not None:
            return self.pixels.grid(*shape[1:])
        places = shape[0] if kind == "maps" else 1
        side = math.isqrt(places)
        return (side, side) if side * side == places else (1, places)

    def map(self, batch: PictureBatch) -> Tensor:
        """h_s of all pictures, [P, S, H]."""
        x = batch.pictures.to(self.words.weight.dtype)
        if self.form.kind == "pixels":
            x = self.augment((x / 255 - self.mean) / self.deviation)
        else:
            x = (x - self.mean.flatten()) / self.deviation.flatten()
            x = x if x.dim() == 3 else x[:, None]
        m_PSD = x if self.pixels is None else self.pixels(x)
        h_PSH: Tensor = self.place(locked(m_PSD, self.settings.drop_picture, self.training))
        return h_PSH

    def encode(self, batch: PictureBatch) -> Memory:
        settings, pictures = self.settings, len(batch)
        fields = list(self.decoder.lanes[0].cell.state_sizes())
        if settings.see == "nothing":
            zero_PSH = self.words.weight.new_zeros(pictures, 1, settings.hidden)
            zero_PLH = zero_PSH.expand(-1, settings.layers, -1)
            return Memory(zero_PSH, _everywhere(zero_PSH), dict.fromkeys(fields, zero_PLH))
        h_PSH = self.map(batch)
        begin = self.begins(h_PSH.mean(1))
        if settings.see == "first":
            _, state = self.decoder(begin[:, None])
            parts = state if isinstance(state, tuple) else (state,)
            summary = {name: part.transpose(0, 1) for name, part in zip(fields, parts, strict=True)}
        else:
            begun = torch.tanh(begin).view(pictures, len(fields), settings.layers, settings.hidden)
            summary = {name: begun[:, number] for number, name in enumerate(fields)}
        return Memory(h_PSH, _everywhere(h_PSH), summary)

    def nats(self, batch: PictureBatch) -> Tensor:
        target_BT, at_N, row_B = _captions(batch)
        memory = self.encode(batch)
        nats = self.nats_given(memory, target_BT, at_N, row_B)
        if self.training and self.settings.see != "nothing" and self.bag is not None:
            nats = nats + self.settings.bag * self._of_bag(self.bag, memory, batch)
        return nats

    def scores(self, batch: PictureBatch) -> Tensor:
        """log p of every word at every step of the captions, [B, T, V]."""
        target_BT, _, row_B = _captions(batch)
        return self.scores_given(self.encode(batch), target_BT, row_B)

    def source_inputs(self) -> Inputs:
        return {"pictures": (torch.float32, ("P", *self.form.shape))}

    def encode_inputs(self, inputs: Tensors) -> Memory:
        return self.encode(PictureBatch(inputs["pictures"]))

    def draw_target(self, draw: np.random.Generator) -> tuple[Feeds, NDArray[np.int64], NDArray[np.floating]]:
        shape, longest = (ROWS, *self.form.shape), min(LONGEST, self.settings.longest)
        drawn = draw.integers(0, 256, shape) if self.form.kind == "pixels" else draw.random(shape)
        pictures, target_BT = drawn.astype(np.float32), draw.integers(1, self.words.words, (ROWS, longest))
        with self.quietly():
            memory = self.encode(PictureBatch(torch.from_numpy(pictures).to(self.device)))
            scores_BTV = self.scores_given(memory, torch.from_numpy(target_BT).to(self.device))
        return {"pictures": pictures}, target_BT, scores_BTV.float().cpu().numpy()

    def _of_bag(self, bag: nn.Linear, memory: Memory, batch: PictureBatch) -> Tensor:
        """The sum of -log p of all words of the captions, each under the one softmax of its picture."""
        target_BT, at_N, row_B = _captions(batch)
        logp_PV = torch.log_softmax(bag(memory.h_BSH.mean(1)), -1)
        row_N = row_B[:, None].expand_as(target_BT).flatten().index_select(0, at_N)
        word_N = target_BT.flatten().index_select(0, at_N)
        at = row_N * logp_PV.shape[1] + word_N
        return -logp_PV.flatten().index_select(0, at).sum()


def _everywhere(h_PSH: Tensor) -> Tensor:
    return torch.ones(h_PSH.shape[:2], dtype=torch.bool, device=h_PSH.device)


def _captions(batch: PictureBatch) -> tuple[Tensor, Tensor, Tensor]:
    if batch.target_BT is None or batch.at_N is None or batch.row_B is None:
        raise OptionError("a batch without captions has no loss; expected captions")
    return batch.target_BT, batch.at_N, batch.row_B


class Augmenting(nn.Module):
    """Standardised pictures [P, C, H, W] to pictures of the same shape; see the module.

    >>> same = Augmenting(flip=True, erase=0.5).eval()
    >>> x = torch.ones(1, 3, 4, 4)
    >>> bool((same(x) == x).all())
    True
    """

    def __init__(
        self, *, flip: bool = False, shift: float = 0.0, zoom: float = 0.0, colour: float = 0.0, erase: float = 0.0
    ) -> None:
        super().__init__()
        self.flip = flip
        self.shift, self.zoom = probability("shift", shift), probability("zoom", zoom)
        self.colour, self.erase = probability("colour", colour), probability("erase", erase)

    def forward(self, x_PCHW: Tensor) -> Tensor:
        if not self.training:
            return x_PCHW
        with torch.no_grad():
            if self.shift or self.zoom:
                x_PCHW = self._moved(x_PCHW)
            elif self.flip:
                x_PCHW = torch.where(_coin(x_PCHW), x_PCHW.flip(-1), x_PCHW)
            if self.colour:
                pictures, channels = x_PCHW.shape[:2]
                factor = 1 + self.colour * _spread(x_PCHW, pictures, 1, 1, 1)
                x_PCHW = x_PCHW * factor + self.colour * _spread(x_PCHW, pictures, channels, 1, 1)
            return self._erased(x_PCHW) if self.erase else x_PCHW

    def _moved(self, x_PCHW: Tensor) -> Tensor:
        """Flip, shift and zoom in one pass: where each pixel comes from is an affine map of its place."""
        pictures = len(x_PCHW)
        scale_P = 1 + self.zoom * _spread(x_PCHW, pictures)
        moved_P2 = 2 * self.shift * _spread(x_PCHW, pictures, 2)  # a side is from -1 to 1
        theta_P23 = x_PCHW.new_zeros(pictures, 2, 3)
        theta_P23[:, 0, 0] = torch.where(_coin(x_PCHW).view(-1), -scale_P, scale_P) if self.flip else scale_P
        theta_P23[:, 1, 1] = scale_P
        theta_P23[:, :, 2] = moved_P2
        grid = F.affine_grid(theta_P23, list(x_PCHW.shape), align_corners=False)
        return F.grid_sample(x_PCHW, grid, padding_mode="reflection", align_corners=False)

    def _erased(self, x_PCHW: Tensor) -> Tensor:
        """One rectangle a picture, of any place; both of its sides are uniform from 0 to the share."""
        inside = x_PCHW.new_ones(1, dtype=torch.bool)
        for axis in (2, 3):
            side = x_PCHW.shape[axis]
            length_P, begin_P = torch.rand(2, len(x_PCHW), device=x_PCHW.device)
            length_P = self.erase * side * length_P
            begin_P = begin_P * (side - length_P)
            place = torch.arange(side, device=x_PCHW.device) + 0.5
            here = (place >= begin_P[:, None]) & (place < (begin_P + length_P)[:, None])
            inside = inside & (here[:, None, :, None] if axis == 2 else here[:, None, None, :])
        return x_PCHW.masked_fill(inside, 0.0)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={vars(self)[name]}" for name in _VARIED if vars(self)[name])


def _coin(x_PCHW: Tensor) -> Tensor:
    """True for one picture in two, [P, 1, 1, 1]."""
    return torch.rand(len(x_PCHW), 1, 1, 1, device=x_PCHW.device) < 0.5


def _spread(like: Tensor, *shape: int) -> Tensor:
    """Uniform from -1 to 1."""
    return torch.empty(shape, dtype=like.dtype, device=like.device).uniform_(-1.0, 1.0)
