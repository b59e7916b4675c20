"""The matrix products of a training: one precision, and one library from its first step to its last."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from thereafter.kernels.onednn import spared


def steady_products(precision: str | None, device: torch.device) -> AbstractContextManager[None]:
    """The block in which a training of that precision runs.

    On a CPU without instructions for bfloat16 torch would switch oneDNN off at the first product that fails, half way
    through a step, and leave it off for whatever the process does next.
    """
    return spared(torch.bfloat16) if precision == "bfloat16" and device.type == "cpu" else nullcontext()


def mixed_products(precision: str | None, device: torch.device) -> AbstractContextManager[object]:
    """The block in which the loss of a step is computed: products in bfloat16 where that is the precision."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()
