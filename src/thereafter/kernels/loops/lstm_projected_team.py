"""All steps of an LSTM whose output is projected, h = W_hr m, forward and backward, by a team of threads.

`lstm_team` says who does what. Threads that own units own outputs too; they meet twice a step, since each of its two
products reads what the other one made.
"""

from __future__ import annotations

from thereafter.base.compiled import CFunction, c_function, compiled_once, jit
from thereafter.kernels.arrays import Floats, FloatType, ProjectedBackward, ProjectedForward, Whole
from thereafter.kernels.loops.lstm import clear_row, copy_row, lstm_backward, lstm_forward
from thereafter.kernels.loops.parts import claim_parts, parts_in, rows_of_part, rows_of_parts
from thereafter.kernels.loops.recurrence import (
    columns_product,
    fetch_row,
    gates_product,
    lanes_of,
    own_units,
    pack_all_columns,
    pack_columns,
    pack_gates,
    pack_turned,
    panels_of,
)
from thereafter.kernels.loops.team import (
    BY_ROWS,
    COUPLED,
    PACKED,
    PANELS,
    arrays_of,
    claim,
    meet,
    member,
    members,
    switch,
    task_at,
    wait_for,
)
from thereafter.kernels.loops.tiles import types
from thereafter.kernels.loops.vectors import Lanes, row_loop

_forward_arrays, _backward_arrays = arrays_of(ProjectedForward), arrays_of(ProjectedBackward)


@jit()
def forward(task: Whole, arrays: ProjectedForward[Floats], lengths: Whole, coupled: bool, by_rows: bool) -> None:
    """The gates [T, B, G], in place of the input's part of them; cells c [T + 1, B, H]; m [B, T, H] = o tanh(c); its
    projections h [T + 1, B, O]; and as outputs y [B, T, O].

    `c[0]` and `h[0]` are given; arrays of two steps are used in a circle. `now` [2, B, H] holds m of a step.
    """
    weight, weight_r, packed, packed_r = arrays.weight, arrays.weight_r, arrays.packed, arrays.packed_r
    rows, units, outputs, lanes = len(arrays.y), arrays.c.shape[2], arrays.y.shape[2], lanes_of(arrays.y)
    if not by_rows:
        own, size = member(task), members(task)
        first, last = own_units(units, lanes, own, size)
        first_o, last_o = own_units(outputs, lanes, own, size)
        pack_gates(weight, units, packed, first, last)
        pack_turned(weight_r, packed_r, first_o, last_o, 0, 1)
        _forward_rows(task, arrays, lengths, coupled, 0, rows, 1, first, last, first_o, last_o, size)
        return
    _pack_all(task, weight, units, packed, weight_r, packed_r)
    ragged, threads = len(lengths) > 0, members(task)
    parts = parts_in(rows, ragged)
    begin, after = claim_parts(task, parts, ragged, threads)
    while begin < parts:
        top, end, step = rows_of_parts(rows, begin, after, parts, ragged)
        _forward_rows(task, arrays, lengths, coupled, top, end, step, 0, units, 0, outputs, 1)
        begin, after = claim_parts(task, parts, ragged, threads)


@jit()
def _pack_all(task: Whole, weight_GO: Floats, units: int, packed: Floats, weight_OH: Floats, packed_r: Floats) -> None:
    """Both matrices of a step by all threads together."""
    lanes, outputs = lanes_of(weight_GO), len(weight_OH)
    panels, more = (units + lanes - 1) // lanes, panels_of(0, outputs, lanes)
    panel = claim(task, PANELS)
    while panel < panels + more:
        if panel < panels:
            pack_gates(weight_GO, units, packed, panel * lanes, min(units, (panel + 1) * lanes))
        else:
            pack_turned(weight_OH, packed_r, 0, outputs, panel - panels, more)
        claim(task, PACKED)
        panel = claim(task, PANELS)
    wait_for(task, PACKED, panels + more)


@jit()
def _forward_rows(
    task: Whole, arrays: ProjectedForward[Floats], lengths: Whole, coupled: bool, top: int, end: int, step: int,
    first: int, last: int, first_o: int, last_o: int, size: int,
) -> None:  # fmt: skip
    """The units `first` to `last` and the outputs `first_o` to `last_o` of some rows, by threads that meet."""
    gates, c, h = arrays.gates[:, top:end:step], arrays.c[:, top:end:step], arrays.h[:, top:end:step]
    now, m, y = arrays.now[:, top:end:step], arrays.m[top:end:step], arrays.y[top:end:step]
    lengths, units, spare = lengths[top:end:step], arrays.c.shape[2], arrays.spares[member(task)]
    live, meetings = len(y), 0
    for t in range(y.shape[1]):
        while len(lengths) and live and lengths[live - 1] <= t:
            live -= 1
        old, new, made = h[t % len(h)], h[(t + 1) % len(h)], gates[t, :live]
        gates_product(task, t, old[:live], units, arrays.packed, made, made, first, last, spare)
        lstm_forward(t, gates, c, now, m, arrays.peephole, coupled, lengths, first, last)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(now[(t + 1) % 2, 0])
        for b in range(len(y)):
            clear_row(y[b, t], first_o, last_o)
        columns_product(task, t, now[(t + 1) % 2, :live], arrays.packed_r, y[:live, t], first_o, last_o, spare)
        for b in range(len(y)):
            if len(lengths) and t >= lengths[b]:
                clear_row(y[b, t], first_o, last_o)
                copy_row(old[b], new[b], first_o, last_o)
            else:
                copy_row(y[b, t], new[b], first_o, last_o)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(new[0])


