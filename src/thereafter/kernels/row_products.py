"""Products of some rows with a large matrix that is laid out for them once: y = x W^T + b.

Torch's own product lays W out anew each time, which for up to some hundred rows costs as much as the product itself;
oneDNN, which is part of torch, keeps the layout. Its rows are independent: a row gets the same bits whoever is beside
it, as long as there are two at least. (MKL rounds in another order where there are fewer than about 16.)

Shapes: B rows, I inputs, O outputs.
"""

from __future__ import annotations

import platform
from functools import cache

import torch
from torch import Tensor

from thereafter.kernels import onednn

FEWEST, MOST = 1 << 18, 1 << 27
"""Numbers of a matrix: smaller ones are not worth the call, larger ones not a second copy in memory."""
ROWS = 64
"""The number of rows the layout is chosen for."""


def can_pack(weight_OI: Tensor) -> bool:
    """Whether a matrix can be laid out, and is of a size for which it pays."""
    return (
        FEWEST <= weight_OI.numel() <= MOST
        and weight_OI.dtype == torch.float32
        and weight_OI.device.type == "cpu"
        and onednn.enabled()
        and _known()
    )


def pack(weight_OI: Tensor) -> Tensor:
    """The matrix in oneDNN's own layout, for `multiply` alone."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI.detach().contiguous(), ROWS)
    return packed


def multiply(x_BI: Tensor, packed_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b, [B, O], without gradients."""
    y_BO: Tensor = torch.ops.mkldnn._linear_pointwise(x_BI, packed_OI, bias_O, "none", [], "")
    return y_BO


@cache
def _known() -> bool:
    """Whether torch has these products; on other processors than Intel's and AMD's they have not been measured."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return platform.machine().lower() in ("x86_64", "amd64") and all(hasattr(torch.ops.mkldnn, name) for name in names)
