"""What networks share that look at small parts: the sensor, the layers that read it, and how places are learned.

A sensor sees a small part of a picture sharply and the wider surroundings coarsely (Mnih et al. 2014).

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

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.layers.recurrent import Recurrent
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.series.forecasters.settings import cells


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
            column_Rw, row_Rw = (
                self._window(places_R2[:, 0], width, scale),
                self._window(places_R2[:, 1], height, scale),
            )
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

    def add_core(self, *, cell: str, hidden: int, read: int, patch: int, scales: int, channels: int) -> None:
        """Make the layers; `read` units for what is seen, and as many for where."""
        self.sensor = GlimpseSensor(patch, scales)
        self.what = nn.Linear(scales * channels * patch**2, read)
        self.where = nn.Linear(2, read)
        self.join = nn.Linear(2 * read, hidden)
        self.reader = Recurrent(cell, hidden, hidden, batch_first=True)

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
