"""The LSTM: one step between its matrix products, and all steps by a team of threads, forward and backward.

Arrays are whole sequences, time first: T steps, B rows, H units; gates [T, B, 4H] in the order input, forget, cell,
output (a coupled cell has no forget block: 3H). `peephole` is [3, H] (input, forget, output) or empty, `lengths` [B] or
empty. Every loop works on the units `first` to `last` of a row, so that several threads can share one.

A team is called once a sequence. Either the threads claim parts of the rows: then each reads all of the matrix at every
step, and once that is packed no thread waits for another. Or they own units, and with them a part of the matrix: then
all of them meet at every step, and each reads what the others have just made. The first is faster where the matrix fits
into the cache of each core. (`recurrence.team_task` does either.)

A finished row takes no part in a step's product where no longer row comes after it, so rows are best sorted by length,
the longest first.

Whoever does it, a number is made by the same operations in the same order: sums over rows are made for each part, and
added up by the caller.
"""

from __future__ import annotations

from collections.abc import Callable

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import Floats, Lengths, LstmBackward, LstmForward, Whole
from thereafter.kernels.loops.recurrence import (
    COLUMNS,
    GATES,
    Matrix,
    TeamLoop,
    columns_product,
    gates_product,
    live_after,
    live_before,
    meet_for,
    team_task,
)
from thereafter.kernels.loops.team import COUPLED, RowSpan, Span, member, rows_of_part, switch
from thereafter.kernels.loops.tiles import copy
from thereafter.kernels.loops.vectors import Lanes, Number, gates_of, row_loops, tanh

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


def _forward(v: Lanes, peephole: bool, coupled: bool) -> None:
    o, new = cell_formula(v, peephole, coupled)
    m = o * tanh(new)
    v["m"], v["y"] = m, m


def _cell_back(v: Lanes, peephole: bool, coupled: bool) -> None:
    """The backward pass of the gates where dc is already whole; `shown` is what the output gate multiplies, before
    tanh."""
    _back(v, v["dm"], v["dc"], tanh(v["shown"]), peephole, coupled)


def _backward(v: Lanes, peephole: bool, coupled: bool) -> None:
    shown, dm = tanh(v["new"]), v["dm"] + v["dy"]
    _back(v, dm, v["dc"] + dm * v["o"] * (1.0 - shown * shown), shown, peephole, coupled)
    v["dm"] = v.constant(0.0)  # the product of the step before is added to it
    for gate in ("i", "g", "o") if coupled else _GATES:
        v[f"sum_{gate}"] = v[f"sum_{gate}"] + v[f"d{gate}"]


def _variants(formula: Callable[[Lanes, bool, bool], object]) -> list[Callable[[Lanes], None]]:
    """A formula for each kind of LSTM, in the order of `variant`."""

    def of(peephole: bool, coupled: bool) -> Callable[[Lanes], None]:
        def chosen(v: Lanes) -> None:
            formula(v, peephole, coupled)

        return chosen

    return [of(peephole, coupled) for peephole in (False, True) for coupled in (False, True)]


@jit()
def variant(peephole: Floats, coupled: bool) -> int:
    """The number of a kind of LSTM."""
    return (2 if len(peephole) else 0) + (1 if coupled else 0)


_NEW = (*_GATES, "old", "new", "m", "y", *_PEEPHOLES)
_BACK = (*_GATES, "old", "new", "shown", "dm", "dy", "dc", "di", "df", "dg", "do", *_PEEPHOLES, "to_i", "to_f", "to_o")
_forward_loop = row_loops(_variants(_forward), *_NEW)
_backward_loop = row_loops(_variants(_backward), *_BACK, "sum_i", "sum_f", "sum_g", "sum_o")
cell_loop = row_loops(_variants(cell_formula), *_NEW)
"""Gates and new cell alone, for a cell that is normalised before tanh. It takes the addresses of a forward loop."""
cell_back_loop = row_loops(_variants(_cell_back), *_BACK)


@jit()
def lstm_forward(
    t: int, gates: Floats, c: Floats, m: Floats, y: Floats, peephole: Floats, coupled: bool, lengths: Lengths,
    first: int, last: int,
) -> None:  # fmt: skip
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
            _forward_loop(gates, variant(peephole, coupled), last - first, places)


