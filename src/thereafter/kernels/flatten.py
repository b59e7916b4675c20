"""Weights in one piece of memory, as cuDNN wants them: else it copies them together at every call, with a warning."""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.cells.base import Cell, Weights
from thereafter.kernels.functions import backends
from thereafter.kernels.vendor import cudnn_mode


def flatten_weights(cell: Cell, weights: Weights) -> None:
    """Move the weights of a cell that cuDNN can run into one buffer, in cuDNN's order; all other cells are left alone.

    The parameters stay the same objects with the same values; only where their numbers lie changes.
    """
    mode = cudnn_mode(cell)
    names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    flat = [weights[name] for name in names if name in weights]
    if mode is None or cell.bias == "one" or not all(_acceptable(weight) for weight in flat):
        return
    if len({weight.dtype for weight in flat}) > 1 or len({weight.data_ptr() for weight in flat}) < len(flat):
        return
    import torch.backends.cudnn.rnn

    projected = 0 if cell.output_size == cell.hidden_size else cell.output_size
    number = backends().cudnn.rnn.get_cudnn_mode(mode)
    with torch.cuda.device(flat[0].device), torch.no_grad():
        torch._cudnn_rnn_flatten_weight(
            flat, len(flat), cell.input_size, number, cell.hidden_size, projected, 1, True, False
        )


def _acceptable(weight: Tensor) -> bool:
    # torch.backends.cudnn.is_acceptable knows nothing of bfloat16, which cuDNN's recurrent layers take
    cudnn = backends().cudnn
    known = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    return bool(weight.is_cuda and cudnn.is_available() and cudnn.enabled and weight.dtype in known)
