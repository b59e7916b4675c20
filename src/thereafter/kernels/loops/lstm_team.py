"""All steps of the LSTM, forward and backward, by a team of threads: one call a sequence.

Either a thread owns rows of the batch: then it reads all of the matrix at every step, and once that is packed no thread
waits for another. Or it owns units, and with them a part of the matrix: then all of them meet at every step, and each
reads what the others have just made. The first is faster where the matrix fits into the cache of each core.

Rows that are over take no part in a step's product where no longer row comes after them: `lengths` fall best. Where
there are any a thread takes every so many rows, so that each has long ones and short ones; else rows that lie together,
since what is fetched beyond a row's end is then its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thereafter.compiled import c_function, compiled_once, jit
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
from thereafter.kernels.loops.team import array_1, array_2, array_3, meet, member, members, number, share, task_at
from thereafter.kernels.loops.tiles import copy, types


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
def forward(
    task: Any, gates: Any, c: Any, xh: Any, z: Any, x: Any, y: Any, weight: Any, packed: Any, spares: Any,
    peephole: Any, lengths: Any, coupled: bool, by_rows: bool,
) -> None:  # fmt: skip
    """All gates, cells and outputs from xh [T + 1, B, I + H], the inputs with the outputs before them; c[0] and h of
    xh[0] are given, y [B, T, H] is made. Where x [B, T, I] is not empty the inputs are still to be taken from it; then
    a thread must have rows of its own.

    `weight` is [G, I + H] where the input's product is part of each step, or [G, H]; z [T, B, G] is the rest of the
    pre-activations, and may be the gates. Arrays of fewer steps are gone through again and again: what nobody will ask
    for then stays in the caches. One row of z stands for all.
    """
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
def backward(
    task: Any, gates: Any, c: Any, dy: Any, dh: Any, dc: Any, dz: Any, dx: Any, d_bias: Any, d_peephole: Any,
    weight: Any, weight_x: Any, packed: Any, packed_x: Any, spares: Any, peephole: Any, lengths: Any, coupled: bool,
    by_rows: bool,
) -> None:  # fmt: skip
    """dz of all steps from dy [B, T, H] and, in dh and dc [B, H], the gradients of the last state, which become those
    of the first; dx [B, T, I] where it has columns and is to be made step by step. To d_bias [threads, G] and
    d_peephole [threads, 3, H] each thread adds its share."""
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
def forward_task(dtype: Any) -> Any:
    """`forward` as a function of a task, its arrays in the order of `forward`'s; told: coupled, by rows."""

    def lstm_forward_task(address: Any) -> None:
        task = task_at(address)
        forward(
            task, array_3(task, 0, dtype), array_3(task, 1, dtype), array_3(task, 2, dtype), array_3(task, 3, dtype),
            array_3(task, 4, dtype), array_3(task, 5, dtype), array_2(task, 6, dtype), array_1(task, 7, dtype),
            array_2(task, 8, dtype), array_2(task, 9, dtype), array_1(task, 10, np.int64), number(task, 0) != 0,
            number(task, 1) != 0,
        )  # fmt: skip

    return c_function(types.void(types.voidptr), lstm_forward_task)


@compiled_once
def backward_task(dtype: Any) -> Any:
    """`backward` as a function of a task, its arrays in the order of `backward`'s; told: coupled, by rows."""

    def lstm_backward_task(address: Any) -> None:
        task = task_at(address)
        backward(
            task, array_3(task, 0, dtype), array_3(task, 1, dtype), array_3(task, 2, dtype), array_2(task, 3, dtype),
            array_2(task, 4, dtype), array_3(task, 5, dtype), array_3(task, 6, dtype), array_2(task, 7, dtype),
            array_3(task, 8, dtype), array_2(task, 9, dtype), array_2(task, 10, dtype), array_1(task, 11, dtype),
            array_1(task, 12, dtype), array_2(task, 13, dtype), array_2(task, 14, dtype), array_1(task, 15, np.int64),
            number(task, 0) != 0, number(task, 1) != 0,
        )  # fmt: skip

    return c_function(types.void(types.voidptr), lstm_backward_task)
