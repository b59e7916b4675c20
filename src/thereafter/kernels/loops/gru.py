"""The GRU: rows of a step between its products, and all steps by a team of threads, forward and backward.

Arrays are whole sequences, time first: T steps, B rows, H units, h [T + 1, B, H]. Gates, by the order of reset and
product:

    after     [T, B, 4H], u, r, z, n, where u = U_n h + b' is what the reset gate multiplies: n = tanh(x_n + r u)
    before    [T, B, 3H], r, z, n, and apart `reset` [T, B, H] = r h: n = tanh(x_n + U_n (r h))

so that in both the gates of the input's product are neighbours, and those of the recurrent one. `keep` is two numbers:
the new state is k h + (1 - k) n, k = keep[0] + keep[1] z, with 0, 1 where z multiplies the old state, 1, -1 where it
multiplies the candidate n. Every loop works on the units `first` to `last` of a row; `lengths` is [B] or empty.

`loops.lstm` says how a team shares a sequence. Reset after the product needs one product a step. Reset before it needs
two, the second from what all units have made of the first: where threads claim rows that costs nothing, where they own
units they meet twice a step.
"""

from __future__ import annotations

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import Floats, GruBackward, GruForward, TeamArrays, Whole
from thereafter.kernels.loops.recurrence import (
    COLUMNS,
    GATES,
    TeamLoop,
    columns_product,
    gates_product,
    live_after,
    live_before,
    meet_for,
    part_rows,
    step_rows,
    team_task,
)
from thereafter.kernels.loops.team import UNITS, RowSpan, Span, member
from thereafter.kernels.loops.vectors import At, Lanes, Number, gates_of, step_loop, tanh


def _to_new(v: Lanes, z: Number, n: Number) -> None:
    """The new state."""
    new = n + (v.same("keep") + v.same("sign") * z) * (v["h"] - n)
    v["n"], v["new"], v["y"] = n, new, new


def _from_new(v: Lanes) -> tuple[Number, Number, Number]:
    """The gradients of z's and n's pre-activations, and of the old state past both."""
    z, n, h, d, sign = v["z"], v["n"], v["h"], v["dh"] + v["dy"], v.same("sign")
    kept = v.same("keep") + sign * z
    return d * (h - n) * sign * (z * (1.0 - z)), d * (1.0 - kept) * (1.0 - n * n), d * kept


def _after(v: Lanes) -> None:
    r, z = gates_of([v["r"], v["z"]], [])
    v["r"], v["z"] = r, z
    _to_new(v, z, tanh(v["n"] + r * v["u"]))


def _after_back(v: Lanes) -> None:
    u, r = v["u"], v["r"]
    dz, dn, past = _from_new(v)
    dr, du = dn * u * (r * (1.0 - r)), dn * r
    for name, d in (("u", du), ("r", dr), ("z", dz), ("n", dn)):
        v[f"d{name}"] = d
        v[f"sum_{name}"] = v[f"sum_{name}"] + d
    v["dh"] = past


def _mix(v: Lanes) -> None:
    _to_new(v, v["z"], tanh(v["n"]))


def _unmix(v: Lanes) -> None:
    dz, dn, past = _from_new(v)
    v["dz"], v["dn"], v["dh"] = dz, dn, past
    v["sum_z"], v["sum_n"] = v["sum_z"] + dz, v["sum_n"] + dn
    v["d_reset"] = v.constant(0.0)  # the product is added to it


def _reset(v: Lanes) -> None:
    r, z = gates_of([v["r"], v["z"]], [])
    v["r"], v["z"], v["reset"] = r, z, r * v["h"]


def _resetting_back(v: Lanes) -> None:
    r, d = v["r"], v["d_reset"]
    dr = d * v["h"] * (r * (1.0 - r))
    v["dh"] = v["dh"] + d * r
    v["dr"], v["sum_r"] = dr, v["sum_r"] + dr


_AFTER, _BEFORE = "urzn", "rzn"  # the gates in a row


def _gates_at(array: str, gates: str, prefix: str = "") -> dict[str, At]:
    return {f"{prefix}{gate}": At(array, block) for block, gate in enumerate(gates)}


_KEEP = {"keep": At("keep", 0), "sign": At("keep", 1)}
_FORWARD = {**_KEEP, "h": At("h"), "new": At("h", later=1), "reset": At("reset"), "y": At("y")}
_after_step, _mix_step = (
    step_loop(GruForward, [formula], _FORWARD | _gates_at("gates", gates), cleared=["y"], copied={"h": "new"})
    for formula, gates in ((_after, _AFTER), (_mix, _BEFORE))
)
_reset_step = step_loop(GruForward, [_reset], _FORWARD | _gates_at("gates", _BEFORE), cleared=["reset"])


