"""All steps of the LSTM, forward and backward, by a team of threads: one call a sequence.

Either the threads claim parts of the rows: then each reads all of the matrix at every step, and once that is packed no
thread waits for another. Or they own units, and with them a part of the matrix: then all of them meet at every step,
and each reads what the others have just made. The first is faster where the matrix fits into the cache of each core.

A finished row takes no part in a step's product where no longer row comes after it, so rows are best sorted by length,
the longest first.

Whoever does it, a number is made by the same operations in the same order: sums over rows are made for each part, and
added up by the caller.
"""

from __future__ import annotations

from thereafter.base.compiled import CFunction, c_function, compiled_once, jit
from thereafter.kernels.arrays import Floats, FloatType, LstmBackward, LstmForward, Whole
from thereafter.kernels.loops.lstm import clear_row, lstm_backward, lstm_forward
from thereafter.kernels.loops.parts import claim_parts, parts_in, rows_of_part, rows_of_parts
from thereafter.kernels.loops.recurrence import (
    columns_product,
    fetch_row,
    gates_product,
    lanes_of,
    own_units,
    pack_all_columns,
    pack_all_gates,
    pack_columns,
    pack_gates,
)
from thereafter.kernels.loops.team import (
    BY_ROWS,
    COUPLED,
    arrays_of,
    meet,
    member,
    members,
    switch,
    task_at,
)
from thereafter.kernels.loops.tiles import copy, types

_forward_arrays, _backward_arrays = arrays_of(LstmForward), arrays_of(LstmBackward)


@jit()
def forward(task: Whole, arrays: LstmForward[Floats], lengths: Whole, coupled: bool, by_rows: bool) -> None:
    """All gates [T, B, G], cells c [T + 1, B, H] and outputs y [B, T, H].

    `xh` [T + 1, B, I + H] has the input of each step beside the output before it; c[0] and the h of xh[0] are given.
    Where `x` [B, T, I] is not empty each step copies its input from there; then a thread must have rows of its own.

    `weight` is [G, I + H] where the input's product is part of each step, or [G, H]; `z` [T, B, G] is the rest of the
    pre-activations, and may be the gates themselves. An array of fewer steps is used in a circle, so that values nobody
    will ask for again stay in the caches. One row of z stands for all.
    """
    weight, packed, units = arrays.weight, arrays.packed, arrays.c.shape[2]
    rows, ragged = arrays.gates.shape[1], len(lengths) > 0
    if not by_rows:
        first, last = own_units(units, lanes_of(weight), member(task), members(task))
        pack_gates(weight, units, packed, first, last)
        _forward_rows(task, arrays, lengths, coupled, 0, rows, 1, first, last, members(task))
        return
    pack_all_gates(task, weight, units, packed)
    parts, threads = parts_in(rows, ragged), members(task)
    begin, after = claim_parts(task, parts, ragged, threads)
    while begin < parts:
        top, end, step = rows_of_parts(rows, begin, after, parts, ragged)
        _forward_rows(task, arrays, lengths, coupled, top, end, step, 0, units, 1)
        begin, after = claim_parts(task, parts, ragged, threads)


@jit()
def _forward_rows(
    task: Whole, arrays: LstmForward[Floats], lengths: Whole, coupled: bool, top: int, end: int, step: int, first: int,
    last: int, size: int,
) -> None:  # fmt: skip
    """The units `first` to `last` of some rows, by `size` threads that meet at every step."""
    peephole, units = arrays.peephole, arrays.c.shape[2]
    gates, c, xh = arrays.gates[:, top:end:step], arrays.c[:, top:end:step], arrays.xh[:, top:end:step]
    x, y, lengths = arrays.x[top:end:step], arrays.y[top:end:step], lengths[top:end:step]
    inputs, read_from = xh.shape[2] - units, xh.shape[2] - arrays.weight.shape[1]
    z, spare = arrays.z, arrays.spares[member(task)]
    if z.shape[1] > 1:
        z = z[:, top:end:step]
    live, meetings = gates.shape[1], 0
    for t in range(y.shape[1]):
        while len(lengths) and live and lengths[live - 1] <= t:
            live -= 1
        for b in range(len(x)):
            copy(x[b, t].ctypes.data, xh[t, b].ctypes.data, inputs * x.itemsize)
        read, start, made = xh[t % len(xh), :live, read_from:], z[t % len(z), :live], gates[t % len(gates), :live]
        gates_product(task, t, read, units, arrays.packed, start, made, first, last, spare)
        lstm_forward(t, gates, c, xh[:, :, inputs:], y, peephole, coupled, lengths, first, last)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(xh[(t + 1) % len(xh), 0, inputs:])


