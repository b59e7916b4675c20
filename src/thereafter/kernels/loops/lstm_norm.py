"""One step of the layer-norm LSTM, all but its matrix products: `loops.lstm` with U h and c normalised row by row.

`hat` [T, B, 4H] and `hat_c` [T, B, H] are normalised values, `scale` and `scale_c` [T, B] one over their deviations.
"""

from __future__ import annotations

import math
from typing import Any

from thereafter.compiled import jit
from thereafter.kernels.loops.activation import FAST
from thereafter.kernels.loops.lstm import gate_gradients, new_cell, output, peephole_gradients


@jit(**FAST)
def lstm_norm_forward(
    t: int, keep: int, product: Any, gates: Any, c: Any, shown: Any, m: Any, hat: Any, scale: Any, hat_c: Any,
    scale_c: Any, gain: Any, gain_c: Any, peephole: Any, coupled: bool, lengths: Any, epsilon: float, exact: bool,
) -> None:  # fmt: skip
    """As `lstm_forward`; `gates[t]` holds z and `product` [B, 4H] is U h; `gain_c` [2, H] holds gain and shift."""
    for b in range(c.shape[1]):
        if len(lengths) and t >= lengths[b]:
            c[t + 1, b] = c[t, b]
            m[t + 1, b] = m[t, b]
            continue
        scale[keep, b] = _normalise(product[b], hat[keep, b], epsilon)
        pre, hat_row = gates[t, b], hat[keep, b]
        for j in range(len(pre)):
            pre[j] += gain[j] * hat_row[j]
        new_cell(pre, c[t, b], c[t + 1, b], peephole, coupled, exact)
        scale_c[keep, b] = _normalise(c[t + 1, b], hat_c[keep, b], epsilon)
        row, hat_row = shown[keep, b], hat_c[keep, b]
        for j in range(len(row)):
            row[j] = gain_c[0, j] * hat_row[j] + gain_c[1, j]
        output(pre, row, m[t + 1, b], exact)


@jit(**FAST)
def lstm_norm_backward(
    t: int, gates: Any, c: Any, shown: Any, hat: Any, scale: Any, hat_c: Any, scale_c: Any, dm: Any, dc: Any, dz: Any,
    du: Any, d_gain: Any, d_gain_c: Any, d_peephole: Any, gain: Any, gain_c: Any, peephole: Any, coupled: bool,
    lengths: Any,
) -> None:  # fmt: skip
    """As `lstm_backward`; `du[t]` is the gradient of U h; those of gains and peepholes are added to."""
    units = c.shape[2]
    for b in range(c.shape[1]):
        if len(lengths) and t >= lengths[b]:
            dz[t, b] = 0
            du[t, b] = 0
            continue
        o_row, tanh_c, dout, d = gates[t, b, gates.shape[2] - units :], shown[t, b], dm[b], dc[b]
        hat_row, spare = hat_c[t, b], du[t, b, :units]  # du is free until the end: room for one row
        for j in range(units):
            spare[j] = dout[j] * o_row[j] * (1 - tanh_c[j] * tanh_c[j])
        for j in range(units):
            d_gain_c[0, j] += spare[j] * hat_row[j]
        for j in range(units):
            d_gain_c[1, j] += spare[j]
        for j in range(units):
            spare[j] *= gain_c[0, j]
        _through(spare, hat_row, scale_c[t, b])
        for j in range(units):
            d[j] += spare[j]
        gate_gradients(gates[t, b], c[t, b], tanh_c, dout, d, dz[t, b], peephole, coupled)
        if len(peephole):
            peephole_gradients(dz[t, b], c[t, b], c[t + 1, b], d_peephole, coupled)
        row, from_row, hat_row = du[t, b], dz[t, b], hat[t, b]
        for j in range(len(row)):
            d_gain[j] += from_row[j] * hat_row[j]
        for j in range(len(row)):
            row[j] = from_row[j] * gain[j]
        _through(row, hat_row, scale[t, b])


@jit(**FAST)
def _normalise(x: Any, hat: Any, epsilon: float) -> Any:
    """hat = (x - mean) / deviation; returns 1 / deviation."""
    total = x[0] - x[0]
    for j in range(len(x)):
        total += x[j]
    mean = total / x.dtype.type(len(x))
    spread = x[0] - x[0]
    for j in range(len(x)):
        spread += (x[j] - mean) * (x[j] - mean)
    scale = x.dtype.type(1.0 / math.sqrt(spread / len(x) + epsilon))
    for j in range(len(x)):
        hat[j] = (x[j] - mean) * scale
    return scale


@jit(**FAST)
def _through(d: Any, hat: Any, scale: Any) -> None:
    """The gradient of the normalised values becomes that of the values, in place."""
    total = d[0] - d[0]
    along = d[0] - d[0]
    for j in range(len(d)):
        total += d[j]
        along += d[j] * hat[j]
    mean, slope = total / d.dtype.type(len(d)), along / d.dtype.type(len(d))
    for j in range(len(d)):
        d[j] = scale * (d[j] - mean - hat[j] * slope)