def _backward_operands(gates: str) -> dict[str, At]:
    return {
        **_KEEP, **{name: At(name) for name in ("h", "d_reset", "dh", "dy")}, **_gates_at("gates", gates),
        **_gates_at("dz", gates, "d"), **_gates_at("d_bias", gates, "sum_"),
    }  # fmt: skip


_after_back_step, _unmix_step = (
    step_loop(GruBackward, [formula], _backward_operands(gates), cleared=[f"d{gate}" for gate in gates])
    for formula, gates in ((_after_back, _AFTER), (_unmix, _BEFORE))
)
_reset_back_step = step_loop(GruBackward, [_resetting_back], _backward_operands(_BEFORE))


@jit()
def forward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: GruForward[Floats], rows: RowSpan, units: Span, others: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """All gates, states h [T + 1, B, H] and outputs y [B, T, H]. h[0] is given; an h of two steps is used in a circle.

    `gates` has the input's part of the pre-activations at first; `keep` is explained above.

    reset after     gates [T, B, 4H]; the matrix [3H, H] is U in the order n, r, z; `bias_n` [H] is added to U_n h.
    reset before    gates [T, B, 3H]; the matrix [2H, H] is U of r and z, the second one [H, H] that of n, transposed;
                    `reset` [T, B, H] becomes r h, or one step of it serves all.
    """
    first, last = units
    top, end, step = rows
    hidden, lengths, before = task[UNITS], team.lengths[top:end:step], len(team.second) > 0
    own, spare = member(task), team.spares[member(task)]
    live, meetings = len(range(top, end, step)), 0
    for t in range(len(arrays.gates)):
        live, where = live_before(lengths, live, t), (t, 0, own)
        gates = step_rows(arrays.gates, t, rows, live)
        products = gates[:, : len(team.weight)]
        if not before:
            for b in range(live):
                for j in range(first, last):
                    products[b, j] = arrays.bias_n[j]
        read = step_rows(arrays.h, t, rows, live)
        gates_product(task, t, read, hidden, team.packed, products, products, first, last, spare)
        if before:
            _reset_step(arrays, team.lengths, where, rows, units, 0)
            reset = step_rows(arrays.reset, t, rows, live)
            meetings = meet_for(task, meetings, size, arrays.reset[t % len(arrays.reset), top])
            columns_product(task, t, reset, team.packed_second, gates[:, 2 * hidden :], first, last, spare)
            _mix_step(arrays, team.lengths, where, rows, units, 0)
        else:
            _after_step(arrays, team.lengths, where, rows, units, 0)
        meetings = meet_for(task, meetings, size, arrays.h[(t + 1) % len(arrays.h), top])


@jit()
def backward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: GruBackward[Floats], rows: RowSpan, units: Span, others: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """The gradient dz of all pre-activations, and of u, laid out as the gates, from that of the outputs, dy [B, T, H].

    `dh` [B, H] holds the gradient of the last state, and in the end that of the first. Each part of the rows has its
    own row of `d_bias` [parts, G]. Where reset comes before the product `d_reset` [B, H] is room for the gradient of
    r h; the matrices are as in `forward_rows`, the second one not transposed. `dz` may be the gates themselves.
    """
    first, last = units
    top, end, step = rows
    dh, d_reset, lengths = arrays.dh[top:end:step], arrays.d_reset[top:end:step], team.lengths[top:end:step]
    own, spare, before, width = member(task), team.spares[member(task)], len(team.second) > 0, len(team.weight)
    live, meetings = 0, 0
    for t in range(len(arrays.dz) - 1, -1, -1):
        live = live_after(lengths, live, t, len(dh))
        dz = step_rows(arrays.dz, t, rows, live)
        for part in range(parts[0], parts[1]):
            own_rows = part_rows(task, team, part, len(arrays.d_bias))
            if before:
                _unmix_step(arrays, team.lengths, (t, part, own), own_rows, units, 0)
            else:
                _after_back_step(arrays, team.lengths, (t, part, own), own_rows, units, 0)
        if before:
            meetings = meet_for(task, meetings, size, arrays.dz[t, 0, width:])
            columns_product(task, t, dz[:, width:], team.packed_second, d_reset[:live], first, last, spare)
            for part in range(parts[0], parts[1]):
                own_rows = part_rows(task, team, part, len(arrays.d_bias))
                _reset_back_step(arrays, team.lengths, (t, part, own), own_rows, units, 0)
        meetings = meet_for(task, meetings, size, arrays.dz[t, 0, :width])
        columns_product(task, t, dz[:, :width], team.packed, dh[:live], first, last, spare)


forward_task = team_task("gru_forward", TeamLoop(GruForward, (GATES, COLUMNS), forward_rows, one_by_one=True))
backward_task = team_task("gru_backward", TeamLoop(GruBackward, (COLUMNS, COLUMNS), backward_rows, one_by_one=True))
