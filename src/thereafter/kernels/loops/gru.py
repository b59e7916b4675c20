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
from thereafter.kernels.arrays import Floats, GruBackward, GruForward, Lengths, Whole
from thereafter.kernels.loops.lstm import clear_gates, clear_row, copy_row
from thereafter.kernels.loops.recurrence import (
    COLUMNS,
    GATES,
    Matrix,
    TeamLoop,
    columns_product,
    gates_product,
    live_after,
    live_before,
    meet_for,
    team_task,
)
from thereafter.kernels.loops.team import RowSpan, Span, member, rows_of_part
from thereafter.kernels.loops.vectors import Lanes, Number, gates_of, row_loop, tanh


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


_KEEP, _AFTER = ("keep", "sign"), ("u", "r", "z", "n")
_after_loop = row_loop(_after, *_KEEP, *_AFTER, "h", "new", "y")
_after_back_loop = row_loop(
    _after_back, *_KEEP, *_AFTER, "h", "dh", "dy", *(f"d{name}" for name in _AFTER), *(f"sum_{name}" for name in _AFTER)
)
_mix_loop = row_loop(_mix, *_KEEP, "z", "n", "h", "new", "y")
_unmix_loop = row_loop(_unmix, *_KEEP, "z", "n", "h", "dh", "dy", "dz", "dn", "sum_z", "sum_n", "d_reset")
_reset_loop = row_loop(_reset, "r", "z", "h", "reset")
_reset_back_loop = row_loop(_resetting_back, "r", "h", "d_reset", "dh", "dr", "sum_r")


@jit()
def after_forward(
    t: int, gates: Floats, h: Floats, y: Floats, keep: Floats, lengths: Lengths, first: int, last: int
) -> None:
    """Turn u and the pre-activations of step t into gates, in place, and into h[t + 1] and y[:, t].

    In finished rows (t >= lengths) h keeps its value and y is 0. An h of fewer steps is used in a circle.
    """
    before, after = h[t % len(h)], h[(t + 1) % len(h)]
    for b in range(h.shape[1]):
        if len(lengths) and t >= lengths[b]:
            copy_row(before[b], after[b], first, last)
            clear_row(y[b, t], first, last)
        else:
            u, r, z, n = _four(gates[t, b], h.shape[2], first)
            places = *_two(keep), u, r, z, n, _at(before[b], first), _at(after[b], first), _at(y[b, t], first)
            _after_loop(gates, last - first, places)


@jit()
def after_backward(
    t: int, gates: Floats, h: Floats, dy: Floats, dh: Floats, dz: Floats, d_bias: Floats, keep: Floats,
    lengths: Lengths, first: int, last: int,
) -> None:  # fmt: skip
    """The gradients of u and of step t's pre-activations, `dz[t]`; in `dh` [B, H] what flows past the product.

    The gradient of the state after the step is `dh` and `dy[:, t]` together. Finished rows get dz = 0 and keep their
    dh. `d_bias` [4H] is added to. `dz` may be the gates themselves.
    """
    units = h.shape[2]
    for b in range(h.shape[1]):
        if len(lengths) and t >= lengths[b]:
            clear_gates(dz[t, b], units, first, last)
        else:
            places = (
                *_two(keep), *_four(gates[t, b], units, first), _at(h[t, b], first), _at(dh[b], first),
                _at(dy[b, t], first), *_four(dz[t, b], units, first), *_four(d_bias, units, first),
            )  # fmt: skip
            _after_back_loop(gates, last - first, places)


@jit()
def before_reset(t: int, gates: Floats, h: Floats, reset: Floats, lengths: Lengths, first: int, last: int) -> None:
    """First half of a step: r and z from their pre-activations, and `reset[t]` = r h, 0 in finished rows."""
    for b in range(h.shape[1]):
        made = reset[t % len(reset), b]
        if len(lengths) and t >= lengths[b]:
            clear_row(made, first, last)
        else:
            r, z, _ = _three(gates[t, b], h.shape[2], first)
            _reset_loop(gates, last - first, (r, z, _at(h[t % len(h), b], first), _at(made, first)))


@jit()
def before_mix(
    t: int, gates: Floats, h: Floats, y: Floats, keep: Floats, lengths: Lengths, first: int, last: int
) -> None:
    """Second half: the candidate from its pre-activation, h[t + 1] and y[:, t], as in `after_forward`."""
    before, after = h[t % len(h)], h[(t + 1) % len(h)]
    for b in range(h.shape[1]):
        if len(lengths) and t >= lengths[b]:
            copy_row(before[b], after[b], first, last)
            clear_row(y[b, t], first, last)
        else:
            _, z, n = _three(gates[t, b], h.shape[2], first)
            places = *_two(keep), z, n, _at(before[b], first), _at(after[b], first), _at(y[b, t], first)
            _mix_loop(gates, last - first, places)


