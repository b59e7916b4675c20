"""All steps of an LSTM whose output is projected, h = W_hr m, forward and backward, by a team of threads.

`lstm` says who does what. Threads that own units own outputs too; they meet twice a step, since each of its two
products reads what the other one made.
"""

from __future__ import annotations

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import Floats, Lengths, ProjectedBackward, ProjectedForward, Whole
from thereafter.kernels.loops.lstm import clear_row, copy_row, lstm_backward, lstm_forward
from thereafter.kernels.loops.recurrence import (
    COLUMNS,
    GATES,
    TURNED,
    Matrix,
    TeamLoop,
    columns_product,
    gates_product,
    live_after,
    live_before,
    meet_for,
    team_task,
)
from thereafter.kernels.loops.team import COUPLED, RowSpan, Span, member, rows_of_part, switch
from thereafter.kernels.loops.vectors import Lanes, row_loop


@jit()
def _share_forward(arrays: ProjectedForward[Floats]) -> tuple[int, Matrix, Matrix]:
    return (
        len(arrays.y),
        (GATES, arrays.weight, arrays.packed, arrays.c.shape[2]),
        (TURNED, arrays.weight_r, arrays.packed_r, arrays.y.shape[2]),
    )


@jit()
def forward_rows(
    task: Whole, arrays: ProjectedForward[Floats], own_rows: RowSpan, own_units: Span, outputs: Span, parts: Span,
    size: int,
) -> None:  # fmt: skip
    """The gates [T, B, G], in place of the input's part of them; cells c [T + 1, B, H]; m [B, T, H] = o tanh(c); its
    projections h [T + 1, B, O]; and as outputs y [B, T, O].

    `c[0]` and `h[0]` are given; arrays of two steps are used in a circle. `now` [2, B, H] holds m of a step.
    """
    top, end, step = own_rows
    first, last = own_units
    gates, c, h = arrays.gates[:, top:end:step], arrays.c[:, top:end:step], arrays.h[:, top:end:step]
    now, m, y = arrays.now[:, top:end:step], arrays.m[top:end:step], arrays.y[top:end:step]
    lengths, units, spare = arrays.lengths[top:end:step], arrays.c.shape[2], arrays.spares[member(task)]
    live, meetings = len(y), 0
    for t in range(y.shape[1]):
        live = live_before(lengths, live, t)
        old, new, made = h[t % len(h)], h[(t + 1) % len(h)], gates[t, :live]
        gates_product(task, t, old[:live], units, arrays.packed, made, made, first, last, spare)
        lstm_forward(t, gates, c, now, m, arrays.peephole, switch(task, COUPLED), lengths, first, last)
        meetings = meet_for(task, meetings, size, now[(t + 1) % 2, 0])
        for b in range(len(y)):
            clear_row(y[b, t], outputs[0], outputs[1])
        read = now[(t + 1) % 2, :live]
        columns_product(task, t, read, arrays.packed_r, y[:live, t], outputs[0], outputs[1], spare)
        for b in range(len(y)):
            if len(lengths) and t >= lengths[b]:
                clear_row(y[b, t], outputs[0], outputs[1])
                copy_row(old[b], new[b], outputs[0], outputs[1])
            else:
                copy_row(y[b, t], new[b], outputs[0], outputs[1])
        meetings = meet_for(task, meetings, size, new[0])


@jit()
def _share_backward(arrays: ProjectedBackward[Floats]) -> tuple[int, Matrix, Matrix]:
    return (
        len(arrays.dp),
        (COLUMNS, arrays.weight_r, arrays.packed_r, arrays.c.shape[2]),
        (COLUMNS, arrays.weight, arrays.packed, arrays.dp.shape[2]),
    )


@jit()
def backward_rows(
    task: Whole, arrays: ProjectedBackward[Floats], own_rows: RowSpan, units: Span, outputs: Span, parts: Span,
    size: int,
) -> None:  # fmt: skip
    """The gradient dz [T, B, G] of all pre-activations and dp [B, T, O] of all projections, from that of the outputs,
    dy [B, T, O].

    `dh` [B, O] and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. `dm` [B, T, H]
    gets those of what is projected. Each part of the rows has its own row of `d_bias` and of `d_peephole`. `now`
    [B, O] and `none` [B, H] are 0.
    """
    top, end, step = own_rows
    dh, dm, dz = arrays.dh[top:end:step], arrays.dm[top:end:step], arrays.dz[:, top:end:step]
    dp, dy, now = arrays.dp[top:end:step], arrays.dy[top:end:step], arrays.now[top:end:step]
    rows, lengths, spare = len(dh), arrays.lengths[top:end:step], arrays.spares[member(task)]
    live, meetings = 0, 0
    for t in range(len(dz) - 1, -1, -1):
        live = live_after(lengths, live, t, rows)
        _outputs_back(t, dy, dh, dp, now, lengths, outputs[0], outputs[1])
        meetings = meet_for(task, meetings, size, now[0])
        for b in range(live):
            clear_row(dm[b, t], units[0], units[1])
        columns_product(task, t, now[:live], arrays.packed_r, dm[:live, t], units[0], units[1], spare)
        for part in range(parts[0], parts[1]):
            _gates_back(t, task, arrays, part, units)
        meetings = meet_for(task, meetings, size, dz[t, 0])
        columns_product(task, t, dz[t, :live], arrays.packed, dh[:live], outputs[0], outputs[1], spare)


def _add(v: Lanes) -> None:
    d = v["dh"] + v["dy"]
    v["dp"], v["now"] = d, d
    v["dh"] = v.constant(0.0)  # the product of the step before is added to it


_added = row_loop(_add, "dh", "dy", "dp", "now")


@jit()
def _outputs_back(
    t: int, dy: Floats, dh: Floats, dp: Floats, now: Floats, lengths: Lengths, first: int, last: int
) -> None:
    """The gradient of step t's projections; finished rows get 0 and keep their dh."""
    offset = first * dp.itemsize
    for b in range(len(dh)):
        if len(lengths) and t >= lengths[b]:
            clear_row(dp[b, t], first, last)
        else:
            places = (
                dh[b].ctypes.data + offset, dy[b, t].ctypes.data + offset, dp[b, t].ctypes.data + offset,
                now[b].ctypes.data + offset,
            )  # fmt: skip
            _added(dp, last - first, places)


@jit()
def _gates_back(t: int, task: Whole, arrays: ProjectedBackward[Floats], part: int, units: Span) -> None:
    """The rows of one part at step t, between the products."""
    top, end, step = rows_of_part(len(arrays.dp), part, len(arrays.d_bias), len(arrays.lengths) > 0)
    lstm_backward(
        t, arrays.gates[:, top:end:step], arrays.c[:, top:end:step], arrays.dm[top:end:step],
        arrays.none[top:end:step], arrays.dc[top:end:step], arrays.dz[:, top:end:step], arrays.d_bias[part],
        arrays.d_peephole[part], arrays.peephole, switch(task, COUPLED), arrays.lengths[top:end:step], units[0],
        units[1],
    )  # fmt: skip


forward_task = team_task("projected_forward", TeamLoop(ProjectedForward, forward_rows, _share_forward))
backward_task = team_task("projected_backward", TeamLoop(ProjectedBackward, backward_rows, _share_backward))
