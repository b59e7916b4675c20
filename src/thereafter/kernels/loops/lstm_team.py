"""All steps of the LSTM, forward and backward, by a team of threads: one call a sequence, one meeting a step."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from thereafter.compiled import c_function, jit
from thereafter.kernels.loops.lstm import copy_row, lstm_backward, lstm_forward
from thereafter.kernels.loops.recurrence import (
    columns_product,
    gates_product,
    lanes_of,
    own_units,
    pack_columns,
    pack_gates,
)  # fmt: skip
from thereafter.kernels.loops.team import array_1, array_2, array_3, meet, member, members, number, task_at
from thereafter.kernels.loops.tiles import types


@jit()
def forward(
    task: Any, gates: Any, c: Any, m: Any, weight: Any, packed: Any, spares: Any, peephole: Any,
    lengths: Any, coupled: bool,
) -> None:  # fmt: skip
    """`gates` hold z and become gates; c[0] and m[0] are given, c[1:] and m[1:] made."""
    size, own = members(task), member(task)
    steps = len(gates)
    first, last = own_units(c.shape[2], lanes_of(gates), own, size)
    pack_gates(weight, packed, first, last)
    meetings = 0
    for t in range(steps):
        gates_product(task, m[t], packed, gates[t], first, last, spares[own])
        lstm_forward(t, gates, c, m, peephole, coupled, lengths, first, last)
        meetings = meet(task, meetings, size)


@jit()
def backward(
    task: Any, gates: Any, c: Any, dy: Any, dh: Any, dc: Any, dz: Any, d_peephole: Any, weight: Any,
    packed: Any, spares: Any, peephole: Any, lengths: Any, coupled: bool,
) -> None:  # fmt: skip
    """dz of all steps from dy [T, B, H] and, in dh and dc [B, H], the gradients of the first state."""
    size, own = members(task), member(task)
    steps = len(gates)
    first, last = own_units(c.shape[2], lanes_of(gates), own, size)
    pack_columns(weight, packed, first, last)
    meetings = 0
    for b in range(len(dh)):
        copy_row(dy[steps - 1, b], dh[b], first, last)
    for t in range(steps - 1, -1, -1):
        lstm_backward(t, gates, c, dh, dc, dz, d_peephole, peephole, coupled, lengths, first, last)
        charge_before(t, dh, dy, lengths, first, last)
        meetings = meet(task, meetings, size)
        columns_product(task, dz[t], packed, dh, first, last, spares[own])


@jit()
def charge_before(t: int, dh: Any, dy: Any, lengths: Any, first: int, last: int) -> None:
    """What dh is before the product is added: what the output of step t - 1 was charged, and for rows that are over
    what was there already."""
    for b in range(dh.shape[0]):
        over = len(lengths) > 0 and t >= lengths[b]
        if t and over:
            for j in range(first, last):
                dh[b, j] += dy[t - 1, b, j]
        elif t:
            for j in range(first, last):
                dh[b, j] = dy[t - 1, b, j]
        elif not over:
            dh[b, first:last] = 0


@cache
def forward_task(dtype: Any) -> Any:
    """`forward` as a function of a task, its arrays in the order of `forward`'s; told: coupled."""

    def lstm_forward_task(address: Any) -> None:
        task = task_at(address)
        forward(
            task, array_3(task, 0, dtype), array_3(task, 1, dtype), array_3(task, 2, dtype), array_2(task, 3, dtype),
            array_1(task, 4, dtype), array_2(task, 5, dtype), array_2(task, 6, dtype), array_1(task, 7, np.int64),
            number(task, 0) != 0,
        )  # fmt: skip

    return c_function(types.void(types.voidptr), lstm_forward_task)


@cache
def backward_task(dtype: Any) -> Any:
    """`backward` as a function of a task, its arrays in the order of `backward`'s; told: coupled."""

    def lstm_backward_task(address: Any) -> None:
        task = task_at(address)
        backward(
            task, array_3(task, 0, dtype), array_3(task, 1, dtype), array_3(task, 2, dtype), array_2(task, 3, dtype),
            array_2(task, 4, dtype), array_3(task, 5, dtype), array_2(task, 6, dtype), array_2(task, 7, dtype),
            array_1(task, 8, dtype), array_2(task, 9, dtype), array_2(task, 10, dtype), array_1(task, 11, np.int64),
            number(task, 0) != 0,
        )  # fmt: skip

    return c_function(types.void(types.voidptr), lstm_backward_task)
