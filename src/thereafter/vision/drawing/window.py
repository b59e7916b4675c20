"""Windows of Gaussian filters: a small grid of places over a picture, through which a network reads it or draws on it.

A window is five numbers that a network gives: how far its centre is from the middle, the logarithms of its variance,
its stride and its intensity (Gregor et al. 2015, DRAW, equations 19 to 29; rows and columns counted from 0 here). Over
H rows and W columns a grid of N x N places has

    g_y = (H - 1) / 2 + (H + 1) / 2 a_y              g_x = (W - 1) / 2 + (W + 1) / 2 a_x
    d   = (max(H, W) - 1) / (N - 1) exp(log d')      m_y[i] = g_y + (i - (N - 1) / 2) d,     i = 0 ... N - 1
    F_y[i, h] = exp(-(h - m_y[i])^2 / (2 s^2)) / sum over h,        F_x likewise
    read(x)  = k F_y x F_x'                          write(w) = (1 / k) F_y' w F_x

with stride d, variance s^2 and intensity k. The sum over h makes F a softmax, which stays defined where a window lies
far outside of the picture or is narrower than a pixel: then it is the nearest pixel.

Shapes: B pictures, V windows, N places on the side of a grid (of all windows the most), H rows of pixels, C channels, W
columns, P = max(H, W). Pictures are [B, H, C, W], so that both products of a reading are plain ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from thereafter.errors import OptionError, ShapeError

NUMBERS = 5
"""What a network gives for a window: a_y, a_x, log s^2, log d', log k."""
_COVERED = 0.5  # of a picture's side by a window to begin with
_MOST = 12.0  # of a logarithm, above and below 0: beyond, float32 would have 0 or infinity


@dataclass(frozen=True)
class PlacedWindows:
    """Where windows are, in pixels from the middle of the first one: centres (row, column), stride, deviation of the
    filters, and intensity."""

    centre_BV2: Tensor
    stride_BV: Tensor
    deviation_BV: Tensor
    intensity_BV: Tensor