@jit()
def backward(task: Whole, arrays: ProjectedBackward[Floats], lengths: Whole, coupled: bool, by_rows: bool) -> None:
    """The gradient dz [T, B, G] of all pre-activations and dp [B, T, O] of all projections, from that of the outputs,
    dy [B, T, O].

    `dh` [B, O] and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. `dm` [B, T, H]
    gets those of what is projected. Each part of the rows has its own row of `d_bias` and of `d_peephole`. `now`
    [B, O] and `none` [B, H] are 0.
    """
    weight, weight_r, packed, packed_r = arrays.weight, arrays.weight_r, arrays.packed, arrays.packed_r
    rows, units, outputs, parts = len(arrays.dp), arrays.c.shape[2], arrays.dp.shape[2], len(arrays.d_bias)
    if not by_rows:
        own, size, lanes = member(task), members(task), lanes_of(weight)
        first, last = own_units(units, lanes, own, size)
        first_o, last_o = own_units(outputs, lanes, own, size)
        pack_columns(weight, packed, first_o, last_o, 0, 1)
        pack_columns(weight_r, packed_r, first, last, 0, 1)
        _backward_rows(task, arrays, lengths, coupled, 0, rows, 1, first, last, first_o, last_o, 0, parts, size)
        return
    pack_all_columns(task, weight, packed, outputs, weight_r, packed_r, units)
    ragged, threads = len(lengths) > 0, members(task)
    begin, after = claim_parts(task, parts, ragged, threads)
    while begin < parts:
        top, end, step = rows_of_parts(rows, begin, after, parts, ragged)
        _backward_rows(task, arrays, lengths, coupled, top, end, step, 0, units, 0, outputs, begin, after, 1)
        begin, after = claim_parts(task, parts, ragged, threads)


@jit()
def _backward_rows(
    task: Whole, arrays: ProjectedBackward[Floats], lengths: Whole, coupled: bool, top: int, end: int, step: int,
    first: int, last: int, first_o: int, last_o: int, begin: int, after: int, size: int,
) -> None:  # fmt: skip
    """The units and outputs of the rows of the parts `begin` to `after`, by `size` threads that meet."""
    dh, dm, dz = arrays.dh[top:end:step], arrays.dm[top:end:step], arrays.dz[:, top:end:step]
    dp, dy, now = arrays.dp[top:end:step], arrays.dy[top:end:step], arrays.now[top:end:step]
    rows, own, spare = len(dh), lengths[top:end:step], arrays.spares[member(task)]
    live, meetings = 0 if len(lengths) else rows, 0
    for t in range(len(dz) - 1, -1, -1):
        for b in range(live, rows):
            if own[b] > t:
                live = b + 1
        _outputs_back(t, dy, dh, dp, now, own, first_o, last_o)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(now[0])
        for b in range(live):
            clear_row(dm[b, t], first, last)
        columns_product(task, t, now[:live], arrays.packed_r, dm[:live, t], first, last, spare)
        for part in range(begin, after):
            _gates_back(t, arrays, lengths, coupled, part, first, last)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(dz[t, 0])
        columns_product(task, t, dz[t, :live], arrays.packed, dh[:live], first_o, last_o, spare)


def _add(v: Lanes) -> None:
    d = v["dh"] + v["dy"]
    v["dp"], v["now"] = d, d
    v["dh"] = v.constant(0.0)  # the product of the step before is added to it


_added = row_loop(_add, "dh", "dy", "dp", "now")


@jit()
def _outputs_back(
    t: int, dy: Floats, dh: Floats, dp: Floats, now: Floats, lengths: Whole, first: int, last: int
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
def _gates_back(
    t: int, arrays: ProjectedBackward[Floats], lengths: Whole, coupled: bool, part: int, first: int, last: int
) -> None:
    """The rows of one part at step t, between the products."""
    top, end, step = rows_of_part(len(arrays.dp), part, len(arrays.d_bias), len(lengths) > 0)
    lstm_backward(
        t, arrays.gates[:, top:end:step], arrays.c[:, top:end:step], arrays.dm[top:end:step],
        arrays.none[top:end:step], arrays.dc[top:end:step], arrays.dz[:, top:end:step], arrays.d_bias[part],
        arrays.d_peephole[part], arrays.peephole, coupled, lengths[top:end:step], first, last,
    )  # fmt: skip


@compiled_once
def forward_task(dtype: FloatType) -> CFunction:
    """`forward` as a function of a task, whose arrays are those of `ProjectedForward`."""

    def projected_forward_task(address: int) -> None:
        task = task_at(address)
        arrays = _forward_arrays(task, dtype)
        forward(task, arrays, arrays.lengths, switch(task, COUPLED), switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), projected_forward_task)


@compiled_once
def backward_task(dtype: FloatType) -> CFunction:
    """`backward` as a function of a task, whose arrays are those of `ProjectedBackward`."""

    def projected_backward_task(address: int) -> None:
        task = task_at(address)
        arrays = _backward_arrays(task, dtype)
        backward(task, arrays, arrays.lengths, switch(task, COUPLED), switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), projected_backward_task)