@jit()
def before_unmix(
    t: int, gates: Floats, h: Floats, dy: Floats, dh: Floats, dz: Floats, d_reset: Floats, d_bias: Floats, keep: Floats,
    lengths: Lengths, first: int, last: int,
) -> None:  # fmt: skip
    """Backward, first half: dz of update and candidate, and in `dh` what flows past both; `d_reset` [B, H] is 0
    afterwards. Finished rows as in `after_backward`."""
    units = h.shape[2]
    for b in range(h.shape[1]):
        if len(lengths) and t >= lengths[b]:
            clear_gates(dz[t, b], units, first, last)
        else:
            _, z, n = _three(gates[t, b], units, first)
            _, to_z, to_n = _three(dz[t, b], units, first)
            _, sum_z, sum_n = _three(d_bias, units, first)
            places = (
                *_two(keep), z, n, _at(h[t, b], first), _at(dh[b], first), _at(dy[b, t], first), to_z, to_n, sum_z,
                sum_n, _at(d_reset[b], first),
            )  # fmt: skip
            _unmix_loop(gates, last - first, places)


@jit()
def before_reset_back(
    t: int, gates: Floats, h: Floats, dh: Floats, dz: Floats, d_reset: Floats, d_bias: Floats, lengths: Lengths,
    first: int, last: int,
) -> None:  # fmt: skip
    """Second half: from `d_reset` [B, H], the gradient of r h, those of r and h."""
    for b in range(h.shape[1]):
        if not len(lengths) or t < lengths[b]:
            places = (
                _at(gates[t, b], first), _at(h[t, b], first), _at(d_reset[b], first), _at(dh[b], first),
                _at(dz[t, b], first), _at(d_bias, first),
            )  # fmt: skip
            _reset_back_loop(gates, last - first, places)


@jit()
def _at(row: Floats, first: int) -> int:
    """The address of a row's number `first`."""
    address: int = row.ctypes.data + first * row.itemsize
    return address


@jit()
def _two(keep: Floats) -> tuple[int, int]:
    """The addresses of two numbers."""
    return _at(keep, 0), _at(keep, 1)


@jit()
def _three(row: Floats, units: int, first: int) -> tuple[int, int, int]:
    """The addresses of a row's first three blocks."""
    block = units * row.itemsize
    return _at(row, first), _at(row, first) + block, _at(row, first) + 2 * block


@jit()
def _four(row: Floats, units: int, first: int) -> tuple[int, int, int, int]:
    """The addresses of a row's four blocks."""
    block = units * row.itemsize
    return _at(row, first), _at(row, first) + block, _at(row, first) + 2 * block, _at(row, first) + 3 * block


@jit()
def _share_forward(arrays: GruForward[Floats]) -> tuple[int, Matrix, Matrix]:
    return (
        arrays.gates.shape[1],
        (GATES, arrays.weight, arrays.packed, arrays.h.shape[2]),
        (COLUMNS, arrays.weight_n, arrays.packed_n, len(arrays.weight_n)),
    )


@jit()
def forward_rows(
    task: Whole, arrays: GruForward[Floats], own_rows: RowSpan, own_units: Span, others: Span, parts: Span, size: int
) -> None:
    """All gates, states h [T + 1, B, H] and outputs y [B, T, H]. h[0] is given; an h of two steps is used in a circle.

    `gates` has the input's part of the pre-activations at first; `keep` is explained above.

    reset after     gates [T, B, 4H]; `weight` [3H, H] is U in the order n, r, z; `bias_n` [H] is added to U_n h.
    reset before    gates [T, B, 3H]; `weight` [2H, H] is U of r and z, `weight_n` [H, H] that of n, transposed (it is
                    empty otherwise); `reset` [T, B, H] becomes r h, or one step of it serves all.
    """
    top, end, step = own_rows
    first, last = own_units
    gates, h, y = arrays.gates[:, top:end:step], arrays.h[:, top:end:step], arrays.y[top:end:step]
    reset, lengths = arrays.reset[:, top:end:step], arrays.lengths[top:end:step]
    units, before, spare = h.shape[2], len(arrays.weight_n) > 0, arrays.spares[member(task)]
    live, meetings = gates.shape[1], 0
    for t in range(len(gates)):
        live = live_before(lengths, live, t)
        read, made = h[t % len(h), :live], gates[t, :live, : len(arrays.weight)]
        if not before:
            for b in range(live):
                copy_row(arrays.bias_n, made[b], first, last)
        gates_product(task, t, read, units, arrays.packed, made, made, first, last, spare)
        if before:
            before_reset(t, gates, h, reset, lengths, first, last)
            again, new = reset[t % len(reset), :live], gates[t, :live, 2 * units :]
            meetings = meet_for(task, meetings, size, reset[t % len(reset), 0])
            columns_product(task, t, again, arrays.packed_n, new, first, last, spare)
            before_mix(t, gates, h, y, arrays.keep, lengths, first, last)
        else:
            after_forward(t, gates, h, y, arrays.keep, lengths, first, last)
        meetings = meet_for(task, meetings, size, h[(t + 1) % len(h), 0])


