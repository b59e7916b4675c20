"""All steps of the simple recurrent network, forward and backward, by a team of threads: one call a sequence.

`lstm_team` says who does what. All that is kept is batch first, as inputs and outputs are, so that nothing is turned
round; the states of a step alone lie close together, since a product reads them once for every panel of the matrix.
"""

from __future__ import annotations

from thereafter.compiled import CFunction, c_function, compiled_once, jit
from thereafter.kernels.arrays import ElmanBackward, ElmanForward, Floats, FloatType, Whole
from thereafter.kernels.loops.elman import clear, elman_backward, elman_forward
from thereafter.kernels.loops.neighbours import pack_all_turned, pack_turned
from thereafter.kernels.loops.parts import claim_parts, parts_in, rows_of_part, rows_of_parts
from thereafter.kernels.loops.recurrence import (
    columns_product,
    fetch_row,
    lanes_of,
    own_units,
    pack_all_columns,
    pack_columns,
)
from thereafter.kernels.loops.team import BY_ROWS, arrays_of, meet, member, members, switch, task_at
from thereafter.kernels.loops.tiles import copy, types

_forward_arrays, _backward_arrays = arrays_of(ElmanForward), arrays_of(ElmanBackward)


@jit()
def forward(task: Whole, arrays: ElmanForward[Floats], lengths: Whole, kind: int, by_rows: bool) -> None:
    """The outputs y [B, T, H], and the last states in `states[T]` [2, B, H], used in a circle; `states[0]` is given.

    y holds the input's part of the pre-activations; or the inputs are given, x [B, T, I], and their product is made
    here too. `kept` [B, T, H] gets the state before every step but the first; it has no steps where nobody wants them.
    """
    weight, weight_x, packed, packed_x = arrays.weight, arrays.weight_x, arrays.packed, arrays.packed_x
    rows, units = len(arrays.y), arrays.y.shape[2]
    if not by_rows:
        first, last = own_units(units, lanes_of(weight), member(task), members(task))
        pack_turned(weight, packed, first, last, 0, 1)
        if len(arrays.x):
            pack_turned(weight_x, packed_x, first, last, 0, 1)
        _forward_rows(task, arrays, lengths, kind, 0, rows, 1, first, last, members(task))
        return
    pack_all_turned(task, weight, packed, weight_x, packed_x)
    ragged, threads = len(lengths) > 0, members(task)
    parts = parts_in(rows, ragged)
    begin, after = claim_parts(task, parts, ragged, threads)
    while begin < parts:
        top, end, step = rows_of_parts(rows, begin, after, parts, ragged)
        _forward_rows(task, arrays, lengths, kind, top, end, step, 0, units, 1)
        begin, after = claim_parts(task, parts, ragged, threads)


@jit()
def _forward_rows(
    task: Whole, arrays: ElmanForward[Floats], lengths: Whole, kind: int, top: int, end: int, step: int, first: int,
    last: int, size: int,
) -> None:  # fmt: skip
    """The units `first` to `last` of some rows, by `size` threads that meet at every step."""
    y, states, kept = arrays.y[top:end:step], arrays.states[:, top:end:step], arrays.kept[top:end:step]
    x, lengths, spare = arrays.x[top:end:step], lengths[top:end:step], arrays.spares[member(task)]
    bias, own = arrays.bias.ctypes.data + first * y.itemsize, (last - first) * y.itemsize
    live, meetings = len(y), 0
    for t in range(y.shape[1]):
        while len(lengths) and live and lengths[live - 1] <= t:
            live -= 1
        if len(x):
            for b in range(live):
                copy(bias, y[b, t].ctypes.data + first * y.itemsize, own)
            columns_product(task, t, x[:live, t], arrays.packed_x, y[:live, t], first, last, spare)
        columns_product(task, t, states[t % 2, :live], arrays.packed, y[:live, t], first, last, spare)
        elman_forward(t, y, states, kept, kind, lengths, first, last)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(states[(t + 1) % 2, 0])


