"""The label of a picture of which only small parts are seen, one after the other (Mnih et al. 2014).

    l_t ~ N(tanh(W_l h_{t-1}), s^2)                   where to look, h_0 = 0; its mean where nothing is learned
    g_t = relu(W_g [relu(W_x sensor(l_t)), relu(W_p l_t)])
    h_t = cell(g_t, h_{t-1})
    p(label | glimpses 1 to t) = softmax(W_c h_t)

The answer is the belief after the last glimpse. A place has no gradient in what is seen there: W_l learns from a reward
(`vision/glimpsing/sensor.py`), 1 where the label is right and 0 where not, after the last glimpse or, with
`learn="every"`, on average over the beliefs from t on. What it expects of the reward is b_t = W_b h_{t-1}. Both read h
without a gradient, so that the rest of the network learns from the labels alone.

The value of the loss is the cross-entropy; the gradients of places and of b come on top.

Shapes: B pictures, R paths of glimpses (B times `samples`), T glimpses, C channels, H rows, W columns, K scales, g
pixels of a patch, U units, L labels.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.layers.dropout import content_keys, uniform_by_key
from thereafter.layers.recurrent import count_parameters
from thereafter.models.settings import check_choice, check_positive, check_size
from thereafter.models.task_net import TaskNet
from thereafter.series.forecasters.settings import cells
from thereafter.tasks.batching import TensorBatch
from thereafter.vision.encoder import PictureEncoder, as_floats
from thereafter.vision.glimpsing.sensor import GlimpseCore, SensorSettings, draw_around, log_density, reward_loss

_SEED = 20_261_117  # of places that are drawn once for each picture
_STAGES = 3  # of the convolutions, at most


WHOLE = "all"
PLACES = ("learned", "random", "centre", WHOLE)
LEARN = ("every", "last")


@dataclass(frozen=True)
class GlimpserSettings(SensorSettings):
    """Sizes of a network that looks at small parts of a picture, and how it learns where to look."""

    places: str = "learned"
    """Where to look: "learned"; "random", drawn anew while training and once for each picture else; always the
    "centre"; or "all": convolutions that see the whole picture, with as many parameters."""
    glimpses: int = 6
    """Glimpses at a picture."""
    size: int = 0
    """Pixels on the side of a picture (0: as they are)."""
    samples: int = 1
    """Paths of glimpses that are drawn for a picture while training."""
    reward_weight: float = 0.1
    """The weight of the loss of places."""
    learn: str = "every"
    """Which beliefs are learned from: those after "every" glimpse, or the "last" alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("places", self.places, PLACES)
        check_choice("learn", self.learn, LEARN)
        for name in ("glimpses", "samples"):
            check_size(name, vars(self)[name])
        check_positive("reward_weight", self.reward_weight)


@dataclass(frozen=True)
class PixelBatch(TensorBatch):
    """Pictures as bytes; `labels_B` is None where they are asked for."""

    pixels_BCHW: Tensor
    labels_B: Tensor | None = None


@dataclass(frozen=True)
class Looked:
    """What was seen where, and what was believed then; T glimpses. `inputs_BTU`: what the recurrent layer read."""

    places_BT2: Tensor
    patches_BTKCgg: Tensor
    beliefs_BTL: Tensor
    inputs_BTU: Tensor


class PictureReader(TaskNet[PixelBatch]):
    """What networks share that see a picture, or parts of it, and believe a label."""

    @abstractmethod
    def looked(self, batch: PixelBatch) -> Looked:
        """What is seen and believed, step by step; nothing is drawn at random."""

    def decide(self, batch: PixelBatch) -> Tensor:
        """The probability of every label, [B, L]: the belief after the last glimpse."""
        return self.looked(batch).beliefs_BTL[:, -1]


