"""How a stream stores the matrices it steps with: as they are, or in fewer bytes.

    bfloat16    the upper half of a float32: 8 bits of precision, its whole range
    int8        Q = round(w / s) with one scale s = max |w| / 127 for BLOCK columns of each row of the matrix

Products are taken in float32 with the numbers so stored, or as exactly (`digits`): y = (s Q) x. A step of one row is
bound by reading weights, so that half or a quarter of the bytes is less time; what it costs in log p is in
docs/streaming.md. (One scale for a row, symmetric: Jacob et al. 2018; for blocks of a row: Dettmers et al. 2022.)

Machine code is kept by the files that name `thereafter.compiled`, this one among them: BLOCK is part of it.

Shapes: G rows and K columns of a matrix, N blocks.
"""

from __future__ import annotations

from typing import Literal, get_args

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
