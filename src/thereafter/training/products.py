"""One library computes the matrix products of a training from its first step to its last."""

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
