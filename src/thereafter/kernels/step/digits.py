"""Rows as whole numbers of three digits, for products with int8 matrices: x = s (65536 d2 + 256 d1 + d0).

Digits are signed bytes, -128 to 127; s is one scale for BLOCK columns of a row, by the largest |x| of them. The error
is below 2^-23 of that largest number, as that of float32 is. `loops.fours` has the compiled twin, which lays the digits
out by groups of columns. A block with a NaN or an infinite number has a scale that makes its products NaN.

Shapes: B rows, K columns, N blocks, C = BLOCK columns of one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.kernels.step.storing import BLOCK

DIGITS, GROUP = 3, 16
"""Digits of a number; columns whose digits lie together."""
LARGEST = 8_300_000.0
"""The whole number that the largest |x| becomes: below 127 x 65536, so that no digit overflows."""
SMALLEST = 1e-30
"""What the largest |x| is taken for where it is less: a scale must be a float32 number, and so must one over it."""


def cut_into_digits(x_BK: Tensor) -> tuple[Tensor, Tensor]:
    """The digits [B, N, DIGITS, C], the highest first, zeros beyond the last column, and the scales [B, N]."""
    rows, columns = x_BK.shape
    x_BNC = F.pad(x_BK, (0, -columns % BLOCK)).view(rows, -1, BLOCK)
    largest_BN = x_BNC.abs().amax(2).clamp_min(SMALLEST)
    times_BN = torch.full_like(largest_BN, LARGEST) / largest_BN  # torch divides a plain number by another way
    whole_BNC = torch.round(x_BNC * times_BN.unsqueeze(2)).nan_to_num(0.0).to(torch.int32)
    digits = []
    for _ in range(DIGITS):
        digits.append(((whole_BNC + 128) % 256 - 128).to(torch.int8))
        whole_BNC = (whole_BNC + 128) >> 8
    return torch.stack(digits[::-1], dim=2), largest_BN * (1.0 / LARGEST)
