"""All steps of the layer-norm LSTM by a team of threads: `loops.lstm` with W x, U h and c normalised row by row.

What is normalised is a whole row, so a thread owns rows of the batch, and once the matrix is packed no thread waits for
another; but where the matrix does not fit into the cache of each core, the product is shared by units, and the threads
meet before and after it. Of what is normalised `hat_x`, `hat` [T, B, 4H] and `hat_c` [T, B, H] are the values, `scales`
[3, T, B] one over their deviations. `norms` [3, 4H] are the gains of W x and U h and the bias, `norm_c` [2, H] gain and
shift of c.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thereafter.cells.base import EPSILON
from thereafter.compiled import c_function, compiled_once, jit
from thereafter.kernels.loops.activation import FAST
from thereafter.kernels.loops.lstm import (
    backward_places,
    cell_loop,
    clear_row,
    copy_row,
    forward_places,
    gates_back_loop,
)
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


def _preactivation(v: Lanes) -> None:
    v["z"] = v["gain_x"] * v["hat_x"] + v["gain"] * v["hat"] + v["bias"]


def _output(v: Lanes) -> None:
    m = v["o"] * tanh(_shown(v))
    v["m"], v["y"] = m, m


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


def _through(v: Lanes, part: str) -> Number:
    """The gradient of x from d, that of gain hat, where hat = (x - mean(x)) scale: `mean` and `slope` are the means of
    gain d and of gain d hat along the row."""
    mean, slope, scale = (v.same(f"{name}{part}") for name in ("mean", "slope", "scale"))
    return scale * (v["d"] * v[f"gain{part}"] - mean - v[f"hat{part}"] * slope)


def _through_cell(v: Lanes) -> None:
    v["dx"] = v["dx"] + _through(v, "")


def _through_gates(v: Lanes) -> None:
    d = v["d"]
    v["to_bias"] = v["to_bias"] + d
    for part in ("_x", ""):
        v[f"to_gain{part}"] = v[f"to_gain{part}"] + d * v[f"hat{part}"]
        v[f"dx{part}"] = _through(v, part)  # which may take the place of hat


_NORM = ("gain", "hat", "mean", "slope", "scale", "dx")
_preactivation_loop = row_loop(_preactivation, "gain_x", "hat_x", "gain", "hat", "bias", "z")
_output_loop = row_loop(_output, "o", "hat", "gain", "shift", "m", "y")
_cell_gradient_loop = row_loop(_cell_gradient, "o", "hat", "gain", "shift", "dm", "to_gain", "to_shift", "d", "shown")
_through_cell_loop = row_loop(_through_cell, "d", *_NORM)
_through_gates_loop = row_loop(
    _through_gates, "d", *(f"{name}_x" for name in _NORM), *_NORM, "to_gain_x", "to_gain", "to_bias"
)
_add_loop = row_loop(_add, "x", "y")


@jit(**FAST)
def forward(
    task: Any, gates: Any, c: Any, m: Any, y: Any, hat_x: Any, hat: Any, hat_c: Any, scales: Any, norms: Any,
    norm_c: Any, weight: Any, packed: Any, spares: Any, rooms: Any, peephole: Any, lengths: Any, coupled: bool,
    by_rows: bool,
) -> None:  # fmt: skip
    """`hat_x` holds W x; c[0] and m[0] are given; y [B, T, H] is made. `rooms` is what `rooms_size` says."""
    size, own = members(task), member(task)
    units = c.shape[2]
    first, last = own_units(units, lanes_of(gates), own, size)
    pack_gates(weight, units, packed, first, last)
    meetings = meet(task, 0, size)
    top, end = share(gates.shape[1], own, size)
    zeros = rooms[own, : gates.shape[2]].reshape(1, gates.shape[2])  # no bias
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
                clear_row(y[b, t], 0, units)
                continue
            _forward_row(
                gates[t, b], c[t, b], c[t + 1, b], m[t + 1, b], y[b, t], hat_x[t, b], hat[t, b], hat_c[t, b],
                scales[:, t, b], norms, norm_c, peephole, coupled,
            )  # fmt: skip
        if not by_rows:
            meetings = meet(task, meetings, size)


@jit(**FAST)
def _forward_row(
    row: Any, old: Any, new: Any, m: Any, y: Any, hat_x: Any, hat: Any, hat_c: Any, scales: Any, norms: Any,
    norm_c: Any, peephole: Any, coupled: bool,
) -> None:  # fmt: skip
    units = len(old)
    scales[0], scales[1] = _normalise(hat_x), _normalise(hat)
    gain_x, gain, bias = norms[0].ctypes.data, norms[1].ctypes.data, norms[2].ctypes.data
    _preactivation_loop(row, len(row), (gain_x, hat_x.ctypes.data, gain, hat.ctypes.data, bias, row.ctypes.data))
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
    scales[2] = _normalise(hat_c)
    o, gain_c, shift = row[len(row) - units :].ctypes.data, norm_c[0].ctypes.data, norm_c[1].ctypes.data
    _output_loop(row, units, (o, hat_c.ctypes.data, gain_c, shift, m.ctypes.data, y.ctypes.data))


@jit(**FAST)
def backward(
    task: Any, gates: Any, c: Any, dy: Any, dh: Any, dc: Any, dx: Any, du: Any, hat_x: Any, hat: Any, hat_c: Any,
    scales: Any, norms: Any, norm_c: Any, weight: Any, packed: Any, spares: Any, rooms: Any, sums: Any, peephole: Any,
    lengths: Any, coupled: bool, by_rows: bool,
) -> None:  # fmt: skip
    """dx and du, the gradients of W x and U h at all steps, from dy [B, T, H] and, in dh and dc [B, H], those of the
    last state, which become those of the first. To `sums` [threads, 3 x 4H + 5H] each thread adds its share of the
    gradients of `norms`, `norm_c` and the peepholes. `dx` may be `hat_x`, and `du` `hat`."""
    size, own = members(task), member(task)
    units = c.shape[2]
    first, last = (0, units) if by_rows else own_units(units, lanes_of(gates), own, size)
    pack_columns(weight, packed, first, last, own if by_rows else 0, size if by_rows else 1)
    meetings = meet(task, 0, size)
    top, end = share(gates.shape[1], own, size)
    for t in range(len(gates) - 1, -1, -1):
        for b in range(top, end):
            if len(lengths) and t >= lengths[b]:
                clear_row(dx[t, b], 0, dx.shape[2])
                clear_row(du[t, b], 0, du.shape[2])
                continue
            _add_loop(dh, units, (dy[b, t].ctypes.data, dh[b].ctypes.data))
            _backward_row(
                gates[t, b], c[t, b], c[t + 1, b], dh[b], dc[b], dx[t, b], du[t, b], hat_x[t, b], hat[t, b],
                hat_c[t, b], scales[:, t, b], norms, norm_c, rooms[own], sums[own], peephole, coupled,
            )  # fmt: skip
            clear_row(dh[b], 0, units)
        if by_rows:
            columns_product(task, t, du[t, top:end], packed, dh[top:end], 0, units, spares[own])
        else:
            meetings = meet(task, meetings, size)
            columns_product(task, t, du[t], packed, dh, first, last, spares[own])
            meetings = meet(task, meetings, size)


@jit(**FAST)
def _backward_row(
    row: Any, old: Any, new: Any, dm: Any, dc: Any, dx: Any, du: Any, hat_x: Any, hat: Any, hat_c: Any, scales: Any,
    norms: Any, norm_c: Any, room: Any, sums: Any, peephole: Any, coupled: bool,
) -> None:  # fmt: skip
    units, width, size = len(old), len(row), row.itemsize
    dz, d, shown = room[:width], room[width : width + units], room[width + units : width + 2 * units]
    known, known_x = room[width + 2 * units :], room[width + 2 * units + 3 :]
    o, gain_c, to_c = row[width - units :].ctypes.data, norm_c[0].ctypes.data, sums[3 * width :]
    _cell_gradient_loop(
        row, units,
        (o, hat_c.ctypes.data, gain_c, norm_c[1].ctypes.data, dm.ctypes.data, to_c.ctypes.data,
         to_c[units:].ctypes.data, d.ctypes.data, shown.ctypes.data),
    )  # fmt: skip
    told = _means(d, norm_c[0], hat_c, scales[2], known)
    _through_cell_loop(row, units, (d.ctypes.data, gain_c, hat_c.ctypes.data, *told, dc.ctypes.data))
    places = backward_places(row, old, new, shown, dm, dm, dc, dz, to_c[2 * units :], peephole, 0)
    if len(peephole) and coupled:
        _seeing_coupled_back(row, units, places)
    elif len(peephole):
        _seeing_back(row, units, places)
    elif coupled:
        _coupled_back(row, units, places)
    else:
        _back(row, units, places)
    told_x, told = _means(dz, norms[0], hat_x, scales[0], known_x), _means(dz, norms[1], hat, scales[1], known)
    to = sums.ctypes.data
    _through_gates_loop(
        row, width,
        (dz.ctypes.data, norms[0].ctypes.data, hat_x.ctypes.data, *told_x, dx.ctypes.data, norms[1].ctypes.data,
         hat.ctypes.data, *told, du.ctypes.data, to, to + width * size, to + 2 * width * size),
    )  # fmt: skip


def rooms_size(width: int, units: int) -> int:
    """Numbers of the room of one thread: a row of gates, at first zeros, two rows of units, and what is known of two
    rows."""
    return width + 2 * units + 6


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
    """What `_through` is told, left in `known`; returns the places."""
    total = d[0] - d[0]
    along = d[0] - d[0]
    for j in range(len(d)):
        total += d[j] * gain[j]
        along += d[j] * gain[j] * hat[j]
    known[0], known[1] = total / d.dtype.type(len(d)), along / d.dtype.type(len(d))
    known[2] = scale
    told = known.ctypes.data
    return told, told + known.itemsize, told + 2 * known.itemsize


@compiled_once
def forward_task(dtype: Any) -> Any:
    """`forward` as a function of a task, its arrays in the order of `forward`'s; told: coupled, by rows."""

    def lstm_norm_forward_task(address: Any) -> None:
        task = task_at(address)
        forward(
            task, array_3(task, 0, dtype), array_3(task, 1, dtype), array_3(task, 2, dtype), array_3(task, 3, dtype),
            array_3(task, 4, dtype), array_3(task, 5, dtype), array_3(task, 6, dtype), array_3(task, 7, dtype),
            array_2(task, 8, dtype), array_2(task, 9, dtype), array_2(task, 10, dtype), array_1(task, 11, dtype),
            array_2(task, 12, dtype), array_2(task, 13, dtype), array_2(task, 14, dtype), array_1(task, 15, np.int64),
            number(task, 0) != 0, number(task, 1) != 0,
        )  # fmt: skip

    return c_function(types.void(types.voidptr), lstm_norm_forward_task)


@compiled_once
def backward_task(dtype: Any) -> Any:
    """`backward` as a function of a task, its arrays in the order of `backward`'s; told: coupled, by rows."""

    def lstm_norm_backward_task(address: Any) -> None:
        task = task_at(address)
        backward(
            task, array_3(task, 0, dtype), array_3(task, 1, dtype), array_3(task, 2, dtype), array_2(task, 3, dtype),
            array_2(task, 4, dtype), array_3(task, 5, dtype), array_3(task, 6, dtype), array_3(task, 7, dtype),
            array_3(task, 8, dtype), array_3(task, 9, dtype), array_3(task, 10, dtype), array_2(task, 11, dtype),
            array_2(task, 12, dtype), array_2(task, 13, dtype), array_1(task, 14, dtype), array_2(task, 15, dtype),
            array_2(task, 16, dtype), array_2(task, 17, dtype), array_2(task, 18, dtype), array_1(task, 19, np.int64),
            number(task, 0) != 0, number(task, 1) != 0,
        )  # fmt: skip

    return c_function(types.void(types.voidptr), lstm_norm_backward_task)
