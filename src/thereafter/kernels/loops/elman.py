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
from thereafter.kernels.arrays import ElmanBackward, ElmanForward, Floats, TeamArrays, Whole
from thereafter.kernels.loops.formulas import ACTIVATIONS
from thereafter.kernels.loops.recurrence import (
    COLUMNS,
    TURNED,
    TeamLoop,
    clear_rows,
    columns_product,
    live_after,
    live_before,
    meet_for,
    part_rows,
    step_rows,
    team_task,
)
from thereafter.kernels.loops.team import RowSpan, Span, member
from thereafter.kernels.loops.tiles import copy
from thereafter.kernels.loops.vectors import At, Lanes, Number, step_loop

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
        v["y"], v["new"], v["kept"] = h, h, h

    return formula


def _backward(name: str) -> Callable[[Lanes], None]:
    def formula(v: Lanes) -> None:
        d = _gradient(v["dh"] + v["dy"], v["out"], name)
        v["dz"], v["now"], v["sum"] = d, d, v["sum"] + d
        v["dh"] = v.constant(0.0)  # the product of the step before is added to it

    return formula


_KINDS = choices_of(ElmanOptions, "nonlinearity")
_forward_step = step_loop(
    ElmanForward, [_forward(name) for name in _KINDS], cleared=["y", "kept"], copied={"old": "new"},
    operands={
        "y": At("y"), "old": At("states"), "new": At("states", later=1), "kept": At("kept", later=1, beyond="states"),
    },
)  # fmt: skip
_backward_step = step_loop(
    ElmanBackward, [_backward(name) for name in _KINDS], cleared=["dz"],
    operands={
        **{name: At(name) for name in ("dy", "dh", "dz", "now")}, "out": At("kept", later=1, beyond="end"),
        "sum": At("d_bias"),
    },
)  # fmt: skip


@jit()
def forward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: ElmanForward[Floats], rows: RowSpan, units: Span, others: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """The outputs y [B, T, H], and the last states in `states[T]` [2, B, H], used in a circle; `states[0]` is given.

    y holds the input's part of the pre-activations; or the inputs are given, x [B, T, I], and their product is made
    here too. `kept` [B, T, H] gets the state before every step but the first; it has no steps where nobody wants them.
    In finished rows the state stays and the others are 0.
    """
    first, last = units
    top, end, step = rows
    x, y, lengths = arrays.x[top:end:step], arrays.y[top:end:step], team.lengths[top:end:step]
    own, spare = member(task), team.spares[member(task)]
    bias, own_bytes = arrays.bias.ctypes.data + first * y.itemsize, (last - first) * y.itemsize
    live, meetings = len(y), 0
    for t in range(y.shape[1]):
        live = live_before(lengths, live, t)
        if len(x):
            for b in range(live):
                copy(bias, y[b, t].ctypes.data + first * y.itemsize, own_bytes)
            columns_product(task, t, x[:live, t], team.packed_second, y[:live, t], first, last, spare)
        columns_product(task, t, step_rows(arrays.states, t, rows, live), team.packed, y[:live, t], first, last, spare)
        _forward_step(arrays, team.lengths, (t, 0, own), rows, units, arrays.kind[0])
        meetings = meet_for(task, meetings, size, arrays.states[(t + 1) % 2, top])


@jit()
def backward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: ElmanBackward[Floats], rows: RowSpan, units: Span, inputs: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """The gradient dz [B, T, H] of all pre-activations, from that of the outputs, dy [B, T, H], which it may replace;
    once more, close together, `now` [2, B, H], used in a circle and 0 at first.

    `dh` [B, H] holds the gradient of the last state, `end` [B, H], and in the end that of the first. `dx` [B, T, I] is
    made too where it has columns. Each part of the rows has its own row of `d_bias` [parts, H].
    """
    top, end, step = rows
    dh, dx, lengths = arrays.dh[top:end:step], arrays.dx[top:end:step], team.lengths[top:end:step]
    own, spare = member(task), team.spares[member(task)]
    live, meetings = 0, 0
    for t in range(arrays.dz.shape[1] - 1, -1, -1):
        live = live_after(lengths, live, t, len(dh))
        for part in range(parts[0], parts[1]):
            own_rows = part_rows(task, team, part, len(arrays.d_bias))
            _backward_step(arrays, team.lengths, (t, part, own), own_rows, units, arrays.kind[0])
        meetings = meet_for(task, meetings, size, arrays.now[t % 2, 0])
        now = step_rows(arrays.now, t, rows, live)
        columns_product(task, t, now, team.packed, dh[:live], units[0], units[1], spare)
        if dx.shape[2]:
            clear_rows(dx[:, t], inputs)
            columns_product(task, t, now, team.packed_second, dx[:live, t], inputs[0], inputs[1], spare)


forward_task = team_task("elman_forward", TeamLoop(ElmanForward, (TURNED, TURNED), forward_rows))
backward_task = team_task("elman_backward", TeamLoop(ElmanBackward, (COLUMNS, COLUMNS), backward_rows))
