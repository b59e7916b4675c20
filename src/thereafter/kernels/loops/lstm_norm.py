"""All steps of the layer-norm LSTM by a team of threads: `loops.lstm` with W x, U h and c normalised row by row.

A whole row is normalised at once, so a thread owns rows of the batch, and once the matrix is packed no thread waits for
another. Only where the matrix does not fit into the cache of each core is the product shared by units, and the threads
meet before and after it.

Arrays: `hat_x`, `hat` [T, B, G] and `hat_c` [T, B, H] are W x, U h and c after the norm, before gain and shift;
`scales` [3, T, B] is one over the standard deviations they were divided by. `norms` [3, G] are the gains of W x and of
U h, and the bias; `norm_c` [2, H] are gain and shift of c. `rooms` [threads, ...] is what `rooms_size` says.
"""

from __future__ import annotations

import math

from thereafter.cells.base import EPSILON
from thereafter.compiled import CFunction, c_function, compiled_once, jit
from thereafter.kernels.arrays import Float, Floats, FloatType, LstmNormBackward, LstmNormForward, Whole
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
from thereafter.kernels.loops.tiles import types
from thereafter.kernels.loops.vectors import Lanes, Number, row_loop, tanh

_forward_arrays, _backward_arrays = arrays_of(LstmNormForward), arrays_of(LstmNormBackward)
_cell, _coupled_cell = cell_loop(False, False), cell_loop(False, True)
_peephole_cell, _peephole_coupled_cell = cell_loop(True, False), cell_loop(True, True)
_back, _coupled_back = gates_back_loop(False, False), gates_back_loop(False, True)
_peephole_back, _peephole_coupled_back = gates_back_loop(True, False), gates_back_loop(True, True)


def _shown(v: Lanes) -> Number:
    """c after the norm, as tanh sees it."""
    return v["gain"] * v["hat"] + v["shift"]


def _preactivation(v: Lanes) -> None:
    v["z"] = v["gain_x"] * v["hat_x"] + v["gain"] * v["hat"] + v["bias"]


def _output(v: Lanes) -> None:
    m = v["o"] * tanh(_shown(v))
    v["m"], v["y"] = m, m


def _cell_gradient(v: Lanes) -> None:
    """Through m = o tanh(gain hat + shift): the gradient of hat, and those of gain and shift added up."""
    shown = _shown(v)
    bent = tanh(shown)
    d = v["dm"] * v["o"] * (1.0 - bent * bent)
    v["to_gain"] = v["to_gain"] + d * v["hat"]
    v["to_shift"] = v["to_shift"] + d
    v["d"], v["shown"] = d, shown


def _add(v: Lanes) -> None:
    v["y"] = v["y"] + v["x"]


def _norm_gradient(v: Lanes, part: str) -> Number:
    """The gradient of x through a layer norm: hat = (x - mean(x)) scale, and d is the gradient of gain hat. `mean` and
    `slope` are the means of gain d and of gain d hat along the row."""
    mean, slope, scale = (v.same(f"{name}{part}") for name in ("mean", "slope", "scale"))
    return scale * (v["d"] * v[f"gain{part}"] - mean - v[f"hat{part}"] * slope)


def _norm_gradient_cell(v: Lanes) -> None:
    v["dx"] = v["dx"] + _norm_gradient(v, "")


def _norm_gradient_gates(v: Lanes) -> None:
    d = v["d"]
    v["to_bias"] = v["to_bias"] + d
    for part in ("_x", ""):
        v[f"to_gain{part}"] = v[f"to_gain{part}"] + d * v[f"hat{part}"]
        v[f"dx{part}"] = _norm_gradient(v, part)  # which may take the place of hat


_NORM = ("gain", "hat", "mean", "slope", "scale", "dx")
_preactivation_loop = row_loop(_preactivation, "gain_x", "hat_x", "gain", "hat", "bias", "z")
_output_loop = row_loop(_output, "o", "hat", "gain", "shift", "m", "y")
_cell_gradient_loop = row_loop(_cell_gradient, "o", "hat", "gain", "shift", "dm", "to_gain", "to_shift", "d", "shown")
_norm_gradient_cell_loop = row_loop(_norm_gradient_cell, "d", *_NORM)
_norm_gradient_gates_loop = row_loop(
    _norm_gradient_gates, "d", *(f"{name}_x" for name in _NORM), *_NORM, "to_gain_x", "to_gain", "to_bias"
)
_add_loop = row_loop(_add, "x", "y")


@jit(**FAST)
def forward(task: Whole, arrays: LstmNormForward[Floats], lengths: Whole, coupled: bool, by_rows: bool) -> None:
    """All gates, cells c, outputs m [T + 1, B, H] and y [B, T, H]. At first `hat_x` holds W x; c[0], m[0] are given."""
    gates, c, m, y = arrays.gates, arrays.c, arrays.m, arrays.y
    hat_x, hat, hat_c = arrays.hat_x, arrays.hat, arrays.hat_c
    scales, norms, norm_c, peephole = arrays.scales, arrays.norms, arrays.norm_c, arrays.peephole
    weight, packed, spares, rooms = arrays.weight, arrays.packed, arrays.spares, arrays.rooms
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
    row: Floats, old: Floats, new: Floats, m: Floats, y: Floats, hat_x: Floats, hat: Floats, hat_c: Floats,
    scales: Floats, norms: Floats, norm_c: Floats, peephole: Floats, coupled: bool,
) -> None:  # fmt: skip
    units = len(old)
    scales[0], scales[1] = _normalise(hat_x), _normalise(hat)
    gain_x, gain, bias = norms[0].ctypes.data, norms[1].ctypes.data, norms[2].ctypes.data
    _preactivation_loop(row, len(row), (gain_x, hat_x.ctypes.data, gain, hat.ctypes.data, bias, row.ctypes.data))
    places = forward_places(row, old, new, m, m, peephole, 0)
    if len(peephole) and coupled:
        _peephole_coupled_cell(row, units, places)
    elif len(peephole):
        _peephole_cell(row, units, places)
    elif coupled:
        _coupled_cell(row, units, places)
    else:
        _cell(row, units, places)
    copy_row(new, hat_c, 0, units)
    scales[2] = _normalise(hat_c)
    o, gain_c, shift = row[len(row) - units :].ctypes.data, norm_c[0].ctypes.data, norm_c[1].ctypes.data
    _output_loop(row, units, (o, hat_c.ctypes.data, gain_c, shift, m.ctypes.data, y.ctypes.data))


