"""The LSTM between its matrix products: rows of a step, forward and backward.

Arrays are whole sequences, time first: T steps, B rows, H units; gates [T, B, 4H] in the order input, forget, cell,
output (a coupled cell has no forget block: 3H). `peephole` is [3, H] (input, forget, output) or empty, `lengths` [B] or
empty. Every loop works on the units `first` to `last` of a row, so that several threads can share one.
"""

from __future__ import annotations

from collections.abc import Callable

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import Floats, Whole
from thereafter.kernels.loops.vectors import Lanes, Number, gates_of, row_loop, tanh

_GATES = ("i", "f", "g", "o")
_PEEPHOLES = ("peephole_i", "peephole_f", "peephole_o")


def cell_formula(v: Lanes, peephole: bool, coupled: bool) -> tuple[Number, Number]:
    """i, f, g, o are pre-activations and become gates; returns o and the new cell."""
    old, i, g, o = v["old"], v["i"], v["g"], v["o"]
    if peephole:
        i = i + v["peephole_i"] * old
    if coupled:
        i, g = gates_of([i], [g])
        new = old + i * (g - old)
        f = None
    else:
        f = v["f"] + v["peephole_f"] * old if peephole else v["f"]
        if peephole:
            i, f, g = gates_of([i, f], [g])
        else:
            i, f, o, g = gates_of([i, f, o], [g])
        new = f * old + i * g
        v["f"] = f
    if peephole:
        o = o + v["peephole_o"] * new
    if peephole or coupled:
        (o,) = gates_of([o], [])
    v["i"], v["g"], v["o"], v["new"] = i, g, o, new
    return o, new


def _back(v: Lanes, dm: Number, dc: Number, shown: Number, peephole: bool, coupled: bool) -> None:
    """The gradients of all gates and of the old cell, from dm, the gradient of m = o shown, and from dc, that of the
    new cell, to which the part through m has been added. They may take the place of the gates and of dc.
    """
    i, g, o, old = v["i"], v["g"], v["o"], v["old"]
    do = dm * shown * o * (1.0 - o)
    if peephole:
        dc = dc + do * v["peephole_o"]
        v["to_o"] = v["to_o"] + do * v["new"]
    dg = dc * i * (1.0 - g * g)
    if coupled:
        di = dc * (g - old) * i * (1.0 - i)
        before = dc * (1.0 - i)
    else:
        f = v["f"]
        di = dc * g * i * (1.0 - i)
        df = dc * old * f * (1.0 - f)
        before = dc * f
        if peephole:
            before = before + df * v["peephole_f"]
            v["to_f"] = v["to_f"] + df * old
        v["df"] = df
    if peephole:
        before = before + di * v["peephole_i"]
        v["to_i"] = v["to_i"] + di * old
    v["di"], v["dg"], v["do"], v["dc"] = di, dg, do, before


def _forward_loop(peephole: bool, coupled: bool) -> Callable[..., None]:
    def formula(v: Lanes) -> None:
        o, new = cell_formula(v, peephole, coupled)
        m = o * tanh(new)
        v["m"], v["y"] = m, m

    return row_loop(formula, *_GATES, "old", "new", "m", "y", *_PEEPHOLES)


def _backward_loop(peephole: bool, coupled: bool) -> Callable[..., None]:
    def formula(v: Lanes) -> None:
        shown, dm = tanh(v["new"]), v["dm"] + v["dy"]
        _back(v, dm, v["dc"] + dm * v["o"] * (1.0 - shown * shown), shown, peephole, coupled)
        v["dm"] = v.constant(0.0)  # the product of the step before is added to it
        for gate in ("i", "g", "o") if coupled else _GATES:
            v[f"sum_{gate}"] = v[f"sum_{gate}"] + v[f"d{gate}"]

    return row_loop(formula, *_BACK, *_SUMS)


def cell_loop(peephole: bool, coupled: bool) -> Callable[..., None]:
    """Gates and new cell alone, for a cell that is normalised before tanh. It takes the addresses of a forward loop."""

    def formula(v: Lanes) -> None:
        cell_formula(v, peephole, coupled)

    return row_loop(formula, *_GATES, "old", "new", "m", "y", *_PEEPHOLES)


def gates_back_loop(peephole: bool, coupled: bool) -> Callable[..., None]:
    """The backward pass of the gates where dc is already whole; `shown` is what the output gate multiplies, before
    tanh."""

    def formula(v: Lanes) -> None:
        _back(v, v["dm"], v["dc"], tanh(v["shown"]), peephole, coupled)

    return row_loop(formula, *_BACK)


_BACK = (*_GATES, "old", "new", "shown", "dm", "dy", "dc", "di", "df", "dg", "do", *_PEEPHOLES, "to_i", "to_f", "to_o")
_SUMS = ("sum_i", "sum_f", "sum_g", "sum_o")
_plain, _coupled = _forward_loop(False, False), _forward_loop(False, True)
_peephole, _peephole_coupled = _forward_loop(True, False), _forward_loop(True, True)
_plain_back, _coupled_back = _backward_loop(False, False), _backward_loop(False, True)
_peephole_back, _peephole_coupled_back = _backward_loop(True, False), _backward_loop(True, True)


