"""All steps of the simple recurrent network, forward and backward, by a team of threads: one call a sequence.

`lstm` says who does what. All that is kept is batch first, as inputs and outputs are, so that nothing is turned
round; the states of a step alone lie close together, since a product reads them once for every panel of the matrix.

Between products the rows of a step are worked on in units `first` to `last`, so that several threads can share a row.
The derivative of each nonlinearity is computed from its output.

Arrays are whole sequences: B rows, T steps, H units.
"""

from __future__ import annotations

from collections.abc import Callable

from thereafter.base.compiled import jit
from thereafter.cells.options import ElmanOptions, choices_of
from thereafter.kernels.arrays import ElmanBackward, ElmanForward, Floats, Lengths, Whole
from thereafter.kernels.loops.formulas import ACTIVATIONS
from thereafter.kernels.loops.lstm import clear_row, copy_row
from thereafter.kernels.loops.recurrence import (
    COLUMNS,
    TURNED,
    Matrix,
    TeamLoop,
    columns_product,
    live_after,
    live_before,
    meet_for,
    team_task,
)
from thereafter.kernels.loops.team import RowSpan, Span, member, rows_of_part
from thereafter.kernels.loops.tiles import copy
from thereafter.kernels.loops.vectors import Lanes, Number, row_loops


@jit()
def _share_forward(arrays: ElmanForward[Floats]) -> tuple[int, Matrix, Matrix]:
    return (
        len(arrays.y),
        (TURNED, arrays.weight, arrays.packed, arrays.y.shape[2]),
        (TURNED, arrays.weight_x, arrays.packed_x, len(arrays.weight_x)),
    )


@jit()
def forward_rows(
    task: Whole, arrays: ElmanForward[Floats], own_rows: RowSpan, own_units: Span, others: Span, parts: Span, size: int
) -> None:
    """The outputs y [B, T, H], and the last states in `states[T]` [2, B, H], used in a circle; `states[0]` is given.

    y holds the input's part of the pre-activations; or the inputs are given, x [B, T, I], and their product is made
    here too. `kept` [B, T, H] gets the state before every step but the first; it has no steps where nobody wants them.
    """
    top, end, step = own_rows
    first, last = own_units
    y, states, kept = arrays.y[top:end:step], arrays.states[:, top:end:step], arrays.kept[top:end:step]
    x, lengths, spare = arrays.x[top:end:step], arrays.lengths[top:end:step], arrays.spares[member(task)]
    bias, own = arrays.bias.ctypes.data + first * y.itemsize, (last - first) * y.itemsize
    live, meetings = len(y), 0
    for t in range(y.shape[1]):
        live = live_before(lengths, live, t)
        if len(x):
            for b in range(live):
                copy(bias, y[b, t].ctypes.data + first * y.itemsize, own)
            columns_product(task, t, x[:live, t], arrays.packed_x, y[:live, t], first, last, spare)
        columns_product(task, t, states[t % 2, :live], arrays.packed, y[:live, t], first, last, spare)
        elman_forward(t, y, states, kept, arrays.kind[0], lengths, first, last)
        meetings = meet_for(task, meetings, size, states[(t + 1) % 2, 0])


@jit()
def _share_backward(arrays: ElmanBackward[Floats]) -> tuple[int, Matrix, Matrix]:
    return (
        len(arrays.dz),
        (COLUMNS, arrays.weight, arrays.packed, arrays.dz.shape[2]),
        (COLUMNS, arrays.weight_x, arrays.packed_x, arrays.dx.shape[2]),
    )


@jit()
def backward_rows(
    task: Whole, arrays: ElmanBackward[Floats], own_rows: RowSpan, units: Span, inputs: Span, parts: Span, size: int
) -> None:
    """The gradient dz [B, T, H] of all pre-activations, from that of the outputs, dy [B, T, H], which it may replace.

    `dh` [B, H] holds the gradient of the last state, `end` [B, H], and in the end that of the first. `dx` [B, T, I] is
    made too where it has columns. Each part of the rows has its own row of `d_bias` [parts, H]. `now` [2, B, H] is 0.
    """
    top, end, step = own_rows
    dh, dx, now = arrays.dh[top:end:step], arrays.dx[top:end:step], arrays.now[:, top:end:step]
    rows, lengths, spare = len(dh), arrays.lengths[top:end:step], arrays.spares[member(task)]
    live, meetings = 0, 0
    for t in range(arrays.dz.shape[1] - 1, -1, -1):
        live = live_after(lengths, live, t, rows)
        for part in range(parts[0], parts[1]):
            _part_back(t, arrays, part, units)
        meetings = meet_for(task, meetings, size, now[t % 2, 0])
        columns_product(task, t, now[t % 2, :live], arrays.packed, dh[:live], units[0], units[1], spare)
        if dx.shape[2]:
            for b in range(rows):
                clear_row(dx[b, t], inputs[0], inputs[1])
            columns_product(task, t, now[t % 2, :live], arrays.packed_x, dx[:live, t], inputs[0], inputs[1], spare)


