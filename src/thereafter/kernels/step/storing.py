"""How a stream stores the matrices it steps with: as they are, or in fewer bytes, in panels of a few vectors.

    bfloat16    the upper half of a float32: 8 bits of precision, its whole range
    int8        Q = round(w / s) with one scale s = max |w| / 127 for BLOCK columns of each row of the matrix

Products are taken in float32 with the numbers so stored, or as exactly: y = (s Q) x. A step of one row is bound by
reading weights, so that half or a quarter of the bytes is less time; what it costs in log p is in docs/streaming.md.
(One scale for a row, symmetric: Jacob et al. 2018; for blocks of a row: Dettmers et al. 2022.)

For products with int8 matrices rows become whole numbers of three digits: x = s (65536 d2 + 256 d1 + d0). Digits are
signed bytes, -128 to 127; s is one scale for BLOCK columns of a row, by the largest |x| of them. The error is below
2^-23 of that largest number, as that of float32 is. `loops.fours` has the compiled twin, which lays the digits out by
groups of columns. A block with a NaN or an infinite number has a scale that makes its products NaN.

Machine code is kept by the files that name `thereafter.base.compiled`, this one among them: BLOCK is part of it.

Shapes: B rows, G = gates H rows and K columns of a matrix, H units, N blocks of C = BLOCK columns; P panels, V vectors
of a panel, L numbers of a vector. A panel has U = L times a few units of all gates.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.errors import OptionError, nearest

Form = Literal["float32", "float64", "bfloat16", "int8", "int8 by fours"]
Narrow = Literal["bfloat16", "int8"]
NARROW: tuple[Narrow, ...] = get_args(Narrow)
BLOCK = 128
"""Columns with one scale."""
_STEPS = 127


def check_narrow(weights: str | None) -> Narrow | None:
    """Refuse a form that weights are not stored in."""
    for name in NARROW:
        if weights == name:
            return name
    if weights is None:
        return None
    raise OptionError(
        f"weights is {weights!r}; expected {' or '.join(map(repr, NARROW))}, or None for weights as they are; "
        f"{nearest(str(weights), [*NARROW])}"
    )


def quantised(weight_GK: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as int8 [G, K] and its scales [G, N]; a block of zeros has the scale 0."""
    rows, columns = weight_GK.shape
    blocks_GNC = F.pad(weight_GK, (0, -columns % BLOCK)).view(rows, -1, BLOCK)
    scale_GN = blocks_GNC.abs().amax(2) / _STEPS
    steps_GNC = torch.round(blocks_GNC / torch.where(scale_GN > 0, scale_GN, 1.0).unsqueeze(2))
    return steps_GNC.clamp_(-_STEPS, _STEPS).to(torch.int8).view(rows, -1)[:, :columns].contiguous(), scale_GN


def rounded(weight_GK: Tensor, narrow: Narrow | None) -> Tensor:
    """The numbers that a matrix stands for once it is stored, in its own type."""
    if narrow is None:
        return weight_GK
    if narrow == "bfloat16":
        return weight_GK.to(torch.bfloat16).to(weight_GK.dtype)
    steps_GK, scale_GN = quantised(weight_GK)
    return steps_GK * scale_GN.repeat_interleave(BLOCK, 1)[:, : weight_GK.shape[1]]


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


_GROUPS = {1: 4, 2: 2, 3: 1, 4: 1}
"""Vectors of a gate in a panel, by the number of gates: a panel has three or four."""


class PanelLayout(NamedTuple):
    """How a matrix of `gates` times `units` rows is cut into panels of vectors of `lanes` numbers."""

    gates: int
    units: int
    lanes: int

    @property
    def vectors(self) -> int:
        """V."""
        return self.gates * _GROUPS[self.gates]

    @property
    def panel_units(self) -> int:
        """U."""
        return _GROUPS[self.gates] * self.lanes

    @property
    def panels(self) -> int:
        """P."""
        return -(-self.units // self.panel_units)

    def cut(self, rows_GN: Tensor) -> Tensor:
        """The rows of a matrix as panels [P, N, V, L], zeros beyond the last unit."""
        columns = rows_GN.shape[1]
        whole = F.pad(rows_GN.view(self.gates, self.units, columns), (0, 0, 0, -self.units % self.panel_units))
        cut = whole.view(self.gates, self.panels, _GROUPS[self.gates], self.lanes, columns)
        return cut.permute(1, 4, 0, 2, 3).reshape(self.panels, columns, self.vectors, self.lanes)


class PackedMatrix(NamedTuple):
    """A matrix as a pass reads it, and its scales [P, N, V, L]: none but for int8."""

    panels: Tensor
    scales: Tensor


def pack_matrix(weight_GK: Tensor, layout: PanelLayout, form: Form) -> PackedMatrix:
    """A matrix in panels."""
    none = weight_GK.new_zeros(0)
    if form in ("int8", "int8 by fours"):
        steps_GK, scale_GN = quantised(weight_GK)
        panels_PKVL = layout.cut(steps_GK)
        panels = panels_PKVL.contiguous() if form == "int8" else _by_fours(panels_PKVL)
        return PackedMatrix(panels, layout.cut(scale_GN).contiguous())
    if form == "bfloat16":
        return PackedMatrix(_interleaved(layout.cut(weight_GK.to(torch.bfloat16).view(torch.int16))), none)
    return PackedMatrix(layout.cut(weight_GK).contiguous(), none)


def pack_bias(bias_G: Tensor, layout: PanelLayout) -> Tensor:
    """A bias [P, V, L]."""
    return layout.cut(bias_G.unsqueeze(1)).squeeze(1).contiguous()


def _by_fours(panels_PKVL: Tensor) -> Tensor:
    """Four columns of a row side by side, [P, K / 4, V, L, 4]; zeros beyond the last, up to a whole group."""
    panels, columns, vectors, lanes = panels_PKVL.shape
    whole = F.pad(panels_PKVL, (0, 0, 0, 0, 0, -columns % GROUP))
    return whole.view(panels, -1, 4, vectors, lanes).permute(0, 1, 3, 4, 2).contiguous()


def _interleaved(panels_PKVL: Tensor) -> Tensor:
    """Two vectors number by number; the last of three stands alone."""
    panels, columns, vectors, lanes = panels_PKVL.shape
    even = vectors // 2 * 2
    pairs = panels_PKVL[:, :, :even].view(panels, columns, even // 2, 2, lanes).transpose(3, 4)
    last = panels_PKVL[:, :, even:]
    return torch.cat([pairs.reshape(panels, columns, -1), last.reshape(panels, columns, -1)], dim=2).contiguous()