@jit()
def lstm_backward(
    t: int, gates: Floats, c: Floats, dy: Floats, dm: Floats, dc: Floats, dz: Floats, d_bias: Floats,
    d_peephole: Floats, peephole: Floats, coupled: bool, lengths: Lengths, first: int, last: int,
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
            _backward_loop(gates, variant(peephole, coupled), last - first, places)


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


@jit()
def _share_forward(arrays: LstmForward[Floats]) -> tuple[int, Matrix, Matrix]:
    return (
        arrays.gates.shape[1],
        (GATES, arrays.weight, arrays.packed, arrays.c.shape[2]),
        (COLUMNS, arrays.weight, arrays.packed, 0),
    )


@jit()
def forward_rows(
    task: Whole, arrays: LstmForward[Floats], own_rows: RowSpan, own_units: Span, others: Span, parts: Span, size: int
) -> None:
    """All gates [T, B, G], cells c [T + 1, B, H] and outputs y [B, T, H].

    `xh` [T + 1, B, I + H] has the input of each step beside the output before it; c[0] and the h of xh[0] are given.
    Where `x` [B, T, I] is not empty each step copies its input from there; then a thread must have rows of its own.

    `weight` is [G, I + H] where the input's product is part of each step, or [G, H]; `z` [T, B, G] is the rest of the
    pre-activations, and may be the gates themselves. An array of fewer steps is used in a circle, so that values nobody
    will ask for again stay in the caches. One row of z stands for all.
    """
    top, end, step = own_rows
    first, last = own_units
    units, spare = arrays.c.shape[2], arrays.spares[member(task)]
    gates, c, xh = arrays.gates[:, top:end:step], arrays.c[:, top:end:step], arrays.xh[:, top:end:step]
    x, y, lengths = arrays.x[top:end:step], arrays.y[top:end:step], arrays.lengths[top:end:step]
    inputs, read_from = xh.shape[2] - units, xh.shape[2] - arrays.weight.shape[1]
    z = arrays.z
    if z.shape[1] > 1:
        z = z[:, top:end:step]
    live, meetings = gates.shape[1], 0
    for t in range(y.shape[1]):
        live = live_before(lengths, live, t)
        for b in range(len(x)):
            copy(x[b, t].ctypes.data, xh[t, b].ctypes.data, inputs * x.itemsize)
        read, start, made = xh[t % len(xh), :live, read_from:], z[t % len(z), :live], gates[t % len(gates), :live]
        gates_product(task, t, read, units, arrays.packed, start, made, first, last, spare)
        lstm_forward(t, gates, c, xh[:, :, inputs:], y, arrays.peephole, switch(task, COUPLED), lengths, first, last)
        meetings = meet_for(task, meetings, size, xh[(t + 1) % len(xh), 0, inputs:])


@jit()
def _share_backward(arrays: LstmBackward[Floats]) -> tuple[int, Matrix, Matrix]:
    return (
        arrays.gates.shape[1],
        (COLUMNS, arrays.weight, arrays.packed, arrays.c.shape[2]),
        (COLUMNS, arrays.weight_x, arrays.packed_x, arrays.dx.shape[2]),
    )


@jit()
def backward_rows(
    task: Whole, arrays: LstmBackward[Floats], own_rows: RowSpan, units: Span, inputs: Span, parts: Span, size: int
) -> None:
    """The gradient dz [T, B, G] of all pre-activations, from that of the outputs, dy [B, T, H].

    `dh` and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. `dx` [B, T, I] is made
    too where it has columns. Each part of the rows has its own row of `d_bias` [parts, G] and of `d_peephole`
    [parts, 3, H].
    """
    top, end, step = own_rows
    dh, dx, dz = arrays.dh[top:end:step], arrays.dx[top:end:step], arrays.dz[:, top:end:step]
    rows, lengths, spare = len(dh), arrays.lengths[top:end:step], arrays.spares[member(task)]
    live, meetings = 0, 0
    for t in range(len(dz) - 1, -1, -1):
        live = live_after(lengths, live, t, rows)
        for part in range(parts[0], parts[1]):
            _gates_back(t, task, arrays, part, units)
        meetings = meet_for(task, meetings, size, dz[t, 0])
        columns_product(task, t, dz[t, :live], arrays.packed, dh[:live], units[0], units[1], spare)
        if dx.shape[2]:
            for b in range(rows):
                clear_row(dx[b, t], inputs[0], inputs[1])
            columns_product(task, t, dz[t, :live], arrays.packed_x, dx[:live, t], inputs[0], inputs[1], spare)


@jit()
def _gates_back(t: int, task: Whole, arrays: LstmBackward[Floats], part: int, units: Span) -> None:
    """The rows of one part at step t, between the products."""
    top, end, step = rows_of_part(arrays.gates.shape[1], part, len(arrays.d_bias), len(arrays.lengths) > 0)
    lstm_backward(
        t, arrays.gates[:, top:end:step], arrays.c[:, top:end:step], arrays.dy[top:end:step],
        arrays.dh[top:end:step], arrays.dc[top:end:step], arrays.dz[:, top:end:step], arrays.d_bias[part],
        arrays.d_peephole[part], arrays.peephole, switch(task, COUPLED), arrays.lengths[top:end:step], units[0],
        units[1],
    )  # fmt: skip


forward_task = team_task("lstm_forward", TeamLoop(LstmForward, forward_rows, _share_forward))
backward_task = team_task("lstm_backward", TeamLoop(LstmBackward, backward_rows, _share_backward))
