"""The LSTM, and the one whose output is projected, h = W_hr m: a step between its matrix products, and all steps by a
team of threads, forward and backward.

Arrays are whole sequences, time first: T steps, B rows, H units; gates [T, B, 4H] in the order input, forget, cell,
output (a coupled cell has no forget block: 3H). `peephole` is [3, H] (input, forget, output) or empty, `lengths` [B] or
empty. Between products a step works on some units of each row, so that several threads can share one. In finished rows
(t >= lengths) states keep their values, outputs and the gradients of pre-activations are 0.

A team is called once a sequence. Either the threads claim parts of the rows: then each reads all of the matrix at every
step, and once that is packed no thread waits for another. Or they own units, and with them a part of the matrix: then
all of them meet at every step, and each reads what the others have just made. The first is faster where the matrix fits
into the cache of each core. (`recurrence.team_task` does either.) With a projection threads that own units own outputs
too; they meet twice a step, since each of its two products reads what the other one made.

A finished row takes no part in a step's product where no longer row comes after it, so rows are best sorted by length,
the longest first.

Whoever does it, a number is made by the same operations in the same order: sums over rows are made for each part, and
added up by the caller.
"""

from __future__ import annotations

from collections.abc import Callable

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import (
    Floats,
    LstmBackward,
    LstmForward,
    ProjectedBackward,
    ProjectedForward,
    TeamArrays,
    Whole,
)
from thereafter.kernels.loops.recurrence import (
    COLUMNS,
    GATES,
    TURNED,
    TeamLoop,
    clear_rows,
    columns_product,
    gates_product,
    live_after,
    live_before,
    meet_for,
    part_rows,
    step_rows,
    team_task,
)
from thereafter.kernels.loops.team import COUPLED, UNITS, RowSpan, Span, member
from thereafter.kernels.loops.tiles import copy
from thereafter.kernels.loops.vectors import At, Lanes, Number, gates_of, step_loop, tanh


def cell_formula(v: Lanes, peephole: bool, coupled: bool) -> tuple[Number, Number]:
    """i, f, g, o are pre-activations and become gates; returns o and the new cell."""
    old, i, g, o = v["old"], v["i"], v["g"], v["o"]
    if peephole:
        i = i + v["peephole_i"] * old
    if coupled:
        i, g = gates_of([i], [g])
        new = old + i * (g - old)
        f = None
    else:
        f = v["f"] + v["peephole_f"] * old if peephole else v["f"]
        if peephole:
            i, f, g = gates_of([i, f], [g])
        else:
            i, f, o, g = gates_of([i, f, o], [g])
        new = f * old + i * g
        v["f"] = f
    if peephole:
        o = o + v["peephole_o"] * new
    if peephole or coupled:
        (o,) = gates_of([o], [])
    v["i"], v["g"], v["o"], v["new"] = i, g, o, new
    return o, new


def back(v: Lanes, dm: Number, dc: Number, shown: Number, peephole: bool, coupled: bool) -> None:
    """The gradients of all gates and of the old cell, from dm, the gradient of m = o shown, and from dc, that of the
    new cell, to which the part through m has been added. They may take the place of the gates and of dc.
    """
    i, g, o, old = v["i"], v["g"], v["o"], v["old"]
    do = dm * shown * o * (1.0 - o)
    if peephole:
        dc = dc + do * v["peephole_o"]
        v["to_o"] = v["to_o"] + do * v["new"]
    dg = dc * i * (1.0 - g * g)
    if coupled:
        di = dc * (g - old) * i * (1.0 - i)
        before = dc * (1.0 - i)
    else:
        f = v["f"]
        di = dc * g * i * (1.0 - i)
        df = dc * old * f * (1.0 - f)
        before = dc * f
        if peephole:
            before = before + df * v["peephole_f"]
            v["to_f"] = v["to_f"] + df * old
        v["df"] = df
    if peephole:
        before = before + di * v["peephole_i"]
        v["to_i"] = v["to_i"] + di * old
    v["di"], v["dg"], v["do"], v["dc"] = di, dg, do, before


def _forward(v: Lanes, peephole: bool, coupled: bool) -> None:
    o, new = cell_formula(v, peephole, coupled)
    m = o * tanh(new)
    v["m"], v["y"] = m, m


def _add(v: Lanes) -> None:
    d = v["dh"] + v["dy"]
    v["dp"], v["now"] = d, d
    v["dh"] = v.constant(0.0)  # the product of the step before is added to it


def _backward(v: Lanes, peephole: bool, coupled: bool) -> None:
    shown, dm = tanh(v["new"]), v["dm"] + v["dy"]
    back(v, dm, v["dc"] + dm * v["o"] * (1.0 - shown * shown), shown, peephole, coupled)
    v["dm"] = v.constant(0.0)  # the product of the step before is added to it
    for gate in "igo" if coupled else "ifgo":
        v[f"sum_{gate}"] = v[f"sum_{gate}"] + v[f"d{gate}"]