@jit()
def backward(task: Whole, arrays: ElmanBackward[Floats], lengths: Whole, kind: int, by_rows: bool) -> None:
    """The gradient dz [B, T, H] of all pre-activations, from that of the outputs, dy [B, T, H], which it may replace.

    `dh` [B, H] holds the gradient of the last state, `end` [B, H], and in the end that of the first. `dx` [B, T, I] is
    made too where it has columns. Each part of the rows has its own row of `d_bias` [parts, H]. `now` [2, B, H] is 0.
    """
    weight, weight_x, packed, packed_x = arrays.weight, arrays.weight_x, arrays.packed, arrays.packed_x
    units, inputs = arrays.dz.shape[2], arrays.dx.shape[2]
    rows, parts = len(arrays.dz), len(arrays.d_bias)
    if not by_rows:
        own, size, lanes = member(task), members(task), lanes_of(weight)
        first, last = own_units(units, lanes, own, size)
        first_x, last_x = own_units(inputs, lanes, own, size)
        pack_columns(weight, packed, first, last, 0, 1)
        if inputs:
            pack_columns(weight_x, packed_x, first_x, last_x, 0, 1)
        _backward_rows(task, arrays, lengths, kind, 0, rows, 1, first, last, first_x, last_x, 0, parts, size)
        return
    pack_all_columns(task, weight, packed, units, weight_x, packed_x, inputs)
    ragged, threads = len(lengths) > 0, members(task)
    begin, after = claim_parts(task, parts, ragged, threads)
    while begin < parts:
        top, end, step = rows_of_parts(rows, begin, after, parts, ragged)
        _backward_rows(task, arrays, lengths, kind, top, end, step, 0, units, 0, inputs, begin, after, 1)
        begin, after = claim_parts(task, parts, ragged, threads)


@jit()
def _backward_rows(
    task: Whole, arrays: ElmanBackward[Floats], lengths: Whole, kind: int, top: int, end: int, step: int, first: int,
    last: int, first_x: int, last_x: int, begin: int, after: int, size: int,
) -> None:  # fmt: skip
    """The units `first` to `last` of the rows of the parts `begin` to `after`, by `size` threads that meet."""
    dh, dx, now = arrays.dh[top:end:step], arrays.dx[top:end:step], arrays.now[:, top:end:step]
    rows, spare, own = len(dh), arrays.spares[member(task)], lengths[top:end:step]
    live, meetings = 0 if len(lengths) else rows, 0
    for t in range(arrays.dz.shape[1] - 1, -1, -1):
        for b in range(live, rows):
            if own[b] > t:
                live = b + 1
        for part in range(begin, after):
            _part_back(t, arrays, lengths, kind, part, first, last)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(now[t % 2, 0])
        columns_product(task, t, now[t % 2, :live], arrays.packed, dh[:live], first, last, spare)
        if dx.shape[2]:
            for b in range(rows):
                clear(dx[b, t], first_x, last_x)
            columns_product(task, t, now[t % 2, :live], arrays.packed_x, dx[:live, t], first_x, last_x, spare)


@jit()
def _part_back(
    t: int, arrays: ElmanBackward[Floats], lengths: Whole, kind: int, part: int, first: int, last: int
) -> None:
    """The rows of one part at step t, before the product."""
    top, end, step = rows_of_part(len(arrays.dz), part, len(arrays.d_bias), len(lengths) > 0)
    elman_backward(
        t, arrays.kept[top:end:step], arrays.end[top:end:step], arrays.dy[top:end:step], arrays.dh[top:end:step],
        arrays.dz[top:end:step], arrays.now[:, top:end:step], arrays.d_bias[part], kind, lengths[top:end:step], first,
        last,
    )  # fmt: skip


@compiled_once
def forward_task(dtype: FloatType) -> CFunction:
    """`forward` as a function of a task, whose arrays are those of `ElmanForward`."""

    def elman_forward_task(address: int) -> None:
        task = task_at(address)
        arrays = _forward_arrays(task, dtype)
        forward(task, arrays, arrays.lengths, arrays.kind[0], switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), elman_forward_task)


@compiled_once
def backward_task(dtype: FloatType) -> CFunction:
    """`backward` as a function of a task, whose arrays are those of `ElmanBackward`."""

    def elman_backward_task(address: int) -> None:
        task = task_at(address)
        arrays = _backward_arrays(task, dtype)
        backward(task, arrays, arrays.lengths, arrays.kind[0], switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), elman_backward_task)
