"""All steps of the layer-norm LSTM by a team of threads: `loops.lstm` with W x, U h and c normalised row by row.

A whole row is normalised at once, so threads claim parts of the rows, and once the matrix is packed no thread waits for
another. Only where the matrix does not fit into the cache of each core is the product shared by units, and the threads
meet before and after it; between they claim the rows of each step.

Arrays: `hat_x`, `hat` [T, B, G] and `hat_c` [T, B, H] are W x, U h and c after the norm, before gain and shift;
`scales` [3, T, B] is one over the standard deviations they were divided by. `norms` [3, G] are the gains of W x and of
U h, and the bias; `norm_c` [2, H] are gain and shift of c. In a backward pass each thread has a row of `dz` [M, G], of
`d` and `shown` [M, H], and of `means` [M, ...], six numbers on a line of their own.
"""

from __future__ import annotations

import math

from thereafter.base.compiled import jit
from thereafter.cells.base import EPSILON
from thereafter.kernels.arrays import Float, Floats, LstmNormBackward, LstmNormForward, TeamArrays, Whole
from thereafter.kernels.loops.formulas import FAST
from thereafter.kernels.loops.lstm import STEP, back, cell_formula, gates_at, peepholes_at, variant, variants
from thereafter.kernels.loops.recurrence import COLUMNS, GATES, TeamLoop, columns_product, gates_product, team_task
from thereafter.kernels.loops.team import (
    PARTS,
    ROWS,
    UNITS,
    RowSpan,
    Span,
    claim_below,
    meet,
    member,
    rows_of_parts,
)
from thereafter.kernels.loops.vectors import At, Lanes, Number, step_loop, tanh


def _shown(v: Lanes) -> Number:
    """c after the norm, as tanh sees it."""
    return v["gain"] * v["hat"] + v["shift"]


def _preactivation(v: Lanes) -> None:
    v["z"] = v["gain_x"] * v["hat_x"] + v["gain"] * v["hat"] + v["bias"]


def _output(v: Lanes) -> None:
    m = v["o"] * tanh(_shown(v))
    v["m"], v["y"] = m, m


def _cell(v: Lanes, peephole: bool, coupled: bool) -> None:
    _, v["hat"] = cell_formula(v, peephole, coupled)


def _cell_back(v: Lanes, peephole: bool, coupled: bool) -> None:
    """The backward pass of the gates where dc is already whole; `shown` is what the output gate multiplies, before
    tanh."""
    back(v, v["dm"], v["dc"], tanh(v["shown"]), peephole, coupled)
    v["dm"] = v.constant(0.0)  # the product of the step before is added to it


def _cell_gradient(v: Lanes) -> None:
    """Through m = o tanh(gain hat + shift): the gradient of hat, and those of gain and shift added up."""
    v["dm"] = v["dm"] + v["dy"]
    shown = _shown(v)
    bent = tanh(shown)
    d = v["dm"] * v["o"] * (1.0 - bent * bent)
    v["to_gain"] = v["to_gain"] + d * v["hat"]
    v["to_shift"] = v["to_shift"] + d
    v["d"], v["shown"] = d, shown


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


_NORMED = {"hat": At("hat_c"), "gain": At("norm_c", 0), "shift": At("norm_c", 1), "o": At("gates", -1)}
_GATES_NORMED = {
    "hat_x": At("hat_x"), "hat": At("hat"), "gain_x": At("norms", 0), "gain": At("norms", 1), "bias": At("norms", 2),
}  # fmt: skip
_MEAN_NAMES = ("mean", "slope", "scale", "mean_x", "slope_x", "scale_x")
_MEANS = {name: At("means", place) for place, name in enumerate(_MEAN_NAMES)}
_preactivation_step = step_loop(LstmNormForward, [_preactivation], _GATES_NORMED | {"z": At("gates")})
_cell_step = step_loop(
    LstmNormForward, variants(_cell), cleared=["y"], copied={"old": "new", "before": "m"},
    operands=STEP | {"hat": At("hat_c"), "before": At("m"), "m": At("m", later=1), "y": At("y")},
)  # fmt: skip
_output_step = step_loop(LstmNormForward, [_output], _NORMED | {"m": At("m", later=1), "y": At("y")})
_STATES = {"dm": At("dh"), "dc": At("dc"), "d": At("d"), "shown": At("shown")}
_cell_gradient_step = step_loop(
    LstmNormBackward, [_cell_gradient],
    {**_STATES, **_NORMED, "dy": At("dy"), "to_gain": At("d_norm_c", 0), "to_shift": At("d_norm_c", 1)},
)  # fmt: skip
_norm_gradient_cell_step = step_loop(
    LstmNormBackward, [_norm_gradient_cell], _STATES | _NORMED | _MEANS | {"dx": At("dc")}
)
_cell_back_step = step_loop(
    LstmNormBackward, variants(_cell_back),
    {**_STATES, **STEP, **gates_at("dz", "d"), **peepholes_at("d_peephole", "to_")},
)  # fmt: skip
_norm_gradient_gates_step = step_loop(
    LstmNormBackward, [_norm_gradient_gates], cleared=["dx", "dx_x"],
    operands={
        **_GATES_NORMED, **_MEANS, "d": At("dz"), "dx": At("du"), "dx_x": At("dx"), "to_gain_x": At("d_norms", 0),
        "to_gain": At("d_norms", 1), "to_bias": At("d_norms", 2),
    },
)  # fmt: skip


