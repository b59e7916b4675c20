"""The label of a picture of which only small parts are seen, one after the other (Mnih et al. 2014).

    l_t ~ N(tanh(W_l h_{t-1}), s^2)                   where to look, h_0 = 0; its mean where nothing is learned
    g_t = relu(W_g [relu(W_x sensor(l_t)), relu(W_p l_t)])
    h_t = cell(g_t, h_{t-1})
    p(label | glimpses 1 to t) = softmax(W_c h_t)

The answer is the belief after the last glimpse. A place has no gradient in what is seen there: W_l learns from a reward
(`vision/glimpsing/network.py`), 1 where the label is right and 0 where not, after the last glimpse or, with
`learn="every"`, on average over the beliefs from t on. What it expects of the reward is b_t = W_b h_{t-1}. Both read h
without a gradient, so that the rest of the network learns from the labels alone.

The value of the loss is the cross-entropy; the gradients of places and of b come on top.

Shapes: B pictures, R paths of glimpses (B times `samples`), T glimpses, C channels, H rows, W columns, K scales, g
pixels of a patch, U units, L labels.

The sensor, the layers that read it and the loss of places are shared with the network that acts. A sensor sees a small
part of a picture sharply and the wider surroundings coarsely (Mnih et al. 2014).

    patch_k(l) = mean over squares of 2^k x 2^k pixels of the g 2^k x g 2^k pixels around l,    k = 0 .. K - 1

l = (x, y) lies in [-1, 1]^2: (-1, -1) is the upper left corner of the picture, (1, 1) the lower right one. What lies
outside the picture is 0. Corners of windows are whole pixels, so a place has no gradient: only pixels have.

What is seen where becomes the input of a recurrent layer:

    g = relu(W_g [relu(W_x sensor(l)), relu(W_p l)])        h = cell(g, h)        (Mnih et al. 2014)

What was chosen has no gradient and is learned from a reward: the score-function estimator (Williams 1992).

    grad E[R] = E[(R - b) grad log pi(a)]          for any b that does not depend on the choice a

b is learned to be the expected reward, which leaves the mean as it is and takes much of the variance:

    loss = -(R - b) log pi(a) + (R - b)^2          R - b without gradient in the first term

Places are drawn from a Gaussian of fixed deviation: log pi(l) = -|l - mean|^2 / (2 s^2), less what does not depend on
the mean.

Shapes: B pictures, R glimpses or paths of them, C channels, H rows, W columns, K scales, g rows and columns of a patch,
U units, 2 for x and y; choices may have any number of axes.
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
from thereafter.layers.recurrent import Recurrent, count_parameters
from thereafter.models.settings import check_choice, check_positive, check_share, check_size
from thereafter.models.task_net import TaskNet
from thereafter.series.forecasters.settings import cells
from thereafter.tasks.batching import TensorBatch
from thereafter.tasks.graphs import Ungraphed
from thereafter.vision.encoder import PictureEncoder, as_floats


@dataclass(frozen=True)
class SensorSettings:
    """A glimpse, what reads it, and how places are drawn while training."""

    patch: int = 8
    """Pixels on the side of a glimpse."""
    scales: int = 1
    """Scales of a glimpse, each twice as wide as the one before."""
    cell: str = "lstm"
    """The kind of its recurrent layer: `cells()`."""
    hidden: int = 256
    """Units of the recurrent layer."""
    read: int = 128
    """Units for what is seen, and as many for where."""
    deviation: float = 0.2
    """The standard deviation of places from their mean while training; what is looked at is 2 wide."""
    dropout: float = 0.0
    """The share of what answers are made of that is dropped while training."""

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, tuple(cells()))
        for name in ("patch", "scales", "hidden", "read"):
            check_size(name, vars(self)[name])
        if self.scales > 6 or self.patch > 256:
            raise OptionError(
                f"patch is {self.patch} and scales is {self.scales}; expected at most 256 pixels and 6 scales; the "
                f"widest window has {self.patch} x 2^{self.scales - 1} pixels on a side"
            )
        if not 0.0 < self.deviation <= 2.0:
            raise OptionError(f"deviation is {self.deviation!r}; expected above 0, at most 2; try 0.2")
        check_share("dropout", self.dropout)


class GlimpseSensor(nn.Module):
    """`patch`: g; `scales`: K. A glimpse has `scales` patches of every channel.

    >>> sensor = GlimpseSensor(2, scales=2)
    >>> framed = sensor.frame(torch.arange(16).view(1, 1, 4, 4))
    >>> sensor(framed, torch.zeros(1, 2)).tolist()
    [[[[[5.0, 6.0], [9.0, 10.0]]], [[[2.5, 4.5], [10.5, 12.5]]]]]
    """

    def __init__(self, patch: int, scales: int = 1) -> None:
        super().__init__()
        self.patch, self.scales = patch, scales

    @property
    def margin(self) -> int:
        """The pixels of black that `frame` puts round a picture: no window reaches beyond."""
        return (self.patch << (self.scales - 1)) // 2 + 1

    def frame(self, pixels_BCHW: Tensor) -> Tensor:
        """Pictures with black round them, in the type they have; once for all glimpses of them."""
        return F.pad(pixels_BCHW, (self.margin,) * 4)

    def forward(self, framed_BCHW: Tensor, places_R2: Tensor, which_R: Tensor | None = None) -> Tensor:
        """Glimpses [R, K, C, g, g], floats on the scale of the pixels; `which_R`: of which pictures, each by default.

        One gather for each scale, whatever the number of pictures.
        """
        if which_R is None:
            which_R = torch.arange(len(places_R2), device=places_R2.device)
        patches = []
        height, width = framed_BCHW.shape[2:]
        for scale in range(self.scales):
            column_Rw, row_Rw = (self._window(places_R2[:, at], (width, height)[at], scale) for at in range(2))
            seen_RwwC = framed_BCHW.permute(0, 2, 3, 1)[which_R[:, None, None], row_Rw[:, :, None], column_Rw[:, None]]
            seen_RCww = seen_RwwC.permute(0, 3, 1, 2).to(places_R2.dtype)
            patches.append(F.avg_pool2d(seen_RCww, 2**scale) if scale else seen_RCww)
        return torch.stack(patches, 1)

    def of_points(self, points_RP2: Tensor, places_R2: Tensor, *, height: int, width: int) -> Tensor:
        """How many of these pixels each cell of the patches covers, floats [R, K, g, g]; `points_RP2`: column and row
        of each, int64, no two alike.

        That is 4^k times `forward` of black pictures in which the pixels are 1, without painting them: a pixel counts
        where its column is in the cell's columns, and its row in its rows.
        """
        scale_K = torch.arange(self.scales, device=places_R2.device)
        wide_K = torch.ones_like(scale_K) << scale_K  # a power of the number 2 would be copied to the device
        share_R2 = (places_R2.clamp(-1, 1) + 1) / 2
        middle_R12 = torch.stack((share_R2[:, 0] * width, share_R2[:, 1] * height), 1)[:, None]
        first_RK2 = torch.floor(middle_R12 - self.patch * wide_K[:, None] / 2 + 0.5).long()
        cell_RPK2 = (points_RP2[:, :, None] - first_RK2[:, None]) >> scale_K[:, None]
        inside_RPK2g = cell_RPK2[..., None] == torch.arange(self.patch, device=places_R2.device)
        column_RPKg, row_RPKg = inside_RPK2g.to(places_R2.dtype).unbind(3)
        return (row_RPKg[..., None] * column_RPKg[..., None, :]).sum(1)

    def _window(self, place_R: Tensor, framed: int, scale: int) -> Tensor:
        """The columns (or rows) of a framed picture that each window covers, int64 [R, w]."""
        pixels, side = framed - 2 * self.margin, self.patch << scale
        first_R = torch.floor((place_R.clamp(-1, 1) + 1) / 2 * pixels - side / 2 + 0.5).long()
        return first_R[:, None] + torch.arange(self.margin, self.margin + side, device=place_R.device)


class GlimpseCore(nn.Module):
    """To inherit from, beside the network's own class: the layers are the network's own and keep their names."""

    sensor: GlimpseSensor
    what: nn.Linear
    where: nn.Linear
    join: nn.Linear
    reader: Recurrent

    def add_core(self, settings: SensorSettings, channels: int) -> None:
        """Make the layers."""
        self.sensor = GlimpseSensor(settings.patch, settings.scales)
        self.what = nn.Linear(settings.scales * channels * settings.patch**2, settings.read)
        self.where = nn.Linear(2, settings.read)
        self.join = nn.Linear(2 * settings.read, settings.hidden)
        self.reader = Recurrent(cells()[settings.cell], settings.hidden, settings.hidden, batch_first=True)

    def glance(self, seen: Tensor, inside: Tensor) -> Tensor:
        """What the recurrent layer reads, [..., U]: of what is seen, the pixels of all patches in a row, 0 to 1, and of
        where, in [-1, 1]."""
        g: Tensor = torch.relu(self.join(torch.relu(torch.cat((self.what(seen), self.where(inside)), -1))))
        return g


def draw_around(mean: Tensor, deviation: float) -> Tensor:
    """A place from the Gaussian around each mean; without a gradient, as a choice."""
    fixed = mean.detach()
    return fixed + deviation * torch.randn_like(fixed)


def log_density(place: Tensor, mean: Tensor, deviation: float) -> Tensor:
    """log pi of a place up to a constant, summed over its coordinates; its gradient is in the mean alone.

    >>> log_density(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0]), 0.5).item()
    -2.0
    """
    return -(place.detach() - mean).square().sum(-1) / (2 * deviation**2)


def reward_loss(log_pi: Tensor, reward: Tensor, baseline: Tensor, credit: Tensor | None = None) -> Tensor:
    """The loss of every choice, whose gradient raises the expected reward; b learns to expect it.

    `credit`: what each choice is judged by in place of the reward (`passed_on`).
    """
    surprise = reward.detach() - baseline
    judged = surprise.detach() if credit is None else (credit - baseline).detach()
    return -judged * log_pi + surprise.square()


def draw_choice(z: Tensor) -> Tensor:
    """A number for each row of scores, drawn from their softmax: the largest of z + noise of Gumbel (1954)."""
    return (z.detach() - torch.empty_like(z).exponential_().log()).argmax(-1)


def log_chance(choice: Tensor, z: Tensor) -> Tensor:
    """log pi of choices under the softmax of scores.

    >>> round(log_chance(torch.tensor(1), torch.tensor([0.0, 0.0])).item(), 4)
    -0.6931
    """
    return z.log_softmax(-1).gather(-1, choice.unsqueeze(-1)).squeeze(-1)


def passed_on(reward_B: Tensor, expected_BT: Tensor, credit: float) -> Tensor:
    """The reward of every choice of an episode, [B, T], where one reward comes at its end (Schulman et al. 2016).

        G_T = R        G_t = (1 - c) b_{t+1} + c G_{t+1}

    With c = 1 that is R for all of them. Less takes noise from what comes later, and trusts b instead.
    """
    expected_BT, steps = expected_BT.detach(), expected_BT.shape[1]
    rewards = [reward_B.to(expected_BT.dtype)]
    for step in range(steps - 1, 0, -1):
        rewards.append((1 - credit) * expected_BT[:, step] + credit * rewards[-1])
    return torch.stack(rewards[::-1], 1)


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


class Glimpser(Ungraphed, PictureReader, GlimpseCore):
    """See the module's equations. `channels` of the pictures, `labels` to choose from."""

    no_graph = "where it looks next depends on what it saw, a loop that no graph is written of"

    def __init__(self, settings: GlimpserSettings, *, channels: int, labels: int) -> None:
        super().__init__()
        if labels < 2:
            raise OptionError(f"the network has {labels} label to choose from; expected at least 2")
        self.settings = settings
        self.add_core(settings, channels)
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