def variants(formula: Callable[[Lanes, bool, bool], object]) -> list[Callable[[Lanes], None]]:
    """A formula for each kind of LSTM, in the order of `variant`."""

    def of(peephole: bool, coupled: bool) -> Callable[[Lanes], None]:
        def chosen(v: Lanes) -> None:
            formula(v, peephole, coupled)

        return chosen

    return [of(peephole, coupled) for peephole in (False, True) for coupled in (False, True)]


@jit()
def variant(task: Whole, peephole: Floats) -> int:
    """The number of a kind of LSTM."""
    number: int = (2 if len(peephole) else 0) + task[COUPLED]
    return number


def gates_at(array: str, prefix: str = "") -> dict[str, At]:
    """The gates i, f, g, o in a row. A coupled cell has no f: its place is then any, and never read."""
    return {f"{prefix}{gate}": At(array, block) for gate, block in zip("ifgo", (0, 1, -2, -1), strict=True)}


def peepholes_at(array: str, prefix: str) -> dict[str, At]:
    """Three rows for the gates i, f, o."""
    return {f"{prefix}{gate}": At(array, block) for block, gate in enumerate("ifo")}


STEP = {**gates_at("gates"), **peepholes_at("peephole", "peephole_"), "old": At("c"), "new": At("c", later=1)}
"""What forward and backward passes of a step read."""
_BACK = {
    **STEP, **gates_at("dz", "d"), **gates_at("d_bias", "sum_"), **peepholes_at("d_peephole", "to_"), "dc": At("dc"),
}  # fmt: skip
_FINISHED, _NO_GATES = {"old": "new", "before": "m"}, ("di", "df", "dg", "do")
_forward_step = step_loop(
    LstmForward, variants(_forward), cleared=["y"], copied=_FINISHED,
    operands=STEP | {"before": At("xh", -1), "m": At("xh", -1, later=1), "y": At("y")},
)  # fmt: skip
_backward_step = step_loop(
    LstmBackward, variants(_backward), _BACK | {"dm": At("dh"), "dy": At("dy")}, cleared=_NO_GATES
)


@jit()
def forward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: LstmForward[Floats], rows: RowSpan, units: Span, others: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """All gates [T, B, G], cells c [T + 1, B, H] and outputs y [B, T, H].

    `xh` [T + 1, B, I + H] has the input of each step beside the output before it; c[0] and the h of xh[0] are given.
    Where `x` [B, T, I] is not empty each step copies its input from there; then a thread must have rows of its own.

    The matrix is [G, I + H] where the input's product is part of each step, or [G, H]; `z` [T, B, G] is the rest of the
    pre-activations, and may be the gates themselves. An array of fewer steps is used in a circle, so that values nobody
    will ask for again stay in the caches. One row of z stands for all.
    """
    top, end, step = rows
    hidden, own, xh, z = task[UNITS], member(task), arrays.xh[:, top:end:step], arrays.z
    x, lengths = arrays.x[top:end:step], team.lengths[top:end:step]
    inputs, read_from = xh.shape[2] - hidden, xh.shape[2] - team.weight.shape[1]
    if z.shape[1] > 1:
        z = z[:, top:end:step]
    live, meetings = xh.shape[1], 0
    for t in range(arrays.y.shape[1]):
        live = live_before(lengths, live, t)
        for b in range(len(x)):
            copy(x[b, t].ctypes.data, xh[t, b].ctypes.data, inputs * x.itemsize)
        gates = step_rows(arrays.gates, t, rows, live)
        read, start = xh[t % len(xh), :live, read_from:], z[t % len(z), :live]
        gates_product(task, t, read, hidden, team.packed, start, gates, units[0], units[1], team.spares[own])
        _forward_step(arrays, team.lengths, (t, 0, own), rows, units, variant(task, arrays.peephole))
        meetings = meet_for(task, meetings, size, xh[(t + 1) % len(xh), 0, inputs:])


@jit()
def backward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: LstmBackward[Floats], rows: RowSpan, units: Span, inputs: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """The gradient dz [T, B, G] of all pre-activations, from that of the outputs, dy [B, T, H].

    `dh` and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. `dx` [B, T, I] is made
    too where it has columns. Each part of the rows has its own row of `d_bias` [parts, G] and of `d_peephole`
    [parts, 3, H]. `dz` may be the gates themselves.
    """
    top, end, step = rows
    dh, dx, lengths = arrays.dh[top:end:step], arrays.dx[top:end:step], team.lengths[top:end:step]
    own, spare = member(task), team.spares[member(task)]
    live, meetings = 0, 0
    for t in range(len(arrays.dz) - 1, -1, -1):
        live = live_after(lengths, live, t, len(dh))
        for part in range(parts[0], parts[1]):
            own_rows = part_rows(task, team, part, len(arrays.d_bias))
            _backward_step(arrays, team.lengths, (t, part, own), own_rows, units, variant(task, arrays.peephole))
        dz = step_rows(arrays.dz, t, rows, live)
        meetings = meet_for(task, meetings, size, arrays.dz[t, 0])
        columns_product(task, t, dz, team.packed, dh[:live], units[0], units[1], spare)
        if dx.shape[2]:
            clear_rows(dx[:, t], inputs)
            columns_product(task, t, dz, team.packed_second, dx[:live, t], inputs[0], inputs[1], spare)