class Glimpser(PictureReader, GlimpseCore):
    """See the module's equations. `channels` of the pictures, `labels` to choose from."""

    def __init__(self, settings: GlimpserSettings, *, channels: int, labels: int) -> None:
        super().__init__()
        if labels < 2:
            raise OptionError(f"the network has {labels} label to choose from; expected at least 2")
        self.settings = settings
        sizes = {name: vars(settings)[name] for name in ("hidden", "read", "patch", "scales")}
        self.add_core(cell=cells()[settings.cell], channels=channels, **sizes)
        self.head = nn.Linear(settings.hidden, labels)
        self.policy = nn.Linear(settings.hidden, 3) if settings.places == "learned" else None
        """Of the place's mean, 2 numbers, and of the reward that is expected."""

    def nats(self, batch: PixelBatch) -> Tensor:
        if batch.labels_B is None:
            raise OptionError("a batch without labels has no loss; expected labels")
        settings = self.settings
        samples = settings.samples if self.training and settings.places != "centre" else 1
        places_RT2, h_RTU, _ = self.walk(batch, samples)
        z_RTL = self.head(F.dropout(h_RTU, settings.dropout, self.training)).float()
        label_RT = batch.labels_B.repeat_interleave(samples)[:, None].expand(-1, settings.glimpses)
        nats_RT = F.cross_entropy(z_RTL.transpose(1, 2), label_RT, reduction="none")
        every = self.training and settings.learn == "every"
        nats = nats_RT.mean(1).sum() if every else nats_RT[:, -1].sum()
        if self.training and self.policy is not None:
            right_RT = (z_RTL.detach().argmax(-1) == label_RT).float()
            # what was expected of all places: one product for all glimpses
            policy_RT3 = self.policy(F.pad(h_RTU[:, :-1].detach(), (0, 0, 1, 0))).float()
            log_pi_RT = log_density(places_RT2.float(), torch.tanh(policy_RT3[..., :2]), settings.deviation)
            extra = settings.reward_weight * reward_loss(log_pi_RT, _to_come(right_RT, every), policy_RT3[..., 2]).sum()
            nats = nats + (extra - extra.detach())
        return nats / samples

    def looked(self, batch: PixelBatch) -> Looked:
        with self.quietly():
            places_BT2, h_BTU, inputs_BTU = self.walk(batch, 1)
            beliefs_BTL = self.head(h_BTU).float().softmax(-1)
            framed, flat_R2 = self.sensor.frame(batch.pixels_BCHW), places_BT2.flatten(0, 1)
            which_R = torch.arange(len(batch), device=flat_R2.device).repeat_interleave(self.settings.glimpses)
            patches = self.sensor(framed, flat_R2, which_R) / _brightest(framed)
            return Looked(places_BT2, patches.unflatten(0, places_BT2.shape[:2]), beliefs_BTL, inputs_BTU)

    def walk(self, batch: PixelBatch, samples: int) -> tuple[Tensor, Tensor, Tensor]:
        """The places of all glimpses [R, T, 2] as they were drawn, h after each of them, and what the cell read."""
        pixels, like = batch.pixels_BCHW, self.join.weight
        rows, steps = len(pixels) * samples, self.settings.glimpses
        framed, brightest = self.sensor.frame(pixels), _brightest(pixels)
        which_R = torch.arange(len(pixels), device=pixels.device).repeat_interleave(samples)
        given_RT2 = self._given(pixels, rows, like)
        h_RU, state = like.new_zeros(rows, self.settings.hidden), None
        places, inputs, states = [], [], []
        for step in range(steps):
            if self.policy is not None:
                with torch.no_grad():
                    mean_R2 = torch.tanh(self.policy(h_RU)[:, :2])
                place_R2 = draw_around(mean_R2, self.settings.deviation) if self.training else mean_R2
            else:
                place_R2 = given_RT2[:, step]
            inside_R2 = place_R2.clamp(-1, 1)
            seen = self.sensor(framed, inside_R2, which_R).flatten(1) / brightest
            g_RU = self.glance(seen, inside_R2)
            y_R1U, state = self.reader(g_RU.unsqueeze(1), state)
            h_RU = y_R1U[:, 0]
            places.append(place_R2)
            inputs.append(g_RU)
            states.append(h_RU)
        return torch.stack(places, 1), torch.stack(states, 1), torch.stack(inputs, 1)

    def _given(self, pixels_BCHW: Tensor, rows: int, like: Tensor) -> Tensor:
        """All places [R, T, 2], where they do not depend on what is seen; 0 where they are learned. Random ones belong
        to a picture's content where nothing is learned."""
        shape = rows, self.settings.glimpses, 2
        if self.settings.places in ("learned", "centre"):
            return like.new_zeros(shape)
        if self.training:
            return 2 * torch.rand(shape, device=like.device, dtype=like.dtype) - 1
        drawn = uniform_by_key(content_keys(pixels_BCHW.flatten(1), _SEED), 2 * self.settings.glimpses)
        return (2 * drawn - 1).to(like.dtype).view(shape)