@jit()
def _share_backward(arrays: GruBackward[Floats]) -> tuple[int, Matrix, Matrix]:
    return (
        arrays.gates.shape[1],
        (COLUMNS, arrays.weight, arrays.packed, arrays.h.shape[2]),
        (COLUMNS, arrays.weight_n, arrays.packed_n, len(arrays.weight_n)),
    )


@jit()
def backward_rows(
    task: Whole, arrays: GruBackward[Floats], own_rows: RowSpan, own_units: Span, others: Span, parts: Span, size: int
) -> None:
    """The gradient dz of all pre-activations, and of u, laid out as the gates, from that of the outputs, dy [B, T, H].

    `dh` [B, H] holds the gradient of the last state, and in the end that of the first. Each part of the rows has its
    own row of `d_bias` [parts, G]. Where reset comes before the product `d_reset` [B, H] is room for the gradient of
    r h; `weight` is as in `forward_rows`, `weight_n` is not transposed.
    """
    top, end, step = own_rows
    first, last = own_units
    dh, d_reset, dz = arrays.dh[top:end:step], arrays.d_reset[top:end:step], arrays.dz[:, top:end:step]
    lengths, units = arrays.lengths[top:end:step], arrays.h.shape[2]
    rows, before, spare = len(dh), len(arrays.weight_n) > 0, arrays.spares[member(task)]
    live, meetings = 0, 0
    for t in range(len(dz) - 1, -1, -1):
        live = live_after(lengths, live, t, rows)
        for part in range(parts[0], parts[1]):
            _gates_back(t, arrays, part, first, last)
        if before:
            new = dz[t, :live, 2 * units :]
            meetings = meet_for(task, meetings, size, dz[t, 0, 2 * units :])
            columns_product(task, t, new, arrays.packed_n, d_reset[:live], first, last, spare)
            for part in range(parts[0], parts[1]):
                _reset_back(t, arrays, part, first, last)
        meetings = meet_for(task, meetings, size, dz[t, 0, : len(arrays.weight)])
        columns_product(task, t, dz[t, :live, : len(arrays.weight)], arrays.packed, dh[:live], first, last, spare)


@jit()
def _gates_back(t: int, arrays: GruBackward[Floats], part: int, first: int, last: int) -> None:
    """The rows of one part at step t, before the products."""
    top, end, step = rows_of_part(arrays.gates.shape[1], part, len(arrays.d_bias), len(arrays.lengths) > 0)
    gates, h, dz = arrays.gates[:, top:end:step], arrays.h[:, top:end:step], arrays.dz[:, top:end:step]
    dy, dh, lengths = arrays.dy[top:end:step], arrays.dh[top:end:step], arrays.lengths[top:end:step]
    if len(arrays.weight_n):
        d_reset = arrays.d_reset[top:end:step]
        before_unmix(t, gates, h, dy, dh, dz, d_reset, arrays.d_bias[part], arrays.keep, lengths, first, last)
    else:
        after_backward(t, gates, h, dy, dh, dz, arrays.d_bias[part], arrays.keep, lengths, first, last)


@jit()
def _reset_back(t: int, arrays: GruBackward[Floats], part: int, first: int, last: int) -> None:
    """The same between the two products, where there are two."""
    top, end, step = rows_of_part(arrays.gates.shape[1], part, len(arrays.d_bias), len(arrays.lengths) > 0)
    gates, h, dz = arrays.gates[:, top:end:step], arrays.h[:, top:end:step], arrays.dz[:, top:end:step]
    dh, d_reset, lengths = arrays.dh[top:end:step], arrays.d_reset[top:end:step], arrays.lengths[top:end:step]
    before_reset_back(t, gates, h, dh, dz, d_reset, arrays.d_bias[part], lengths, first, last)


forward_task = team_task("gru_forward", TeamLoop(GruForward, forward_rows, _share_forward, one_by_one=True))
backward_task = team_task("gru_backward", TeamLoop(GruBackward, backward_rows, _share_backward, one_by_one=True))
