"""One step of the LSTM forward and backward, all but its matrix products.

Arrays are whole sequences, time first, so that they cross into compiled code once: T steps, B rows, H units;
gates [T, B, 4H] in the order input, forget, cell, output (a coupled cell has no forget block: 3H). `peephole` is [3, H]
(input, forget, output) or empty, `lengths` [B] or empty.
"""

from __future__ import annotations

from typing import Any

from thereafter.compiled import jit
from thereafter.kernels.loops.activation import FAST, sigmoid_row, tanh_row


@jit(**FAST)
def lstm_forward(
    t: int, keep: int, gates: Any, c: Any, shown: Any, m: Any, peephole: Any, coupled: bool, lengths: Any, exact: bool
) -> None:
    """Turn the pre-activations of step t into gates, cell and output.

    `gates[t]` is worked on in place; `c[t]` is read and `c[t + 1]` written; `shown[keep]` gets tanh(c); `m[t + 1]`
    gets o tanh(c), for rows that are over (t >= lengths) the value before.
    """
    for b in range(c.shape[1]):
        if len(lengths) and t >= lengths[b]:
            c[t + 1, b] = c[t, b]
            m[t + 1, b] = m[t, b]
            continue
        new_cell(gates[t, b], c[t, b], c[t + 1, b], peephole, coupled, exact)
        shown[keep, b] = c[t + 1, b]
        output(gates[t, b], shown[keep, b], m[t + 1, b], exact)


@jit(**FAST)
def lstm_backward(
    t: int, gates: Any, c: Any, shown: Any, dm: Any, dc: Any, dz: Any, d_peephole: Any, peephole: Any, coupled: bool,
    lengths: Any,
) -> None:  # fmt: skip
    """The gradient of step t's pre-activations, `dz[t]`, and in `dc` [B, H] that of c before the step.

    `dm` [B, H] is the gradient of o tanh(c) of this step. Rows that are over get dz = 0 and keep their dc. `d_peephole`
    is added to.
    """
    for b in range(c.shape[1]):
        if len(lengths) and t >= lengths[b]:
            dz[t, b] = 0
            continue
        units = c.shape[2]
        o_row, tanh_c, dout, d = gates[t, b, gates.shape[2] - units :], shown[t, b], dm[b], dc[b]
        for j in range(units):
            d[j] += dout[j] * o_row[j] * (1 - tanh_c[j] * tanh_c[j])
        gate_gradients(gates[t, b], c[t, b], tanh_c, dout, d, dz[t, b], peephole, coupled)
        if len(peephole):
            peephole_gradients(dz[t, b], c[t, b], c[t + 1, b], d_peephole, coupled)


@jit(**FAST)
def new_cell(gates: Any, old: Any, new: Any, peephole: Any, coupled: bool, exact: bool) -> None:
    """One row: activate all gates, the output gate after it has seen the new cell."""
    units = len(old)
    blocks = len(gates) // units
    i_row, f_row = gates[:units], gates[units : 2 * units]
    g_row, o_row = gates[(blocks - 2) * units : (blocks - 1) * units], gates[(blocks - 1) * units :]
    if len(peephole):
        for j in range(units):
            i_row[j] += peephole[0, j] * old[j]
        if not coupled:
            for j in range(units):
                f_row[j] += peephole[1, j] * old[j]
    sigmoid_row(gates[: (blocks - 2) * units], exact)  # the input gate, and the forget gate where there is one
    tanh_row(g_row, exact)
    if coupled:
        for j in range(units):
            new[j] = old[j] + i_row[j] * (g_row[j] - old[j])
    else:
        for j in range(units):
            new[j] = f_row[j] * old[j] + i_row[j] * g_row[j]
    if len(peephole):
        for j in range(units):
            o_row[j] += peephole[2, j] * new[j]
    sigmoid_row(o_row, exact)


@jit(**FAST)
def output(gates: Any, shown: Any, out: Any, exact: bool) -> None:
    """One row: tanh of what the output gate is to show, in place, and the output."""
    tanh_row(shown, exact)
    o_row = gates[len(gates) - len(shown) :]
    for j in range(len(shown)):
        out[j] = o_row[j] * shown[j]


@jit(**FAST)
def gate_gradients(gates: Any, old: Any, tanh_c: Any, dout: Any, d: Any, dz: Any, peephole: Any, coupled: bool) -> None:
    """One row: from the gradients of output and cell, `d`, those of all gates; `d` becomes that of the old cell."""
    units = len(old)
    blocks = len(gates) // units
    i_row, f_row = gates[:units], gates[units : 2 * units]
    g_row, o_row = gates[(blocks - 2) * units : (blocks - 1) * units], gates[(blocks - 1) * units :]
    di, df = dz[:units], dz[units : 2 * units]
    dg, do = dz[(blocks - 2) * units : (blocks - 1) * units], dz[(blocks - 1) * units :]
    for j in range(units):
        do[j] = dout[j] * tanh_c[j] * o_row[j] * (1 - o_row[j])
    if len(peephole):
        for j in range(units):
            d[j] += do[j] * peephole[2, j]
    for j in range(units):
        dg[j] = d[j] * i_row[j] * (1 - g_row[j] * g_row[j])
    if coupled:
        for j in range(units):
            di[j] = d[j] * (g_row[j] - old[j]) * i_row[j] * (1 - i_row[j])
        for j in range(units):
            d[j] *= 1 - i_row[j]
    else:
        for j in range(units):
            di[j] = d[j] * g_row[j] * i_row[j] * (1 - i_row[j])
        for j in range(units):
            df[j] = d[j] * old[j] * f_row[j] * (1 - f_row[j])
        for j in range(units):
            d[j] *= f_row[j]
    if len(peephole):
        for j in range(units):
            d[j] += di[j] * peephole[0, j]
        if not coupled:
            for j in range(units):
                d[j] += df[j] * peephole[1, j]


@jit(**FAST)
def peephole_gradients(dz: Any, old: Any, new: Any, d_peephole: Any, coupled: bool) -> None:
    """One row: add what each peephole saw, times the gradient of its gate."""
    units = len(old)
    for j in range(units):
        d_peephole[0, j] += dz[j] * old[j]
    do = dz[len(dz) - units :]
    for j in range(units):
        d_peephole[2, j] += do[j] * new[j]
    if not coupled:
        df = dz[units : 2 * units]
        for j in range(units):
            d_peephole[1, j] += df[j] * old[j]
