"""All steps of the layer-norm LSTM by a team of threads: `loops.lstm` with U h and c normalised row by row.

What is normalised is a whole row, so a thread owns rows of the batch, and once the matrix is packed no thread waits for
another; but where the matrix does not fit into the cache of each core, the product is shared by units, and the threads
meet before and after it. `hat` [T, B, 4H] and `hat_c` [T, B, H] are normalised values, `scale` and `scale_c` [T, B] one
over their deviations, `gain` [1, 4H] and `gain_c` [2, H] (gain and shift) the weights of the norms.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from thereafter.cells.base import EPSILON
from thereafter.compiled import c_function, jit
from thereafter.kernels.loops.activation import FAST
from thereafter.kernels.loops.lstm import backward_places, cell_loop, copy_row, forward_places, gates_back_loop
from thereafter.kernels.loops.recurrence import (
    columns_product,
    gates_product,
    lanes_of,
    own_units,
    pack_columns,
    pack_gates,
)
from thereafter.kernels.loops.team import array_1, array_2, array_3, meet, member, members, number, share, task_at
from thereafter.kernels.loops.tiles import types
from thereafter.kernels.loops.vectors import Lanes, Number, row_loop, tanh

_cell, _coupled_cell = cell_loop(False, False), cell_loop(False, True)
_seeing_cell, _seeing_coupled_cell = cell_loop(True, False), cell_loop(True, True)
_back, _coupled_back = gates_back_loop(False, False), gates_back_loop(False, True)
_seeing_back, _seeing_coupled_back = gates_back_loop(True, False), gates_back_loop(True, True)


def _shown(v: Lanes) -> Number:
    return v["gain"] * v["hat"] + v["shift"]


def _output(v: Lanes) -> None:
    v["shown"] = _shown(v)
    v["m"] = v["o"] * tanh(v["shown"])


def _cell_gradient(v: Lanes) -> None:
    """Through m = o tanh(gain hat + shift): the gradient of hat, and those of gain and shift added up."""
    shown = _shown(v)
    seen = tanh(shown)
    d = v["dm"] * v["o"] * (1.0 - seen * seen)
    v["to_gain"] = v["to_gain"] + d * v["hat"]
    v["to_shift"] = v["to_shift"] + d
    v["d"], v["shown"] = d, shown


def _add(v: Lanes) -> None:
    v["y"] = v["y"] + v["x"]


def _add_scaled(v: Lanes) -> None:
    v["y"] = v["y"] + v["x"] * v["gain"]


def _through(v: Lanes) -> Number:
    """The gradient of x from d, that of gain hat, where hat = (x - mean(x)) scale: `mean` and `slope` are the means of
    gain d and of gain d hat along the row."""
    return v.same("scale") * (v["d"] * v["gain"] - v.same("mean") - v["hat"] * v.same("slope"))


def _through_cell(v: Lanes) -> None:
    v["dx"] = v["dx"] + _through(v)


def _through_gates(v: Lanes) -> None:
    hat = v["hat"]
    dx = _through(v)
    v["to_gain"] = v["to_gain"] + v["d"] * hat
    v["dx"] = dx  # which may take the place of hat


_SHARED = ("d", "gain", "hat", "mean", "slope", "scale", "dx")
_output_loop = row_loop(_output, "o", "hat", "gain", "shift", "shown", "m")
_cell_gradient_loop = row_loop(_cell_gradient, "o", "hat", "gain", "shift", "dm", "to_gain", "to_shift", "d", "shown")
_through_cell_loop, _through_gates_loop = (
    row_loop(_through_cell, *_SHARED),
    row_loop(_through_gates, *_SHARED, "to_gain"),
)
_add_loop, _add_scaled_loop = row_loop(_add, "x", "y"), row_loop(_add_scaled, "x", "gain", "y")


@jit(**FAST)
def forward(
    task: Any, gates: Any, c: Any, m: Any, hat: Any, scale: Any, hat_c: Any, scale_c: Any, gain: Any, gain_c: Any,
    weight: Any, packed: Any, spares: Any, rooms: Any, peephole: Any, lengths: Any, coupled: bool, by_rows: bool,
) -> None:  # fmt: skip
    """`gates` hold z and become gates; c[0] and m[0] are given; `rooms` [threads, 2H + 3 + G] is room for a row of
    each, then zeros."""
    size, own = members(task), member(task)
    units = c.shape[2]
    first, last = own_units(units, lanes_of(gates), own, size)
    pack_gates(weight, units, packed, first, last)
    meetings = meet(task, 0, size)
    top, end = share(gates.shape[1], own, size)
    zeros = rooms[own, 2 * units + 3 :].reshape(1, gates.shape[2])  # no bias
    for t in range(len(gates)):
        if by_rows:
            gates_product(task, t, m[t, top:end], units, packed, zeros, hat[t, top:end], 0, units, spares[own])
        else:
            gates_product(task, t, m[t], units, packed, zeros, hat[t], first, last, spares[own])
            meetings = meet(task, meetings, size)
        for b in range(top, end):
            if len(lengths) and t >= lengths[b]:
                copy_row(c[t, b], c[t + 1, b], 0, units)
                copy_row(m[t, b], m[t + 1, b], 0, units)
                continue
            _forward_row(
                gates[t, b], c[t, b], c[t + 1, b], m[t + 1, b], hat[t, b], scale[t], hat_c[t, b], scale_c[t], b, gain,
                gain_c, rooms[own], peephole, coupled,
            )  # fmt: skip
        if not by_rows:
            meetings = meet(task, meetings, size)


@jit(**FAST)
def _forward_row(
    row: Any, old: Any, new: Any, m: Any, hat: Any, scale: Any, hat_c: Any, scale_c: Any, b: int, gain: Any,
    gain_c: Any, room: Any, peephole: Any, coupled: bool,
) -> None:  # fmt: skip
    units = len(old)
    scale[b] = _normalise(hat)
    _add_scaled_loop(row, len(row), (hat.ctypes.data, gain.ctypes.data, row.ctypes.data))
    places = forward_places(row, old, new, m, m, peephole, 0)
    if len(peephole) and coupled:
        _seeing_coupled_cell(row, units, places)
    elif len(peephole):
        _seeing_cell(row, units, places)
    elif coupled:
        _coupled_cell(row, units, places)
    else:
        _cell(row, units, places)
    copy_row(new, hat_c, 0, units)
    scale_c[b] = _normalise(hat_c)
    o = row[len(row) - units :].ctypes.data
    gains = gain_c.ctypes.data
    shift = gains + units * row.itemsize
    _output_loop(row, units, (o, hat_c.ctypes.data, gains, shift, room.ctypes.data, m.ctypes.data))


@jit(**FAST)
def backward(
    task: Any, gates: Any, c: Any, dy: Any, dh: Any, dc: Any, dz: Any, du: Any, hat: Any, scale: Any, hat_c: Any,
    scale_c: Any, gain: Any, gain_c: Any, weight: Any, packed: Any, spares: Any, rooms: Any, sums: Any, peephole: Any,
    lengths: Any, coupled: bool, by_rows: bool,
) -> None:  # fmt: skip
    """dz and du (that of U h) of all steps; to `sums` [threads, 4H + 5H] is added each thread's share of the gradients
    of gain, of gain and shift of c, and of the peepholes. `du` may be `hat`, and `dz` the gates."""
    size, own = members(task), member(task)
    units = c.shape[2]
    first, last = (0, units) if by_rows else own_units(units, lanes_of(gates), own, size)
    pack_columns(weight, packed, first, last, own if by_rows else 0, size if by_rows else 1)
    meetings = meet(task, 0, size)
    top, end = share(gates.shape[1], own, size)
    for b in range(top, end):
        copy_row(dy[len(gates) - 1, b], dh[b], 0, units)
    for t in range(len(gates) - 1, -1, -1):
        for b in range(top, end):
            over = len(lengths) > 0 and t >= lengths[b]
            if over:
                dz[t, b] = 0
                du[t, b] = 0
            else:
                _backward_row(
                    gates[t, b], c[t, b], c[t + 1, b], dh[b], dc[b], dz[t, b], du[t, b], hat[t, b], scale[t, b],
                    hat_c[t, b], scale_c[t, b], gain, gain_c, rooms[own], sums[own], peephole, coupled,
                )  # fmt: skip
                dh[b] = 0
            if t:
                _add_loop(dh, units, (dy[t - 1, b].ctypes.data, dh[b].ctypes.data))
        if by_rows:
            columns_product(task, t, du[t, top:end], packed, dh[top:end], 0, units, spares[own])
        else:
            meetings = meet(task, meetings, size)
            columns_product(task, t, du[t], packed, dh, first, last, spares[own])
            meetings = meet(task, meetings, size)


@jit(**FAST)
def _backward_row(
    row: Any, old: Any, new: Any, dm: Any, dc: Any, dz: Any, du: Any, hat: Any, scale: Any, hat_c: Any, scale_c: Any,
    gain: Any, gain_c: Any, room: Any, sums: Any, peephole: Any, coupled: bool,
) -> None:  # fmt: skip
    units, width, size = len(old), len(row), row.itemsize
    d, shown = room[:units], room[units : 2 * units]
    o, gains, to = row[width - units :].ctypes.data, gain_c.ctypes.data, sums[width:].ctypes.data
    _cell_gradient_loop(
        row, units,
        (o, hat_c.ctypes.data, gains, gains + units * size, dm.ctypes.data, to, to + units * size, d.ctypes.data,
         shown.ctypes.data),
    )  # fmt: skip
    known = _means(d, gain_c[0], hat_c, scale_c, room[2 * units :])
    told = (known, known + size, known + 2 * size)
    _through_cell_loop(row, units, (d.ctypes.data, gains, hat_c.ctypes.data, *told, dc.ctypes.data))
    places = backward_places(row, old, new, shown, dm, dm, dc, dz, sums[width + 2 * units :], peephole, 0)
    if len(peephole) and coupled:
        _seeing_coupled_back(row, units, places)
    elif len(peephole):
        _seeing_back(row, units, places)
    elif coupled:
        _coupled_back(row, units, places)
    else:
        _back(row, units, places)
    _means(dz, gain[0], hat, scale, room[2 * units :])
    places_of_gates = (dz.ctypes.data, gain.ctypes.data, hat.ctypes.data, *told, du.ctypes.data, sums.ctypes.data)
    _through_gates_loop(row, width, places_of_gates)


@jit(**FAST)
def _normalise(x: Any) -> Any:
    """x = (x - mean) / deviation; returns 1 / deviation."""
    total = x[0] - x[0]
    for j in range(len(x)):
        total += x[j]
    mean = total / x.dtype.type(len(x))
    spread = x[0] - x[0]
    for j in range(len(x)):
        spread += (x[j] - mean) * (x[j] - mean)
    scale = x.dtype.type(1.0 / math.sqrt(spread / len(x) + EPSILON))
    for j in range(len(x)):
        x[j] = (x[j] - mean) * scale
    return scale


@jit(**FAST)
def _means(d: Any, gain: Any, hat: Any, scale: Any, known: Any) -> Any:
    """What `_through` is told, left in `known`; returns its address."""
    total = d[0] - d[0]
    along = d[0] - d[0]
    for j in range(len(d)):
        total += d[j] * gain[j]
        along += d[j] * gain[j] * hat[j]
    known[0], known[1] = total / d.dtype.type(len(d)), along / d.dtype.type(len(d))
    known[2] = scale
    return known.ctypes.data


@cache
def forward_task(dtype: Any) -> Any:
    """`forward` as a function of a task, its arrays in the order of `forward`'s; told: coupled, by rows."""

    def lstm_norm_forward_task(address: Any) -> None:
        task = task_at(address)
        forward(
            task, array_3(task, 0, dtype), array_3(task, 1, dtype), array_3(task, 2, dtype), array_3(task, 3, dtype),
            array_2(task, 4, dtype), array_3(task, 5, dtype), array_2(task, 6, dtype), array_2(task, 7, dtype),
            array_2(task, 8, dtype), array_2(task, 9, dtype), array_1(task, 10, dtype), array_2(task, 11, dtype),
            array_2(task, 12, dtype), array_2(task, 13, dtype), array_1(task, 14, np.int64),
            number(task, 0) != 0, number(task, 1) != 0,
        )  # fmt: skip

    return c_function(types.void(types.voidptr), lstm_norm_forward_task)


@cache
def backward_task(dtype: Any) -> Any:
    """`backward` as a function of a task, its arrays in the order of `backward`'s; told: coupled, by rows."""

    def lstm_norm_backward_task(address: Any) -> None:
        task = task_at(address)
        backward(
            task, array_3(task, 0, dtype), array_3(task, 1, dtype), array_3(task, 2, dtype), array_2(task, 3, dtype),
            array_2(task, 4, dtype), array_3(task, 5, dtype), array_3(task, 6, dtype), array_3(task, 7, dtype),
            array_2(task, 8, dtype), array_3(task, 9, dtype), array_2(task, 10, dtype), array_2(task, 11, dtype),
            array_2(task, 12, dtype), array_2(task, 13, dtype), array_1(task, 14, dtype), array_2(task, 15, dtype),
            array_2(task, 16, dtype), array_2(task, 17, dtype), array_2(task, 18, dtype), array_1(task, 19, np.int64),
            number(task, 0) != 0, number(task, 1) != 0,
        )  # fmt: skip

    return c_function(types.void(types.voidptr), lstm_norm_backward_task)