@jit(**FAST)
def forward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: LstmNormForward[Floats], rows: RowSpan, units: Span, others: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """All gates, cells c, outputs m [T + 1, B, H] and y [B, T, H]. At first `hat_x` holds W x; c[0], m[0] are given."""
    top, end, _ = rows
    spare, meetings = team.spares[member(task)], 0
    for t in range(len(arrays.gates)):
        read, products = arrays.m[t, top:end], arrays.hat[t, top:end]
        gates_product(task, t, read, task[UNITS], team.packed, arrays.no_bias, products, units[0], units[1], spare)
        if size == 1:
            _forward_step(t, task, team, arrays, top, end)
            continue
        meetings = meet(task, meetings, size)
        row = claim_below(task, PARTS, (t + 1) * end)
        while row < (t + 1) * end:
            _forward_step(t, task, team, arrays, row - t * end, row - t * end + 1)
            row = claim_below(task, PARTS, (t + 1) * end)
        meetings = meet(task, meetings, size)


@jit(**FAST)
def _forward_step(
    t: int, task: Whole, team: TeamArrays[Floats], arrays: LstmNormForward[Floats], top: int, end: int
) -> None:
    """Some rows of step t, after the product."""
    units, width, lengths, where = (0, task[UNITS]), (0, arrays.gates.shape[2]), team.lengths, (t, 0, 0)
    kind = variant(task, arrays.peephole)
    for b in range(top, end):
        row, live = (b, b + 1, 1), not len(lengths) or t < lengths[b]
        if live:
            arrays.scales[0, t, b] = _normalise(arrays.hat_x[t, b])
            arrays.scales[1, t, b] = _normalise(arrays.hat[t, b])
            _preactivation_step(arrays, lengths, where, row, width, 0)
        _cell_step(arrays, lengths, where, row, units, kind)
        if live:
            arrays.scales[2, t, b] = _normalise(arrays.hat_c[t, b])
            _output_step(arrays, lengths, where, row, units, 0)


@jit(**FAST)
def backward_rows(
    task: Whole, team: TeamArrays[Floats], arrays: LstmNormBackward[Floats], rows: RowSpan, units: Span, others: Span,
    parts: Span, size: int,
) -> None:  # fmt: skip
    """The gradients dx and du [T, B, G] of W x and U h at all steps, from that of the outputs, dy [B, T, H].

    `dh` and `dc` [B, H] hold the gradients of the last state, and in the end those of the first. Each part of the rows
    adds its share of the gradients of `norms`, `norm_c` and the peepholes to its own row of `d_norms` [parts, 3, G],
    `d_norm_c` [parts, 2, H] and `d_peephole`. `dx` may be `hat_x` itself, and `du` may be `hat`.
    """
    top, end, _ = rows
    spare, meetings, all_parts = team.spares[member(task)], 0, len(arrays.d_norms)
    for step, t in enumerate(range(len(arrays.gates) - 1, -1, -1)):
        if size == 1:
            for part in range(parts[0], parts[1]):
                _backward_part(t, task, team, arrays, part)
        else:
            limit = (step + 1) * all_parts
            part = claim_below(task, PARTS, limit)
            while part < limit:
                _backward_part(t, task, team, arrays, part - limit + all_parts)
                part = claim_below(task, PARTS, limit)
            meetings = meet(task, meetings, size)
        columns_product(task, t, arrays.du[t, top:end], team.packed, arrays.dh[top:end], units[0], units[1], spare)
        meetings = meet(task, meetings, size)


@jit(**FAST)
def _backward_part(t: int, task: Whole, team: TeamArrays[Floats], arrays: LstmNormBackward[Floats], part: int) -> None:
    """The rows of a part at step t, before the product."""
    own, lengths, peephole = member(task), team.lengths, arrays.peephole
    units, width, where = (0, task[UNITS]), (0, arrays.gates.shape[2]), (t, part, own)
    dz, means = arrays.dz[own], arrays.means[own]
    top, end, _ = rows_of_parts(task[ROWS], part, part + 1, len(arrays.d_norms), False)
    for b in range(top, end):
        row, scales = (b, b + 1, 1), arrays.scales[:, t, b]
        if not len(lengths) or t < lengths[b]:
            _cell_gradient_step(arrays, lengths, where, row, units, 0)
            _row_means(arrays.d[own], arrays.norm_c[0], arrays.hat_c[t, b], scales[2], means)
            _norm_gradient_cell_step(arrays, lengths, where, row, units, 0)
            _cell_back_step(arrays, lengths, where, row, units, variant(task, peephole))
            _row_means(dz, arrays.norms[0], arrays.hat_x[t, b], scales[0], means[3:])
            _row_means(dz, arrays.norms[1], arrays.hat[t, b], scales[1], means)
        _norm_gradient_gates_step(arrays, lengths, where, row, width, 0)


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
def _row_means(d: Floats, gain: Floats, hat: Floats, scale: Float, means: Floats) -> None:
    """The three numbers of a row that `_norm_gradient` needs: means of gain d and of gain d hat, and the scale."""
    total = d[0] - d[0]
    along = d[0] - d[0]
    for j in range(len(d)):
        total += d[j] * gain[j]
        along += d[j] * gain[j] * hat[j]
    means[0], means[1] = total / d.dtype.type(len(d)), along / d.dtype.type(len(d))
    means[2] = scale


forward_task = team_task(
    "lstm_norm_forward", TeamLoop(LstmNormForward, (GATES, COLUMNS), forward_rows, side_by_side=True)
)
backward_task = team_task(
    "lstm_norm_backward", TeamLoop(LstmNormBackward, (COLUMNS, COLUMNS), backward_rows, side_by_side=True)
)
