"""A sensor that sees a small part of a picture sharply and the wider surroundings coarsely (Mnih et al. 2014).

    patch_k(l) = mean over squares of 2^k x 2^k pixels of the g 2^k x g 2^k pixels around l,    k = 0 .. K - 1

l = (x, y) lies in [-1, 1]^2: (-1, -1) is the upper left corner of the picture, (1, 1) the lower right one. What lies
outside the picture is 0. Corners of windows are whole pixels, so a place has no gradient: only pixels have.

What is seen where becomes the input of a recurrent layer:

    g = relu(W_g [relu(W_x sensor(l)), relu(W_p l)])        h = cell(g, h)        (Mnih et al. 2014)

Shapes: B pictures, R glimpses or paths of them, C channels, H rows, W columns, K scales, g rows and columns of a patch,
U units, 2 for x and y.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.layers.recurrent import Recurrent


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
