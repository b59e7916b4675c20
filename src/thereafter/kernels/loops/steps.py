"""One streaming step of a gated cell, all but its matrix products. Importing this module imports numba.

Arrays: gates [B, G] hold the products and are overwritten; bias [G]; `own` is the cell's buffer, in which its state h
begins at column `h_at`; `out` is the next layer's, which gets h at `out_at`. `exact`: float64, the library's own tanh.
"""

from __future__ import annotations

from thereafter.compiled import jit
from thereafter.kernels.arrays import Floats
from thereafter.kernels.loops.activation import FAST, sigmoid_row, tanh_row


@jit(**FAST)
def lstm_step(
    gates: Floats, bias: Floats, c: Floats, own: Floats, h_at: int, out: Floats, out_at: int, exact: bool
) -> None:
    """Gates input, forget, cell, output; c [B, H]."""
    units = c.shape[1]
    for b in range(len(c)):
        row = gates[b]
        for j in range(len(row)):
            row[j] += bias[j]
        i_row, f_row, g_row, o_row = row[:units], row[units : 2 * units], row[2 * units : 3 * units], row[3 * units :]
        sigmoid_row(row[: 2 * units], exact)
        tanh_row(g_row, exact)
        sigmoid_row(o_row, exact)
        cell, h, shown = c[b], own[b, h_at : h_at + units], out[b, out_at : out_at + units]
        for j in range(units):
            cell[j] = f_row[j] * cell[j] + i_row[j] * g_row[j]
        for j in range(units):
            g_row[j] = cell[j]
        tanh_row(g_row, exact)
        for j in range(units):
            h[j] = o_row[j] * g_row[j]
        for j in range(units):
            shown[j] = h[j]


@jit(**FAST)
def gru_after_step(
    x_gates: Floats,
    h_gates: Floats,
    x_bias: Floats,
    h_bias: Floats,
    own: Floats,
    h_at: int,
    out: Floats,
    out_at: int,
    old: bool,
    exact: bool,
) -> None:
    """Gates reset, update, new: W x and U h apart, since the reset gate multiplies the latter."""
    units = x_gates.shape[1] // 3
    for b in range(len(x_gates)):
        row, u_row = x_gates[b], h_gates[b]
        for j in range(len(row)):
            row[j] += x_bias[j]
        for j in range(len(row)):
            u_row[j] += h_bias[j]
        for j in range(2 * units):
            row[j] += u_row[j]
        sigmoid_row(row[: 2 * units], exact)
        r_row, n_row, u_new = row[:units], row[2 * units :], u_row[2 * units :]
        for j in range(units):
            n_row[j] += r_row[j] * u_new[j]
        tanh_row(n_row, exact)
        _mix(row[units : 2 * units], n_row, own[b, h_at : h_at + units], out[b, out_at : out_at + units], old)


@jit(**FAST)
def gru_before_gates(gates: Floats, bias: Floats, own: Floats, h_at: int, reset_at: int, exact: bool) -> None:
    """Gates reset and update; r h goes to column `reset_at` of the own buffer."""
    units = gates.shape[1] // 2
    for b in range(len(gates)):
        row = gates[b]
        for j in range(len(row)):
            row[j] += bias[j]
        sigmoid_row(row, exact)
        h, reset_h = own[b, h_at : h_at + units], own[b, reset_at : reset_at + units]
        for j in range(units):
            reset_h[j] = row[j] * h[j]


@jit(**FAST)
def gru_before_mix(
    gates: Floats, new: Floats, bias: Floats, own: Floats, h_at: int, out: Floats, out_at: int, old: bool, exact: bool
) -> None:
    """The candidate's product `new` [B, H], and the new state."""
    units = new.shape[1]
    for b in range(len(new)):
        n_row = new[b]
        for j in range(units):
            n_row[j] += bias[j]
        tanh_row(n_row, exact)
        _mix(gates[b, units:], n_row, own[b, h_at : h_at + units], out[b, out_at : out_at + units], old)


@jit(**FAST)
def _mix(z_row: Floats, n_row: Floats, h: Floats, shown: Floats, old: bool) -> None:
    if old:
        for j in range(len(h)):
            h[j] = n_row[j] + z_row[j] * (h[j] - n_row[j])
    else:
        for j in range(len(h)):
            h[j] = h[j] + z_row[j] * (n_row[j] - h[j])
    for j in range(len(h)):
        shown[j] = h[j]