@jit()
def _part_back(t: int, arrays: ElmanBackward[Floats], part: int, units: Span) -> None:
    """The rows of one part at step t, before the product."""
    top, end, step = rows_of_part(len(arrays.dz), part, len(arrays.d_bias), len(arrays.lengths) > 0)
    elman_backward(
        t, arrays.kept[top:end:step], arrays.end[top:end:step], arrays.dy[top:end:step], arrays.dh[top:end:step],
        arrays.dz[top:end:step], arrays.now[:, top:end:step], arrays.d_bias[part], arrays.kind[0],
        arrays.lengths[top:end:step], units[0], units[1],
    )  # fmt: skip


_SLOPE = 0.01  # of the leaky relu below 0


def _gradient(d: Number, out: Number, name: str) -> Number:
    """The gradient of a pre-activation from that of the output, d."""
    if name == "tanh":
        return d * (1.0 - out * out)
    if name == "sigmoid":
        return d * out * (1.0 - out)
    if name == "identity":
        return d
    none = d.lanes.constant(0.0)
    inner = _where_above(out, 0.0, d, _SLOPE * d if name == "leaky_relu" else none)
    return inner if name != "relu6" else _where_above(6.0 - out, 0.0, inner, none)


def _where_above(x: Number, limit: float, there: Number, elsewhere: Number) -> Number:
    builder = x.lanes.builder
    above = builder.fcmp_ordered(">", x.value, x.lanes.constant(limit).value)
    return Number(x.lanes, builder.select(above, there.value, elsewhere.value))


def _forward(name: str) -> Callable[[Lanes], None]:
    def formula(v: Lanes) -> None:
        h = ACTIVATIONS[name](v["y"])
        v["y"], v["state"], v["kept"] = h, h, h

    return formula


def _backward(name: str) -> Callable[[Lanes], None]:
    def formula(v: Lanes) -> None:
        d = _gradient(v["dh"] + v["dy"], v["out"], name)
        v["dz"], v["now"], v["sum"] = d, d, v["sum"] + d
        v["dh"] = v.constant(0.0)  # the product of the step before is added to it

    return formula


_KINDS = choices_of(ElmanOptions, "nonlinearity")
_forward_loop = row_loops([_forward(name) for name in _KINDS], "y", "state", "kept")
_backward_loop = row_loops([_backward(name) for name in _KINDS], "out", "dy", "dh", "dz", "now", "sum")


@jit()
def elman_forward(
    t: int, y: Floats, states: Floats, kept: Floats, kind: int, lengths: Lengths, first: int, last: int
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
            clear_row(y[b, t], first, last)
            if copy != state:
                clear_row(kept[b, t + 1], first, last)
            if t == lengths[b]:  # from then on both have it
                copy_row(old[b], new[b], first, last)
        else:
            _forward_loop(y, kind, last - first, (row, state, copy))


@jit()
def elman_backward(
    t: int, kept: Floats, end_BH: Floats, dy: Floats, dh: Floats, dz: Floats, now: Floats, d_bias: Floats, kind: int,
    lengths: Lengths, first: int, last: int,
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
            clear_row(dz[b, t], first, last)
        else:
            out = kept[b, t + 1].ctypes.data if t + 1 < kept.shape[1] else end_BH[b].ctypes.data
            places = (
                out + offset, dy[b, t].ctypes.data + offset, dh[b].ctypes.data + offset, row,
                now[t % 2, b].ctypes.data + offset, d_bias.ctypes.data + offset,
            )  # fmt: skip
            _backward_loop(dz, kind, last - first, places)


forward_task = team_task("elman_forward", TeamLoop(ElmanForward, forward_rows, _share_forward))
backward_task = team_task("elman_backward", TeamLoop(ElmanBackward, backward_rows, _share_backward))
