"""The activation of the simple recurrent network, and its derivative computed from its output. Arrays [T, B, H]."""

from __future__ import annotations

from thereafter.compiled import jit
from thereafter.kernels.arrays import Floats, Whole
from thereafter.kernels.loops.activation import FAST, sigmoid_row, tanh_row

TANH, RELU, LEAKY, RELU6, SIGMOID, IDENTITY = range(6)
_SLOPE = 0.01  # of the leaky relu below 0


@jit(**FAST)
def elman_forward(t: int, h: Floats, kind: int, lengths: Whole, exact: bool) -> None:
    """h[t + 1] holds the pre-activations and becomes the state."""
    for b in range(h.shape[1]):
        row = h[t + 1, b]
        if len(lengths) and t >= lengths[b]:
            row[:] = h[t, b]
        elif kind == TANH:
            tanh_row(row, exact)
        elif kind == SIGMOID:
            sigmoid_row(row, exact)
        elif kind != IDENTITY:
            slope = row.dtype.type(_SLOPE if kind == LEAKY else 0.0)
            for j in range(len(row)):
                row[j] = row[j] * slope if row[j] < 0 else row[j]
            if kind == RELU6:
                six = row.dtype.type(6.0)
                for j in range(len(row)):
                    row[j] = six if row[j] > six else row[j]


@jit(**FAST)
def elman_backward(t: int, h: Floats, dh: Floats, dz: Floats, kind: int, lengths: Whole) -> None:
    """dz[t] = dh f'(.); finished rows get 0 and keep their dh, the others' dh becomes 0."""
    for b in range(h.shape[1]):
        out, d, row = h[t + 1, b], dh[b], dz[t, b]
        if len(lengths) and t >= lengths[b]:
            row[:] = 0
            continue
        if kind == TANH:
            for j in range(len(row)):
                row[j] = d[j] * (1 - out[j] * out[j])
        elif kind == SIGMOID:
            for j in range(len(row)):
                row[j] = d[j] * out[j] * (1 - out[j])
        elif kind == IDENTITY:
            row[:] = d
        else:
            slope = row.dtype.type(_SLOPE if kind == LEAKY else 0.0)
            top = row.dtype.type(6.0 if kind == RELU6 else float("inf"))
            for j in range(len(row)):
                row[j] = (d[j] if out[j] > 0 else slope * d[j]) if out[j] < top else 0
        d[:] = 0