@jit()
def backward(task: Whole, arrays: LstmBackward[Floats], lengths: Whole, coupled: bool, by_rows: bool) -> None:
    """The gradient dz [T, B, G] of all pre-activations, from that of the outputs, dy [B, T, H].

    `dh` and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. `dx` [B, T, I] is made
    too where it has columns. Each part of the rows has its own row of `d_bias` [parts, G] and of `d_peephole`
    [parts, 3, H].
    """
    weight, weight_x, packed, packed_x = arrays.weight, arrays.weight_x, arrays.packed, arrays.packed_x
    units, inputs = arrays.c.shape[2], arrays.dx.shape[2]
    rows, ragged, parts = arrays.gates.shape[1], len(lengths) > 0, len(arrays.d_bias)
    if not by_rows:
        own, size, lanes = member(task), members(task), lanes_of(weight)
        first, last = own_units(units, lanes, own, size)
        first_x, last_x = own_units(inputs, lanes, own, size)
        pack_columns(weight, packed, first, last, 0, 1)
        if inputs:
            pack_columns(weight_x, packed_x, first_x, last_x, 0, 1)
        _backward_rows(task, arrays, lengths, coupled, 0, rows, 1, first, last, first_x, last_x, 0, parts, size)
        return
    pack_all_columns(task, weight, packed, units, weight_x, packed_x, inputs)
    begin, after = claim_parts(task, parts, ragged, members(task))
    while begin < parts:
        top, end, step = rows_of_parts(rows, begin, after, parts, ragged)
        _backward_rows(task, arrays, lengths, coupled, top, end, step, 0, units, 0, inputs, begin, after, 1)
        begin, after = claim_parts(task, parts, ragged, members(task))


@jit()
def _backward_rows(
    task: Whole, arrays: LstmBackward[Floats], lengths: Whole, coupled: bool, top: int, end: int, step: int, first: int,
    last: int, first_x: int, last_x: int, begin: int, after: int, size: int,
) -> None:  # fmt: skip
    """The units `first` to `last` of the rows of the parts `begin` to `after`, by `size` threads that meet."""
    dh, dx, dz = arrays.dh[top:end:step], arrays.dx[top:end:step], arrays.dz[:, top:end:step]
    rows, ragged, spare = len(dh), len(lengths) > 0, arrays.spares[member(task)]
    own = lengths[top:end:step]
    live, meetings = 0 if ragged else rows, 0
    for t in range(len(dz) - 1, -1, -1):
        for b in range(live, rows):
            if own[b] > t:
                live = b + 1
        for part in range(begin, after):
            _gates_back(t, arrays, lengths, coupled, part, first, last)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(dz[t, 0])
        columns_product(task, t, dz[t, :live], arrays.packed, dh[:live], first, last, spare)
        if dx.shape[2]:
            for b in range(rows):
                clear_row(dx[b, t], first_x, last_x)
            columns_product(task, t, dz[t, :live], arrays.packed_x, dx[:live, t], first_x, last_x, spare)


@jit()
def _gates_back(
    t: int, arrays: LstmBackward[Floats], lengths: Whole, coupled: bool, part: int, first: int, last: int
) -> None:
    """The rows of one part at step t, between the products."""
    top, end, step = rows_of_part(arrays.gates.shape[1], part, len(arrays.d_bias), len(lengths) > 0)
    lstm_backward(
        t, arrays.gates[:, top:end:step], arrays.c[:, top:end:step], arrays.dy[top:end:step],
        arrays.dh[top:end:step], arrays.dc[top:end:step], arrays.dz[:, top:end:step], arrays.d_bias[part],
        arrays.d_peephole[part], arrays.peephole, coupled, lengths[top:end:step], first, last,
    )  # fmt: skip


@compiled_once
def forward_task(dtype: FloatType) -> CFunction:
    """`forward` as a function of a task, whose arrays are those of `LstmForward`."""

    def lstm_forward_task(address: int) -> None:
        task = task_at(address)
        arrays = _forward_arrays(task, dtype)
        forward(task, arrays, arrays.lengths, switch(task, COUPLED), switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), lstm_forward_task)


@compiled_once
def backward_task(dtype: FloatType) -> CFunction:
    """`backward` as a function of a task, whose arrays are those of `LstmBackward`."""

    def lstm_backward_task(address: int) -> None:
        task = task_at(address)
        arrays = _backward_arrays(task, dtype)
        backward(task, arrays, arrays.lengths, switch(task, COUPLED), switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), lstm_backward_task)
