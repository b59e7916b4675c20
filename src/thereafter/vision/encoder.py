"""Pictures and frames of video as maps of places, each a vector, by small networks of convolutions.

    x      = relu(norm(W * x))                                 W * is a convolution of 3 x 3, the first halves the sides
    block:   x <- relu(x' + norm(W2 * relu(norm(W1 * x))))     (He et al. 2016); x' is x, or norm(W' * x) of 1 x 1 where
                                                               a stage begins
    place s of the map = the vector of all channels at s

A stage has twice the channels of the one before on half its sides, so three stages make 8 x 8 places of 64 x 64 pixels.
norm: "batch" (Ioffe and Szegedy 2015; while training over the batch, else by its running means) or "group" (Wu and He
2018; each picture by itself).

Frames become floats or patches of pixels on the device of their bytes. Their encoder has no blocks:

    stage:   x <- relu(norm(W * x))        W * is a convolution of 3 x 3 that halves the sides

Shapes: P pictures or N frames, C channels, H rows and W columns of pixels, S places, D numbers of a place, p pixels on
the side of a patch.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError

NORMS = ("batch", "group")


class PictureEncoder(nn.Module):
    """Pictures [P, C, H, W] to maps [P, S, D]; see the module. `size`: D, the channels of the last stage.

    >>> encoder = PictureEncoder(3, width=4, blocks=1, stages=3)
    >>> encoder(torch.zeros(2, 3, 32, 24)).shape, encoder.grid(32, 24), encoder.size
    (torch.Size([2, 12, 16]), (4, 3), 16)
    """

    def __init__(
        self, channels: int, *, width: int = 32, blocks: int = 1, stages: int = 3, norm: str = "batch"
    ) -> None:
        super().__init__()
        if norm not in NORMS:
            raise OptionError(f"norm is {norm!r}; expected {' or '.join(map(repr, NORMS))}")
        self.stages, self.size = stages, width * 2 ** (stages - 1)
        stem = OrderedDict(conv=_convolution(channels, width, 2), norm=_norm(norm, width), relu=nn.ReLU())
        layers: list[nn.Module] = [nn.Sequential(stem)]  # which halves the sides
        before = width
        for stage in range(stages):
            size = width * 2**stage
            for block in range(blocks):
                layers.append(_Block(before, size, 2 if stage and not block else 1, norm))
                before = size
        self.layers = nn.Sequential(*layers)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x_PCHW: Tensor) -> Tensor:
        map_PDHW: Tensor = self.layers(x_PCHW)
        return map_PDHW.flatten(2).transpose(1, 2)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of places for a picture of so many pixels."""
        for _ in range(self.stages):
            height, width = (height + 1) // 2, (width + 1) // 2
        return height, width


class _Block(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, channels: int, size: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1, self.norm1 = _convolution(channels, size, stride), _norm(norm, size)
        self.conv2, self.norm2 = _convolution(size, size, 1), _norm(norm, size)
        self.around: nn.Module = nn.Identity()
        if stride > 1 or channels != size:
            self.around = nn.Sequential(nn.Conv2d(channels, size, 1, stride, bias=False), _norm(norm, size))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(self.around(x) + y)


class BatchNorm(nn.BatchNorm2d):
    """y = g (x - m) / sqrt(v + e) + b, by channel: m and v of the batch while training, else their running means.

    As `nn.BatchNorm2d`, without its count of batches, which is no weight; one picture with one place has no variance,
    and is normalised as outside of training.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.num_batches_tracked = None

    def forward(self, x: Tensor) -> Tensor:
        learns = self.training and x.numel() > x.shape[1]
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, learns)


def _convolution(channels: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(channels, size, 3, stride, padding=1, bias=False)


def _norm(kind: str, size: int) -> nn.Module:
    return BatchNorm(size) if kind == "batch" else group_norm(size)


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
        side, chosen = min(height, width), stages
        while not stages and chosen < _MOST_STAGES and (side + 1) // 2 >= _LEAST_SIDE:
            side, chosen = (side + 1) // 2, chosen + 1
        stages = max(1, chosen)
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


def group_norm(size: int) -> nn.GroupNorm:
    """Normalisation of each picture by itself, over at most eight groups of channels (Wu and He 2018)."""
    return nn.GroupNorm(math.gcd(size, _GROUPS), size)
