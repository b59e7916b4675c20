"""Frames of video as numbers: bytes to floats on their device, patches of pixels, and convolutions over each frame.

    stage:   x <- relu(norm(W * x))        W * is a convolution of 3 x 3 that halves the sides

Shapes: N frames, H rows of pixels, W columns, D channels, p pixels on the side of a patch.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_GROUPS = 8  # of channels that are normalised together, at most
_LEAST_SIDE = 4  # of the last map, where the number of stages is chosen
_MOST_STAGES = 4
_WIDEST = 4  # times the first stage's channels


def as_floats(frames: Tensor, like: Tensor) -> Tensor:
    """Bytes 0 to 255 as floats 0 to 1, on the device they are on; frames that are floats already, as they are.

    Bytes travel to a device in a quarter of the time of floats.
    """
    return frames.to(like.dtype) / 255 if frames.dtype == torch.uint8 else frames.to(like.dtype)


def to_patches(x_NHW: Tensor, patch: int) -> Tensor:
    """Frames as maps of patches [N, p p, H / p, W / p]; a frame that patches do not fill ends in black.

    >>> to_patches(torch.arange(16.0).view(1, 4, 4), 2)[0, :, 0, 0].tolist()
    [0.0, 1.0, 4.0, 5.0]
    """
    height, width = x_NHW.shape[1:]
    padded = F.pad(x_NHW, (0, -width % patch, 0, -height % patch))
    return F.pixel_unshuffle(padded.unsqueeze(1), patch)


def from_patches(maps_NPHW: Tensor, patch: int, height: int, width: int) -> Tensor:
    """The frames [N, H, W] of maps of patches."""
    return F.pixel_shuffle(maps_NPHW, patch).squeeze(1)[:, :height, :width]


class FrameEncoder(nn.Module):
    """Frames [N, H, W] to maps [N, D, h, w]: `channels` in the first stage, twice as many in each that follows, at most
    four times. `stages` 0: as many as leave 4 places on the shorter side, at most four. A frame is normalised by
    itself (Wu and He 2018), so that no frame depends on those beside it in a batch.

    >>> encoder = FrameEncoder(32, 48, channels=8)
    >>> encoder(torch.zeros(2, 32, 48)).shape, encoder.shape
    (torch.Size([2, 32, 4, 6]), (32, 4, 6))
    """

    def __init__(self, height: int, width: int, *, channels: int, stages: int = 0) -> None:
        super().__init__()
        stages = stages or _stages(min(height, width))
        layers: list[nn.Module] = []
        before = 1
        for stage in range(stages):
            size = channels * min(2**stage, _WIDEST)
            # no bias: the norm that follows would take it away
            layers += [nn.Conv2d(before, size, 3, 2, padding=1, bias=False), group_norm(size), nn.ReLU()]
            before, height, width = size, (height + 1) // 2, (width + 1) // 2
        self.layers = nn.Sequential(*layers)
        self.shape = (before, height, width)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x_NHW: Tensor) -> Tensor:
        maps_NDHW: Tensor = self.layers(x_NHW.unsqueeze(1))
        return maps_NDHW


def _stages(side: int) -> int:
    """How often a side may be halved, rounded up, before fewer than 4 places are left; once at least."""
    stages = 0
    while stages < _MOST_STAGES and (side + 1) // 2 >= _LEAST_SIDE:
        side, stages = (side + 1) // 2, stages + 1
    return max(1, stages)


def group_norm(size: int) -> nn.GroupNorm:
    """Normalisation of each picture by itself, over at most eight groups of channels (Wu and He 2018)."""
    return nn.GroupNorm(math.gcd(size, _GROUPS), size)