class WindowGrid:
    """Windows over pictures of one size; `sides`: the N of each.

    >>> grid = WindowGrid((2, 5), height=28, width=28)
    >>> windows = grid.place(torch.zeros(1, 2, 5))
    >>> windows.centre_BV2[0, 0].tolist(), windows.stride_BV[0].tolist()
    ([13.5, 13.5], [27.0, 6.75])
    >>> grid.filters(windows).shape
    torch.Size([1, 2, 2, 5, 28])
    """

    def __init__(self, sides: Sequence[int], *, height: int, width: int) -> None:
        if not sides or min(sides) < 1 or min(height, width) < 1:
            raise OptionError(
                f"windows of {list(sides)} places over {height} x {width} pixels; expected 1 or more each"
            )
        self.sides, self.height, self.width = tuple(sides), height, width
        self._constants: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    def place(self, numbers_BV5: Tensor) -> PlacedWindows:
        """The windows that a network asks for."""
        if numbers_BV5.shape[1:] != (len(self.sides), NUMBERS):
            raise ShapeError(f"windows are {tuple(numbers_BV5.shape)}; expected [B, {len(self.sides)}, {NUMBERS}]")
        middle_2, half_2, stride_V, *_ = self._on(numbers_BV5)
        place_BV2, logarithms_BV3 = numbers_BV5.split_with_sizes((2, 3), -1)
        variance_BV, stride_BV, intensity_BV = logarithms_BV3.clamp(-_MOST, _MOST).exp().unbind(-1)
        centre_BV2 = torch.addcmul(middle_2, place_BV2, half_2)
        return PlacedWindows(centre_BV2, stride_V * stride_BV, variance_BV.sqrt(), intensity_BV)

    def first(self) -> Tensor:
        """Numbers [V, 5] to begin with: windows over the middle half of a picture, whose filters overlap.

        Numbers of 0 would put a window's outer places at the corners of the picture, with filters of one pixel: a
        window of 2 x 2 then sees black alone, and a network learns nothing from it for thousands of steps.
        """
        widest = max(self.height, self.width) - 1
        strides = [max(1.0, _COVERED * widest / max(1, side - 1)) for side in self.sides]
        return torch.tensor([[0.0, 0.0, 2 * math.log(one / 2), math.log(_COVERED), 0.0] for one in strides])

    def filters(self, windows: PlacedWindows) -> Tensor:
        """F of every window, [B, V, 2, N, P]: of rows, then of columns. What lies beyond N or P of its own means
        nothing: see `by_window`."""
        _, _, _, offset_VN, beyond_2P, pixel_P = self._on(windows.stride_BV)
        middle_BVN = windows.stride_BV.unsqueeze(-1) * offset_VN
        places_BV2N = windows.centre_BV2.unsqueeze(-1) + middle_BVN.unsqueeze(2)
        sharpness_BV = windows.deviation_BV.square().mul(2).reciprocal()
        away_BV2NP = (pixel_P - places_BV2N.unsqueeze(-1)).square()
        return torch.softmax(beyond_2P.unsqueeze(1) - away_BV2NP * sharpness_BV[..., None, None, None], -1)

    def by_window(self, filters_BV2NP: Tensor) -> list[tuple[Tensor, Tensor]]:
        """F_y [B, N, H] and F_x [B, N, W] of every window.

        Cut all at once: each cut of its own would be a tensor of zeros and a sum in the backward pass.
        """
        cut, sizes = filters_BV2NP.flatten(1, 2).unbind(1), (self.height, self.width)
        return [
            (_first(cut[2 * window], side, sizes[0]), _first(cut[2 * window + 1], side, sizes[1]))
            for window, side in enumerate(self.sides)
        ]

    def _on(self, like: Tensor) -> tuple[Tensor, ...]:
        """What depends on the sizes alone, made once for a device."""
        key = (like.device, like.dtype)
        if key not in self._constants:
            most, longest = max(self.sides), max(self.height, self.width)
            sizes_2 = torch.tensor([self.height, self.width])
            pixel_P = torch.arange(longest)
            beyond_2P = torch.where(pixel_P < sizes_2[:, None], 0.0, -torch.inf)
            stride_V = torch.tensor([(longest - 1) / max(1, side - 1) for side in self.sides], dtype=torch.float64)
            offset_VN = torch.arange(most) - (torch.tensor(self.sides)[:, None] - 1) / 2
            made = ((sizes_2 - 1) / 2, (sizes_2 + 1) / 2, stride_V, offset_VN, beyond_2P, pixel_P)
            with torch.inference_mode(False):  # they serve later steps with gradients
                self._constants[key] = tuple(one.clone().to(like.device, like.dtype) for one in made)
        return self._constants[key]


def _first(filter_BNP: Tensor, side: int, pixels: int) -> Tensor:
    """The first places and pixels; the tensor itself where that is all of it."""
    return filter_BNP if filter_BNP.shape[1:] == (side, pixels) else filter_BNP[:, :side, :pixels]


def read_window(x_BHCW: Tensor, rows_BNH: Tensor, columns_BNW: Tensor) -> Tensor:
    """F_y x F_x' of every channel, [B, N, C, N]."""
    batch, side, (channels, width) = len(x_BHCW), rows_BNH.shape[1], x_BHCW.shape[2:]
    seen = torch.bmm(rows_BNH, x_BHCW.reshape(batch, -1, channels * width))
    seen = torch.bmm(seen.view(batch, side * channels, width), columns_BNW.transpose(1, 2))
    return seen.view(batch, side, channels, side)


def write_window(canvas_BHCW: Tensor, patch_BNCN: Tensor, rows_BNH: Tensor, columns_BNW: Tensor) -> Tensor:
    """The canvas with F_y' w F_x added to every channel."""
    batch, height, channels, width = canvas_BHCW.shape
    side = rows_BNH.shape[1]
    spread = torch.bmm(rows_BNH.transpose(1, 2), patch_BNCN.reshape(batch, side, channels * side))
    flat = canvas_BHCW.reshape(batch, height * channels, width)
    return torch.baddbmm(flat, spread.view(batch, height * channels, side), columns_BNW).view_as(canvas_BHCW)
