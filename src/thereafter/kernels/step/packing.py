"""Matrices laid out for the passes of a stream: panels of a few vectors, in the form they are stored in.

Shapes: G = gates H rows and K columns of a matrix, H units; P panels, V vectors of a panel, L numbers of a vector, N
blocks of columns. A panel has U = L times a few units of all gates.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.kernels.step.digits import GROUP
from thereafter.kernels.step.storing import Form, quantised

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
