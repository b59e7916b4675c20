"""All steps of the layer-norm LSTM by a team of threads: `loops.lstm` with W x, U h and c normalised row by row.

A whole row is normalised at once, so threads claim parts of the rows, and once the matrix is packed no thread waits for
another. Only where the matrix does not fit into the cache of each core is the product shared by units, and the threads
meet before and after it; between they claim the rows of each step.

Arrays: `hat_x`, `hat` [T, B, G] and `hat_c` [T, B, H] are W x, U h and c after the norm, before gain and shift;
`scales` [3, T, B] is one over the standard deviations they were divided by. `norms` [3, G] are the gains of W x and of
U h, and the bias; `norm_c` [2, H] are gain and shift of c. `rooms` [threads, ...] is what `rooms_size` says.
"""

from __future__ import annotations

import math

from thereafter.base.compiled import jit
from thereafter.cells.base import EPSILON
from thereafter.kernels.arrays import Float, Floats, Lengths, LstmNormBackward, LstmNormForward, Whole
from thereafter.kernels.loops.formulas import FAST
from thereafter.kernels.loops.lstm import (
    backward_places,
    cell_back_loop,
    cell_loop,
    clear_row,
    copy_row,
    forward_places,
    variant,
)
from thereafter.kernels.loops.recurrence import (
    COLUMNS,
    GATES,
    TeamLoop,
    columns_product,
    gates_product,
    pack_all,
    pack_own,
    team_task,
)
from thereafter.kernels.loops.team import (
    BY_ROWS,
    COUPLED,
    PARTS,
    claim_below,
    claim_parts,
    meet,
    member,
    members,
    parts_in,
    rows_of_part,
    rows_of_parts,
    switch,
)
from thereafter.kernels.loops.vectors import Lanes, Number, row_loop, tanh


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
def forward(task: Whole, arrays: LstmNormForward[Floats]) -> None:
    """All gates, cells c, outputs m [T + 1, B, H] and y [B, T, H]. At first `hat_x` holds W x; c[0], m[0] are given."""
    m, hat, weight, packed = arrays.m, arrays.hat, arrays.weight, arrays.packed
    steps, rows, width = arrays.gates.shape
    units, own, size = arrays.c.shape[2], member(task), members(task)
    parts, spare = parts_in(rows, False), arrays.spares[own]
    zeros = arrays.rooms[own, :width].reshape(1, width)  # no bias
    matrix, lengths, coupled = (GATES, weight, packed, units), arrays.lengths, switch(task, COUPLED)
    if switch(task, BY_ROWS):
        pack_all(task, matrix, (COLUMNS, weight, packed, 0))
        begin, after = claim_parts(task, parts, False, size)
        while begin < parts:
            top, end, _ = rows_of_parts(rows, begin, after, parts, False)
            for t in range(steps):
                gates_product(task, t, m[t, top:end], units, packed, zeros, hat[t, top:end], 0, units, spare)
                _forward_rows(t, arrays, lengths, coupled, top, end)
            begin, after = claim_parts(task, parts, False, size)
        return
    first, last = pack_own(task, matrix)
    meetings = 0
    for t in range(steps):
        gates_product(task, t, m[t], units, packed, zeros, hat[t], first, last, spare)
        meetings = meet(task, meetings, size)
        part = claim_below(task, PARTS, (t + 1) * rows)
        while part < (t + 1) * rows:
            _forward_rows(t, arrays, lengths, coupled, part - t * rows, part - t * rows + 1)
            part = claim_below(task, PARTS, (t + 1) * rows)
        meetings = meet(task, meetings, size)