forward_task = team_task("lstm_forward", TeamLoop(LstmForward, (GATES, COLUMNS), forward_rows))
backward_task = team_task("lstm_backward", TeamLoop(LstmBackward, (COLUMNS, COLUMNS), backward_rows))


def _show(v: Lanes) -> None:
    v["new"] = v["y"]


_projected_step = step_loop(
    ProjectedForward, variants(_forward), cleared=["y"], copied=_FINISHED,
    operands=STEP | {"before": At("now"), "m": At("now", later=1), "y": At("m")},
)  # fmt: skip
_show_step = step_loop(
    ProjectedForward, [_show], {"y": At("y"), "old": At("h"), "new": At("h", later=1)}, cleared=["y"],
    copied={"old": "new"},
)  # fmt: skip
_add_step = step_loop(ProjectedBackward, [_add], {name: At(name) for name in ("dh", "dy", "dp", "now")}, cleared=["dp"])
_projected_back_step = step_loop(
    ProjectedBackward, variants(_backward), _BACK | {"dm": At("none"), "dy": At("dm")}, cleared=_NO_GATES
)


@jit()
def projected_forward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: ProjectedForward[Floats], rows: RowSpan, units: Span, outputs: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """The gates [T, B, G], in place of the input's part of them; cells c [T + 1, B, H]; m [B, T, H] = o tanh(c); its
    projections h [T + 1, B, O]; and as outputs y [B, T, O].

    `c[0]` and `h[0]` are given; arrays of two steps are used in a circle. `now` [2, B, H] holds m of a step.
    """
    top, end, step = rows
    y, lengths, own = arrays.y[top:end:step], team.lengths[top:end:step], member(task)
    live, meetings, spare = len(y), 0, team.spares[own]
    for t in range(y.shape[1]):
        live = live_before(lengths, live, t)
        gates, where = step_rows(arrays.gates, t, rows, live), (t, 0, own)
        read = step_rows(arrays.h, t, rows, live)
        gates_product(task, t, read, task[UNITS], team.packed, gates, gates, units[0], units[1], spare)
        _projected_step(arrays, team.lengths, where, rows, units, variant(task, arrays.peephole))
        meetings = meet_for(task, meetings, size, arrays.now[(t + 1) % 2, top])
        clear_rows(y[:, t], outputs)
        read = step_rows(arrays.now, t + 1, rows, live)
        columns_product(task, t, read, team.packed_second, y[:live, t], outputs[0], outputs[1], spare)
        _show_step(arrays, team.lengths, where, rows, outputs, 0)
        meetings = meet_for(task, meetings, size, arrays.h[(t + 1) % len(arrays.h), top])


@jit()
def projected_backward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: ProjectedBackward[Floats], rows: RowSpan, units: Span, outputs: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """The gradient dz [T, B, G] of all pre-activations and dp [B, T, O] of all projections, from that of the outputs,
    dy [B, T, O].

    `dh` [B, O] and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. `dm` [B, T, H]
    gets those of what is projected. Each part of the rows has its own row of `d_bias` and of `d_peephole`. `now`
    [B, O] and `none` [B, H] are 0.
    """
    top, end, step = rows
    dh, dm, now = arrays.dh[top:end:step], arrays.dm[top:end:step], arrays.now[top:end:step]
    lengths, own, spare = team.lengths[top:end:step], member(task), team.spares[member(task)]
    live, meetings = 0, 0
    for t in range(len(arrays.dz) - 1, -1, -1):
        live = live_after(lengths, live, t, len(dh))
        _add_step(arrays, team.lengths, (t, 0, own), rows, outputs, 0)
        meetings = meet_for(task, meetings, size, now[0])
        clear_rows(dm[:live, t], units)
        columns_product(task, t, now[:live], team.packed, dm[:live, t], units[0], units[1], spare)
        for part in range(parts[0], parts[1]):
            own_rows = part_rows(task, team, part, len(arrays.d_bias))
            _projected_back_step(arrays, team.lengths, (t, part, own), own_rows, units, variant(task, arrays.peephole))
        dz = step_rows(arrays.dz, t, rows, live)
        meetings = meet_for(task, meetings, size, arrays.dz[t, 0])
        columns_product(task, t, dz, team.packed_second, dh[:live], outputs[0], outputs[1], spare)


projected_forward_task = team_task(
    "projected_forward", TeamLoop(ProjectedForward, (GATES, TURNED), projected_forward_rows)
)
projected_backward_task = team_task(
    "projected_backward", TeamLoop(ProjectedBackward, (COLUMNS, COLUMNS), projected_backward_rows)
)
