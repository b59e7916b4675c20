"""What backpropagation through time has to remember, by length of the sequence and of the pieces it is cut into.

Counted twice: the hidden states our own backpropagation keeps (`layers.bptt`), which is all the backward pass of an RNN
needs; and what autograd keeps of the same steps run by the plain loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from thereafter.base import progress
from thereafter.cells.base import HState
from thereafter.cells.elman import Elman
from thereafter.inspection.measurement import Measurement
from thereafter.kernels.scan import unroll
from thereafter.layers.bptt import bptt, saved_for_backward

BPTT_MEMORY = "bptt-memory"


def bptt_memory(
    lengths: Sequence[int] = (64, 128, 256, 512, 1024),
    truncations: Sequence[int | None] = (None, 140, 35),
    *,
    batch: int = 8,
    hidden: int = 64,
) -> Measurement:
    """Bytes a tanh RNN keeps at once, in float32. Arrays: `states`, `autograd` [truncation, length].

    A truncation of None goes over the whole sequence; among the numbers of the axis it is 0.
    """
    shape = (len(truncations), len(lengths))
    states, graph = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    drawn = torch.Generator().manual_seed(0)
    W, U = (torch.randn(hidden, hidden, generator=drawn) / hidden**0.5 for _ in range(2))
    b, h0 = torch.zeros(hidden), torch.zeros(batch, hidden)
    with progress.task("memory of backpropagation", total=len(truncations) * sum(lengths)) as advance:
        for column, steps in enumerate(lengths):
            x_BTI = torch.randn(batch, steps, hidden, generator=drawn)
            for row, size in enumerate(truncations):
                states[row, column] = bptt(x_BTI, h0, W, U, b, _all_ones, truncation=size).stored_bytes
                graph[row, column] = _by_autograd(x_BTI[:, : size or steps], h0, W, U, b)
                advance(steps)
    arrays = {"states": states, "autograd": graph, "length": np.array(lengths)}
    arrays["truncation"] = np.array([size or 0 for size in truncations])
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(("states", "autograd"), ("truncation", "length"))
    axes |= {"length": ("length",), "truncation": ("truncation",)}
    about = {"model": f"rnn, {hidden} units", "text": f"random numbers, {batch} rows", "batch": batch, "hidden": hidden}
    return Measurement(BPTT_MEMORY, arrays, axes, about)


def _all_ones(h_BSH: Tensor, start: int) -> Tensor:
    """The gradient of the sum of all states."""
    return torch.ones_like(h_BSH)


def _by_autograd(x_BSI: Tensor, h0: Tensor, W: Tensor, U: Tensor, b: Tensor) -> int:
    """Bytes autograd keeps of one piece, run by the plain loop: pieces are worked through one after the other."""
    cell = Elman(W.shape[1], W.shape[0], bias="one")
    weights = {"weight_ih": W, "weight_hh": U, "bias_ih": b}
    weights = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    with saved_for_backward() as saved:
        unroll(cell, x_BSI, HState(h0), weights, kernel="reference")
    return saved.bytes
