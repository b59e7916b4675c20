"""All steps of the LSTM, forward and backward, by a team of threads: one call a sequence.

Either a thread owns rows of the batch: then it reads all of the matrix at every step, and once that is packed no thread
waits for another. Or it owns units, and with them a part of the matrix: then all of them meet at every step, and each
reads what the others have just made. The first is faster where the matrix fits into the cache of each core.

A finished row takes no part in a step's product where no longer row comes after it, so rows are best sorted by length,
the longest first. Where lengths differ each of n threads takes every n-th row, so that it has long and short ones; else
it takes neighbours, since what is fetched beyond a row's end is then its own.
"""

from __future__ import annotations

from thereafter.compiled import CFunction, c_function, compiled_once, jit
from thereafter.kernels.arrays import Floats, FloatType, LstmBackward, LstmForward, Whole
from thereafter.kernels.loops.lstm import clear_row, lstm_backward, lstm_forward
from thereafter.kernels.loops.recurrence import (
    columns_product,
    fetch_row,
    gates_product,
    lanes_of,
    own_units,
    pack_columns,
    pack_gates,
)  # fmt: skip
from thereafter.kernels.loops.team import (
    BY_ROWS,
    COUPLED,
    arrays_of,
    meet,
    member,
    members,
    share,
    switch,
    task_at,
)
from thereafter.kernels.loops.tiles import copy, types

_forward_arrays, _backward_arrays = arrays_of(LstmForward), arrays_of(LstmBackward)


@jit()
def _own_rows(rows: int, ragged: bool, by_rows: bool, own: int, size: int) -> tuple[int, int, int]:
    """From, to and step of a thread's rows."""
    if not by_rows:
        return 0, rows, 1
    if ragged:
        return own, rows, size
    first, last = share(rows, own, size)
    return first, last, 1


@jit()
def forward(task: Whole, arrays: LstmForward[Floats], lengths: Whole, coupled: bool, by_rows: bool) -> None:
    """All gates [T, B, G], cells c [T + 1, B, H] and outputs y [B, T, H].

    `xh` [T + 1, B, I + H] has the input of each step beside the output before it; c[0] and the h of xh[0] are given.
    Where `x` [B, T, I] is not empty each step copies its input from there; then a thread must have rows of its own.

    `weight` is [G, I + H] where the input's product is part of each step, or [G, H]; `z` [T, B, G] is the rest of the
    pre-activations, and may be the gates themselves. An array of fewer steps is used in a circle, so that values nobody
    will ask for again stay in the caches. One row of z stands for all.
    """
    gates, c, xh, z, x, y = arrays.gates, arrays.c, arrays.xh, arrays.z, arrays.x, arrays.y
    weight, packed, spares, peephole = arrays.weight, arrays.packed, arrays.spares, arrays.peephole
    size, own = members(task), member(task)
    units = c.shape[2]
    inputs, read_from = xh.shape[2] - units, xh.shape[2] - weight.shape[1]
    first, last = own_units(units, lanes_of(gates), own, size)
    pack_gates(weight, units, packed, first, last)
    meetings = 0
    if by_rows:
        meetings = meet(task, meetings, size)  # the matrix is packed
        first, last = 0, units
    top, end, step = _own_rows(gates.shape[1], len(lengths) > 0, by_rows, own, size)
    gates, c, xh, y = gates[:, top:end:step], c[:, top:end:step], xh[:, top:end:step], y[top:end:step]
    lengths = lengths[top:end:step]
    x = x[top:end:step]
    if z.shape[1] > 1:
        z = z[:, top:end:step]
    live = gates.shape[1]
    for t in range(y.shape[1]):
        while len(lengths) and live and lengths[live - 1] <= t:
            live -= 1
        for b in range(len(x)):
            copy(x[b, t].ctypes.data, xh[t, b].ctypes.data, inputs * x.itemsize)
        read, start, made = xh[t % len(xh), :live, read_from:], z[t % len(z), :live], gates[t % len(gates), :live]
        gates_product(task, t, read, units, packed, start, made, first, last, spares[own])
        lstm_forward(t, gates, c, xh[:, :, inputs:], y, peephole, coupled, lengths, first, last)
        if not by_rows:
            meetings = meet(task, meetings, size)
            fetch_row(xh[(t + 1) % len(xh), 0, inputs:])


@jit()
def backward(task: Whole, arrays: LstmBackward[Floats], lengths: Whole, coupled: bool, by_rows: bool) -> None:
    """The gradient dz [T, B, G] of all pre-activations, from that of the outputs, dy [B, T, H].

    `dh` and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. `dx` [B, T, I] is made
    too where it has columns. Each thread adds its share to its own row of `d_bias` [threads, G] and of `d_peephole`
    [threads, 3, H].
    """
    gates, c, dy, dh, dc, dz, dx = arrays.gates, arrays.c, arrays.dy, arrays.dh, arrays.dc, arrays.dz, arrays.dx
    d_bias, d_peephole, spares, peephole = arrays.d_bias, arrays.d_peephole, arrays.spares, arrays.peephole
    weight, weight_x, packed, packed_x = arrays.weight, arrays.weight_x, arrays.packed, arrays.packed_x
    size, own = members(task), member(task)
    units, inputs = c.shape[2], dx.shape[2]
    first, last, first_x, last_x = 0, units, 0, inputs
    if not by_rows:
        first, last = own_units(units, lanes_of(gates), own, size)
        first_x, last_x = own_units(inputs, lanes_of(gates), own, size)
    packer, packers = (own, size) if by_rows else (0, 1)
    pack_columns(weight, packed, first, last, packer, packers)
    if inputs:
        pack_columns(weight_x, packed_x, first_x, last_x, packer, packers)
    meetings = 0
    if by_rows:
        meetings = meet(task, meetings, size)
    top, end, step = _own_rows(gates.shape[1], len(lengths) > 0, by_rows, own, size)
    gates, c, dz = gates[:, top:end:step], c[:, top:end:step], dz[:, top:end:step]
    dx, dy, dh, dc = dx[top:end:step], dy[top:end:step], dh[top:end:step], dc[top:end:step]
    lengths = lengths[top:end:step]
    rows = gates.shape[1]
    live = 0 if len(lengths) else rows
    for t in range(len(gates) - 1, -1, -1):
        for b in range(live, rows):
            if lengths[b] > t:
                live = b + 1
        lstm_backward(
            t, gates, c, dy, dh, dc, dz, d_bias[own], d_peephole[own], peephole, coupled, lengths, first, last
        )
        if not by_rows:
            meetings = meet(task, meetings, size)
            fetch_row(dz[t, 0])
        columns_product(task, t, dz[t, :live], packed, dh[:live], first, last, spares[own])
        if inputs:
            for b in range(rows):
                clear_row(dx[b, t], first_x, last_x)
            columns_product(task, t, dz[t, :live], packed_x, dx[:live, t], first_x, last_x, spares[own])


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
