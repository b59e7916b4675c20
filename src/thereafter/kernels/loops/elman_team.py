"""All steps of the simple recurrent network, forward and backward, by a team of threads: one call a sequence.

`lstm_team` says who does what. All that is kept is batch first, as inputs and outputs are, so that nothing is turned
round; the states of a step alone lie close together, since a product reads them once for every panel of the matrix.

Between products the rows of a step are worked on in units `first` to `last`, so that several threads can share a row.
The derivative of each nonlinearity is computed from its output.

Arrays are whole sequences: B rows, T steps, H units.
"""

from __future__ import annotations

from collections.abc import Callable

from thereafter.base.compiled import CFunction, c_function, compiled_once, jit
from thereafter.kernels.arrays import ElmanBackward, ElmanForward, Floats, FloatType, Whole
from thereafter.kernels.loops.lstm import copy_row
from thereafter.kernels.loops.parts import claim_parts, parts_in, rows_of_part, rows_of_parts
from thereafter.kernels.loops.recurrence import (
    columns_product,
    fetch_row,
    lanes_of,
    own_units,
    pack_all_columns,
    pack_all_turned,
    pack_columns,
    pack_turned,
)
from thereafter.kernels.loops.team import BY_ROWS, arrays_of, meet, member, members, switch, task_at
from thereafter.kernels.loops.tiles import copy, types
from thereafter.kernels.loops.vectors import Lanes, Number, row_loop, sigmoid, tanh

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


TANH, RELU, LEAKY, RELU6, SIGMOID, IDENTITY = range(6)
_SLOPE = 0.01  # of the leaky relu below 0


def _output(x: Number, kind: int) -> Number:
    """The nonlinearity of a pre-activation."""
    if kind == TANH:
        return tanh(x)
    if kind == SIGMOID:
        return sigmoid(x)
    if kind == IDENTITY:
        return x
    above = x.at_least(0.0)
    if kind == LEAKY:
        return above + _SLOPE * x.at_most(0.0)
    return above.at_most(6.0) if kind == RELU6 else above


def _gradient(d: Number, out: Number, kind: int) -> Number:
    """The gradient of a pre-activation from that of the output, d."""
    if kind == TANH:
        return d * (1.0 - out * out)
    if kind == SIGMOID:
        return d * out * (1.0 - out)
    if kind == IDENTITY:
        return d
    none = d.lanes.constant(0.0)
    inner = _where_above(out, 0.0, d, _SLOPE * d if kind == LEAKY else none)
    return inner if kind != RELU6 else _where_above(6.0 - out, 0.0, inner, none)


def _where_above(x: Number, limit: float, there: Number, elsewhere: Number) -> Number:
    builder = x.lanes.builder
    above = builder.fcmp_ordered(">", x.value, x.lanes.constant(limit).value)
    return Number(x.lanes, builder.select(above, there.value, elsewhere.value))


def _forward_loop(kind: int) -> Callable[..., None]:
    def formula(v: Lanes) -> None:
        h = _output(v["y"], kind)
        v["y"], v["state"], v["kept"] = h, h, h

    return row_loop(formula, "y", "state", "kept")


def _backward_loop(kind: int) -> Callable[..., None]:
    def formula(v: Lanes) -> None:
        d = _gradient(v["dh"] + v["dy"], v["out"], kind)
        v["dz"], v["now"], v["sum"] = d, d, v["sum"] + d
        v["dh"] = v.constant(0.0)  # the product of the step before is added to it

    return row_loop(formula, "out", "dy", "dh", "dz", "now", "sum")


def _clear(v: Lanes) -> None:
    v["row"] = v.constant(0.0)


_tanh, _relu, _leaky, _relu6, _sigmoid, _identity = (_forward_loop(kind) for kind in range(6))
_tanh_back, _relu_back, _leaky_back, _relu6_back, _sigmoid_back, _identity_back = (_backward_loop(k) for k in range(6))
_zero = row_loop(_clear, "row")


@jit()
def clear(row: Floats, first: int, last: int) -> None:
    """A part of a row to 0."""
    _zero(row, last - first, (row.ctypes.data + first * row.itemsize,))


@jit()
def elman_forward(
    t: int, y: Floats, states: Floats, kept: Floats, kind: int, lengths: Whole, first: int, last: int
) -> None:
    """Turn the pre-activations of step t, `y[:, t]`, into outputs.

    They are also written to `states[t + 1]` [2, B, H], used in a circle, and, where it has so many steps, to
    `kept[:, t + 1]`. In finished rows (t >= lengths) the state stays and the others are 0.
    """
    old, new, size = states[t % 2], states[(t + 1) % 2], y.itemsize
    for b in range(len(y)):
        row, state = y[b, t].ctypes.data + first * size, new[b].ctypes.data + first * size
        copy = kept[b, t + 1].ctypes.data + first * size if t + 1 < kept.shape[1] else state
        if len(lengths) and t >= lengths[b]:
            _zero(y, last - first, (row,))
            if copy != state:
                _zero(y, last - first, (copy,))
            if t == lengths[b]:  # from then on both have it
                copy_row(old[b], new[b], first, last)
        else:
            _activate(y, kind, last - first, (row, state, copy))


@jit()
def _activate(like: Floats, kind: int, count: int, places: tuple[int, int, int]) -> None:
    if kind == TANH:
        _tanh(like, count, places)
    elif kind == RELU:
        _relu(like, count, places)
    elif kind == LEAKY:
        _leaky(like, count, places)
    elif kind == RELU6:
        _relu6(like, count, places)
    elif kind == SIGMOID:
        _sigmoid(like, count, places)
    else:
        _identity(like, count, places)


@jit()
def elman_backward(
    t: int, kept: Floats, end_BH: Floats, dy: Floats, dh: Floats, dz: Floats, now: Floats, d_bias: Floats, kind: int,
    lengths: Whole, first: int, last: int,
) -> None:  # fmt: skip
    """The gradient of step t's pre-activations: `dz[:, t]`, and once more, close together, `now[t]` [2, B, H], used in
    a circle.

    The gradient of the step's output is `dh` [B, H] and `dy[:, t]` together; `dh` is 0 afterwards. Finished rows get
    dz = 0 and keep their dh. `d_bias` [H] is added to. `dz` may be `dy` itself.
    """
    size = dz.itemsize
    offset = first * size
    for b in range(len(dh)):
        row = dz[b, t].ctypes.data + offset
        if len(lengths) and t >= lengths[b]:
            _zero(dz, last - first, (row,))
        else:
            out = kept[b, t + 1].ctypes.data if t + 1 < kept.shape[1] else end_BH[b].ctypes.data
            places = (
                out + offset, dy[b, t].ctypes.data + offset, dh[b].ctypes.data + offset, row,
                now[t % 2, b].ctypes.data + offset, d_bias.ctypes.data + offset,
            )  # fmt: skip
            _activate_back(dz, kind, last - first, places)


@jit()
def _activate_back(like: Floats, kind: int, count: int, places: tuple[int, ...]) -> None:
    if kind == TANH:
        _tanh_back(like, count, places)
    elif kind == RELU:
        _relu_back(like, count, places)
    elif kind == LEAKY:
        _leaky_back(like, count, places)
    elif kind == RELU6:
        _relu6_back(like, count, places)
    elif kind == SIGMOID:
        _sigmoid_back(like, count, places)
    else:
        _identity_back(like, count, places)