class WholePicture(PictureReader):
    """Convolutions over the whole picture, and the mean of the last map: what glimpses are compared with.

    Its width is that which gives it as many parameters as the glimpser of the same settings has, or the next fewer.
    """

    def __init__(self, settings: GlimpserSettings, *, channels: int, height: int, width: int, labels: int) -> None:
        super().__init__()
        if min(height, width) < 3:
            raise OptionError(
                f"the pictures have {height} x {width} pixels; expected at least 3 x 3, to halve the sides"
            )
        self.settings = settings
        stages = min(_STAGES, (min(height, width) - 1).bit_length() - 1)  # at least two places are left on a side
        channels_out = equal_width(settings, channels=channels, labels=labels, stages=stages)
        self.encoder = PictureEncoder(channels, width=channels_out, stages=stages, norm="group")
        self.head = nn.Linear(self.encoder.size, labels)

    def nats(self, batch: PixelBatch) -> Tensor:
        if batch.labels_B is None:
            raise OptionError("a batch without labels has no loss; expected labels")
        return F.cross_entropy(self._scores(batch).float(), batch.labels_B, reduction="sum")

    def _scores(self, batch: PixelBatch) -> Tensor:
        map_BSD = self.encoder(as_floats(batch.pixels_BCHW, self.head.weight))
        z_BL: Tensor = self.head(F.dropout(map_BSD.mean(1), self.settings.dropout, self.training))
        return z_BL

    def looked(self, batch: PixelBatch) -> Looked:
        with self.quietly():
            beliefs_B1L = self._scores(batch).float().softmax(-1).unsqueeze(1)
            nothing = beliefs_B1L.new_zeros(len(batch), 1, 2)
            seen = as_floats(batch.pixels_BCHW, self.head.weight)[:, None, None]
            return Looked(nothing, seen, beliefs_B1L, nothing)


def build_reader(settings: GlimpserSettings, *, channels: int, height: int, width: int, labels: int) -> PictureReader:
    """The network of these settings."""
    if settings.places == WHOLE:
        return WholePicture(settings, channels=channels, height=height, width=width, labels=labels)
    return Glimpser(settings, channels=channels, labels=labels)


def equal_width(settings: GlimpserSettings, *, channels: int, labels: int, stages: int = _STAGES) -> int:
    """The channels of the first convolutions that have no more parameters than the glimpser; 1 at least.

    With w channels the convolutions have a w^2 + b w parameters, and the head adds its own.
    """
    most = count_parameters(Glimpser(settings, channels=channels, labels=labels))
    one, two = (
        count_parameters(PictureEncoder(channels, width=width, stages=stages, norm="group")) for width in (1, 2)
    )
    square, linear = (two - 2 * one) / 2, (4 * one - two) / 2 + labels * 2 ** (stages - 1)
    return max(1, int((math.sqrt(linear**2 + 4 * square * (most - labels)) - linear) / (2 * square)))


def _to_come(right_RT: Tensor, every: bool) -> Tensor:
    """The reward of each place: the mean of what is right from it on, or what is right in the end."""
    if not every:
        return right_RT[:, -1:].expand_as(right_RT)
    left_T = torch.arange(right_RT.shape[1], 0, -1, device=right_RT.device)
    # whole numbers: torch adds floats one after the other in no fixed order on a GPU
    return right_RT.long().flip(1).cumsum(1).flip(1) / left_T


def _brightest(pixels: Tensor) -> float:
    return 255.0 if pixels.dtype == torch.uint8 else 1.0
