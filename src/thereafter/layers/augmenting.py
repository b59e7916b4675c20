"""Pictures changed at random while a network is trained, so that it sees another picture every time.

    flip      left and right change places, for one picture in two
    shift     moved by up to this share of its side, each way; what comes in is mirrored at the border
    zoom      smaller or larger by up to this share
    colour    times 1 + a, plus b for each channel; a and b up to this share, in standard deviations of the pixels
    erase     a rectangle with sides up to this share is set to the mean (Zhong et al. 2020, Random Erasing)

All is drawn from torch's own generator on the device of the pictures, which a snapshot of a training keeps: a resumed
training draws the same. While not training, pictures stay what they are.

Shapes: P pictures, C channels, H rows and W columns of pixels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.layers.dropout import probability


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
                x_PCHW = self._coloured(x_PCHW)
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

    def _coloured(self, x_PCHW: Tensor) -> Tensor:
        pictures, channels = x_PCHW.shape[:2]
        factor = 1 + self.colour * _spread(x_PCHW, pictures, 1, 1, 1)
        return x_PCHW * factor + self.colour * _spread(x_PCHW, pictures, channels, 1, 1)

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
        named = ("flip", "shift", "zoom", "colour", "erase")
        return ", ".join(f"{name}={vars(self)[name]}" for name in named if vars(self)[name])


def _coin(x_PCHW: Tensor) -> Tensor:
    """True for one picture in two, [P, 1, 1, 1]."""
    return torch.rand(len(x_PCHW), 1, 1, 1, device=x_PCHW.device) < 0.5


def _spread(like: Tensor, *shape: int) -> Tensor:
    """Uniform from -1 to 1."""
    return torch.empty(shape, dtype=like.dtype, device=like.device).uniform_(-1.0, 1.0)