@jit(**FAST)
def backward(task: Whole, arrays: LstmNormBackward[Floats], lengths: Whole, coupled: bool, by_rows: bool) -> None:
    """The gradients dx and du [T, B, G] of W x and U h at all steps, from that of the outputs, dy [B, T, H].

    `dh` and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. Each thread adds its
    share of the gradients of `norms`, `norm_c` and the peepholes to its own row of `sums` [threads, 3 G + 5 H]. `dx`
    may be `hat_x` itself, and `du` may be `hat`.
    """
    gates, c, dy, dh, dc, dx, du = arrays.gates, arrays.c, arrays.dy, arrays.dh, arrays.dc, arrays.dx, arrays.du
    hat_x, hat, hat_c, scales, norms = arrays.hat_x, arrays.hat, arrays.hat_c, arrays.scales, arrays.norms
    norm_c, weight, packed, spares = arrays.norm_c, arrays.weight, arrays.packed, arrays.spares
    rooms, sums, peephole = arrays.rooms, arrays.sums, arrays.peephole
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
    row: Floats, old: Floats, new: Floats, dm: Floats, dc: Floats, dx: Floats, du: Floats, hat_x: Floats, hat: Floats,
    hat_c: Floats, scales: Floats, norms: Floats, norm_c: Floats, room: Floats, sums: Floats, peephole: Floats,
    coupled: bool,
) -> None:  # fmt: skip
    units, width, size = len(old), len(row), row.itemsize
    dz, d, shown = room[:width], room[width : width + units], room[width + units : width + 2 * units]
    means, means_x = room[width + 2 * units :], room[width + 2 * units + 3 :]
    o, gain_c, to_c = row[width - units :].ctypes.data, norm_c[0].ctypes.data, sums[3 * width :]
    _cell_gradient_loop(
        row, units,
        (o, hat_c.ctypes.data, gain_c, norm_c[1].ctypes.data, dm.ctypes.data, to_c.ctypes.data,
         to_c[units:].ctypes.data, d.ctypes.data, shown.ctypes.data),
    )  # fmt: skip
    at = _row_means(d, norm_c[0], hat_c, scales[2], means)
    _norm_gradient_cell_loop(row, units, (d.ctypes.data, gain_c, hat_c.ctypes.data, *at, dc.ctypes.data))
    places = backward_places(row, old, new, shown, dm, dm, dc, dz, to_c[2 * units :], peephole, 0)
    if len(peephole) and coupled:
        _peephole_coupled_back(row, units, places)
    elif len(peephole):
        _peephole_back(row, units, places)
    elif coupled:
        _coupled_back(row, units, places)
    else:
        _back(row, units, places)
    at_x = _row_means(dz, norms[0], hat_x, scales[0], means_x)
    at = _row_means(dz, norms[1], hat, scales[1], means)
    to = sums.ctypes.data
    _norm_gradient_gates_loop(
        row, width,
        (dz.ctypes.data, norms[0].ctypes.data, hat_x.ctypes.data, *at_x, dx.ctypes.data, norms[1].ctypes.data,
         hat.ctypes.data, *at, du.ctypes.data, to, to + width * size, to + 2 * width * size),
    )  # fmt: skip


def rooms_size(width: int, units: int) -> int:
    """How many numbers one thread needs beside the arrays: a row of gates, at first zeros, two rows of units, and three
    means of each of two rows."""
    return width + 2 * units + 6


@jit(**FAST)
def _normalise(x: Floats) -> Float:
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
def _row_means(d: Floats, gain: Floats, hat: Floats, scale: Float, means: Floats) -> tuple[int, int, int]:
    """The three numbers of a row that `_norm_gradient` needs, written to `means`: means of gain d and of gain d hat,
    and the scale. Returns their addresses."""
    total = d[0] - d[0]
    along = d[0] - d[0]
    for j in range(len(d)):
        total += d[j] * gain[j]
        along += d[j] * gain[j] * hat[j]
    means[0], means[1] = total / d.dtype.type(len(d)), along / d.dtype.type(len(d))
    means[2] = scale
    at = means.ctypes.data
    return at, at + means.itemsize, at + 2 * means.itemsize


@compiled_once
def forward_task(dtype: FloatType) -> CFunction:
    """`forward` as a function of a task, whose arrays are those of `LstmNormForward`."""

    def lstm_norm_forward_task(address: int) -> None:
        task = task_at(address)
        arrays = _forward_arrays(task, dtype)
        forward(task, arrays, arrays.lengths, switch(task, COUPLED), switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), lstm_norm_forward_task)


@compiled_once
def backward_task(dtype: FloatType) -> CFunction:
    """`backward` as a function of a task, whose arrays are those of `LstmNormBackward`."""

    def lstm_norm_backward_task(address: int) -> None:
        task = task_at(address)
        arrays = _backward_arrays(task, dtype)
        backward(task, arrays, arrays.lengths, switch(task, COUPLED), switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), lstm_norm_backward_task)