@jit(**FAST)
def _forward_rows(t: int, arrays: LstmNormForward[Floats], lengths: Lengths, coupled: bool, top: int, end: int) -> None:
    """Some rows of step t, after the product."""
    c, m, y, units = arrays.c, arrays.m, arrays.y, arrays.c.shape[2]
    for b in range(top, end):
        if len(lengths) and t >= lengths[b]:
            copy_row(c[t, b], c[t + 1, b], 0, units)
            copy_row(m[t, b], m[t + 1, b], 0, units)
            clear_row(y[b, t], 0, units)
        else:
            _forward_row(
                arrays.gates[t, b], c[t, b], c[t + 1, b], m[t + 1, b], y[b, t], arrays.hat_x[t, b], arrays.hat[t, b],
                arrays.hat_c[t, b], arrays.scales[:, t, b], arrays.norms, arrays.norm_c, arrays.peephole, coupled,
            )  # fmt: skip


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
    cell_loop(row, variant(peephole, coupled), units, places)
    copy_row(new, hat_c, 0, units)
    scales[2] = _normalise(hat_c)
    o, gain_c, shift = row[len(row) - units :].ctypes.data, norm_c[0].ctypes.data, norm_c[1].ctypes.data
    _output_loop(row, units, (o, hat_c.ctypes.data, gain_c, shift, m.ctypes.data, y.ctypes.data))


@jit(**FAST)
def backward(task: Whole, arrays: LstmNormBackward[Floats]) -> None:
    """The gradients dx and du [T, B, G] of W x and U h at all steps, from that of the outputs, dy [B, T, H].

    `dh` and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. Each part of the rows
    adds its share of the gradients of `norms`, `norm_c` and the peepholes to its own row of `sums` [parts, 3 G + 5 H].
    `dx` may be `hat_x` itself, and `du` may be `hat`.
    """
    dh, du, weight, packed = arrays.dh, arrays.du, arrays.weight, arrays.packed
    steps, rows = arrays.gates.shape[:2]
    units, own, size = arrays.c.shape[2], member(task), members(task)
    parts, spare = len(arrays.sums), arrays.spares[own]
    matrix, lengths, coupled = (COLUMNS, weight, packed, units), arrays.lengths, switch(task, COUPLED)
    if switch(task, BY_ROWS):
        pack_all(task, matrix, (COLUMNS, weight, packed, 0))
        begin, after = claim_parts(task, parts, False, size)
        while begin < parts:
            top, end, _ = rows_of_parts(rows, begin, after, parts, False)
            for t in range(steps - 1, -1, -1):
                for part in range(begin, after):
                    _backward_rows(t, arrays, lengths, coupled, part, own)
                columns_product(task, t, du[t, top:end], packed, dh[top:end], 0, units, spare)
            begin, after = claim_parts(task, parts, False, size)
        return
    first, last = pack_own(task, matrix)
    meetings, limit = 0, 0
    for t in range(steps - 1, -1, -1):
        limit += parts
        part = claim_below(task, PARTS, limit)
        while part < limit:
            _backward_rows(t, arrays, lengths, coupled, part - limit + parts, own)
            part = claim_below(task, PARTS, limit)
        meetings = meet(task, meetings, size)
        columns_product(task, t, du[t], packed, dh, first, last, spare)
        meetings = meet(task, meetings, size)


@jit(**FAST)
def _backward_rows(
    t: int, arrays: LstmNormBackward[Floats], lengths: Lengths, coupled: bool, part: int, own: int
) -> None:
    """The rows of a part at step t, before the product, by thread `own`."""
    c, dx, du, dh, dy = arrays.c, arrays.dx, arrays.du, arrays.dh, arrays.dy
    units, room, sums = c.shape[2], arrays.rooms[own], arrays.sums[part]
    top, end, _ = rows_of_part(c.shape[1], part, len(arrays.sums), False)
    for b in range(top, end):
        if len(lengths) and t >= lengths[b]:
            clear_row(dx[t, b], 0, dx.shape[2])
            clear_row(du[t, b], 0, du.shape[2])
        else:
            _add_loop(dh, units, (dy[b, t].ctypes.data, dh[b].ctypes.data))
            _backward_row(
                arrays.gates[t, b], c[t, b], c[t + 1, b], dh[b], arrays.dc[b], dx[t, b], du[t, b], arrays.hat_x[t, b],
                arrays.hat[t, b], arrays.hat_c[t, b], arrays.scales[:, t, b], arrays.norms, arrays.norm_c, room, sums,
                arrays.peephole, coupled,
            )  # fmt: skip
            clear_row(dh[b], 0, units)


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
    cell_back_loop(row, variant(peephole, coupled), units, places)
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


forward_task = team_task("lstm_norm_forward", TeamLoop(LstmNormForward, forward))
backward_task = team_task("lstm_norm_backward", TeamLoop(LstmNormBackward, backward))