@jit()
def lstm_forward(
    t: int,
    gates: Floats,
    c: Floats,
    m: Floats,
    y: Floats,
    peephole: Floats,
    coupled: bool,
    lengths: Whole,
    first: int,
    last: int,
) -> None:
    """Turn the pre-activations of step t into gates, cell and output.

    `gates[t]` is worked on in place; `c[t]` is read and `c[t + 1]` written; `m[t + 1]` and `y[:, t]` get o tanh(c). In
    finished rows (t >= lengths) m keeps its value and y is 0. An array of fewer steps is used in a circle: step t is
    found at t modulo its length.
    """
    rows, old, new = gates[t % len(gates)], c[t % len(c)], c[(t + 1) % len(c)]
    before, after = m[t % len(m)], m[(t + 1) % len(m)]
    for b in range(c.shape[1]):
        if len(lengths) and t >= lengths[b]:
            copy_row(old[b], new[b], first, last)
            copy_row(before[b], after[b], first, last)
            clear_row(y[b, t], first, last)
        else:
            places = forward_places(rows[b], old[b], new[b], after[b], y[b, t], peephole, first)
            if len(peephole) and coupled:
                _peephole_coupled(gates, last - first, places)
            elif len(peephole):
                _peephole(gates, last - first, places)
            elif coupled:
                _coupled(gates, last - first, places)
            else:
                _plain(gates, last - first, places)


@jit()
def lstm_backward(
    t: int, gates: Floats, c: Floats, dy: Floats, dm: Floats, dc: Floats, dz: Floats, d_bias: Floats,
    d_peephole: Floats, peephole: Floats, coupled: bool, lengths: Whole, first: int, last: int,
) -> None:  # fmt: skip
    """The gradient of step t's pre-activations, `dz[t]`, and in `dc` [B, H] that of c before the step.

    The gradient of o tanh(c) of this step is `dm` [B, H] and `dy[:, t]` together; `dm` is 0 afterwards. Finished rows
    get dz = 0 and keep their dc and dm. `d_bias` [G] and `d_peephole` are added to. `dz` may be the gates
    themselves.
    """
    for b in range(c.shape[1]):
        if len(lengths) and t >= lengths[b]:
            clear_gates(dz[t, b], c.shape[2], first, last)
        else:
            row, new = gates[t, b], c[t + 1, b]
            places = backward_places(
                row, c[t, b], new, new, dm[b], dy[b, t], dc[b], dz[t, b], d_peephole, peephole, first
            ) + gate_places(d_bias, c.shape[2], first)
            if len(peephole) and coupled:
                _peephole_coupled_back(gates, last - first, places)
            elif len(peephole):
                _peephole_back(gates, last - first, places)
            elif coupled:
                _coupled_back(gates, last - first, places)
            else:
                _plain_back(gates, last - first, places)


@jit()
def copy_row(given: Floats, to: Floats, first: int, last: int) -> None:
    """Own units of a row. (A slice assigned to a slice would compile numba's error texts with it, for seconds.)"""
    for j in range(first, last):
        to[j] = given[j]


@jit()
def clear_row(row: Floats, first: int, last: int) -> None:
    """A part of a row to 0."""
    for j in range(first, last):
        row[j] = 0


@jit()
def clear_gates(row: Floats, units: int, first: int, last: int) -> None:
    """Own units of every gate of a row to 0."""
    for block in range(len(row) // units):
        clear_row(row, block * units + first, block * units + last)


@jit()
def gate_places(row: Floats, units: int, first: int) -> tuple[int, int, int, int]:
    """The addresses of a row's gates i, f, g, o. A coupled cell has no f: its address is then any, and never read."""
    size = row.itemsize
    blocks, i = len(row) // units, row.ctypes.data + first * size
    return i, i + units * size, i + (blocks - 2) * units * size, i + (blocks - 1) * units * size


@jit()
def forward_places(
    row: Floats, old: Floats, new: Floats, m: Floats, y: Floats, peephole: Floats, first: int
) -> tuple[int, ...]:
    """The addresses that a forward loop takes, in the order of its names."""
    units, size = len(old), row.itemsize
    p = peephole.ctypes.data + first * size
    return (
        *gate_places(row, units, first),
        old.ctypes.data + first * size, new.ctypes.data + first * size, m.ctypes.data + first * size,
        y.ctypes.data + first * size, p, p + units * size, p + 2 * units * size,
    )  # fmt: skip


@jit()
def backward_places(
    row: Floats, old: Floats, new: Floats, shown: Floats, dm: Floats, dy: Floats, dc: Floats, dz: Floats,
    d_peephole: Floats, peephole: Floats, first: int,
) -> tuple[int, ...]:  # fmt: skip
    """The addresses that a backward loop takes, in the order of its names."""
    units, size = len(old), row.itemsize
    second = units * size
    p, to = peephole.ctypes.data + first * size, d_peephole.ctypes.data + first * size
    return (
        *gate_places(row, units, first), old.ctypes.data + first * size, new.ctypes.data + first * size,
        shown.ctypes.data + first * size, dm.ctypes.data + first * size, dy.ctypes.data + first * size,
        dc.ctypes.data + first * size, *gate_places(dz, units, first), p, p + second, p + 2 * second, to,
        to + second, to + 2 * second,
    )  # fmt: skip
