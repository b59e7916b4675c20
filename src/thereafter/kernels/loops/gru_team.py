"""All steps of the GRU, forward and backward, by a team of threads: one call a sequence, shared as in `lstm_team`.

Reset after the product needs one product a step. Reset before it needs two, the second from what all units have made of
the first: where threads claim rows that costs nothing, where they own units they meet twice a step.
"""

from __future__ import annotations

from thereafter.base.compiled import CFunction, c_function, compiled_once, jit
from thereafter.kernels.arrays import Floats, FloatType, GruBackward, GruForward, Whole
from thereafter.kernels.loops.gru import (
    after_backward,
    after_forward,
    before_mix,
    before_reset,
    before_reset_back,
    before_unmix,
)
from thereafter.kernels.loops.lstm import copy_row
from thereafter.kernels.loops.parts import parts_in, rows_of_part
from thereafter.kernels.loops.recurrence import (
    columns_product,
    fetch_row,
    gates_product,
    lanes_of,
    own_units,
    pack_all_columns,
    pack_columns,
    pack_gates,
)
from thereafter.kernels.loops.team import (
    BY_ROWS,
    PACKED,
    PANELS,
    PARTS,
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

_forward_arrays, _backward_arrays = arrays_of(GruForward), arrays_of(GruBackward)


@jit()
def forward(task: Whole, arrays: GruForward[Floats], lengths: Whole, by_rows: bool) -> None:
    """All gates, states h [T + 1, B, H] and outputs y [B, T, H]. h[0] is given; an h of two steps is used in a circle.

    `gates` has the input's part of the pre-activations at first; `loops.gru` explains `keep`.

    reset after     gates [T, B, 4H]; `weight` [3H, H] is U in the order n, r, z; `bias_n` [H] is added to U_n h.
    reset before    gates [T, B, 3H]; `weight` [2H, H] is U of r and z, `weight_n` [H, H] that of n, transposed (it is
                    empty otherwise); `reset` [T, B, H] becomes r h, or one step of it serves all.
    """
    weight, weight_n, packed, packed_n = arrays.weight, arrays.weight_n, arrays.packed, arrays.packed_n
    rows, units, lanes = arrays.gates.shape[1], arrays.h.shape[2], lanes_of(weight)
    if not by_rows:
        first, last = own_units(units, lanes, member(task), members(task))
        pack_gates(weight, units, packed, first, last)
        if len(weight_n):
            pack_columns(weight_n, packed_n, first, last, 0, 1)
        _forward_rows(task, arrays, lengths, (0, rows, 1), first, last, members(task))
        return
    panels = (units + lanes - 1) // lanes
    both = 2 * panels if len(weight_n) else panels
    panel = claim(task, PANELS)
    while panel < both:
        if panel < panels:
            pack_gates(weight, units, packed, panel * lanes, min(units, (panel + 1) * lanes))
        else:
            pack_columns(weight_n, packed_n, 0, units, panel - panels, panels)
        claim(task, PACKED)
        panel = claim(task, PANELS)
    wait_for(task, PACKED, both)
    parts = parts_in(rows)
    part = claim(task, PARTS)
    while part < parts:
        _forward_rows(task, arrays, lengths, rows_of_part(rows, part, parts, len(lengths) > 0), 0, units, 1)
        part = claim(task, PARTS)


@jit()
def _forward_rows(
    task: Whole, arrays: GruForward[Floats], lengths: Whole, own: tuple[int, int, int], first: int,
    last: int, size: int,
) -> None:  # fmt: skip
    """The units `first` to `last` of some rows (from, to, step), by `size` threads that meet."""
    top, end, step = own
    gates, h, y = arrays.gates[:, top:end:step], arrays.h[:, top:end:step], arrays.y[top:end:step]
    reset, lengths = arrays.reset[:, top:end:step], lengths[top:end:step]
    units, before, spare = h.shape[2], len(arrays.weight_n) > 0, arrays.spares[member(task)]
    live, meetings = gates.shape[1], 0
    for t in range(len(gates)):
        while len(lengths) and live and lengths[live - 1] <= t:
            live -= 1
        read, made = h[t % len(h), :live], gates[t, :live, : len(arrays.weight)]
        if not before:
            for b in range(live):
                copy_row(arrays.bias_n, made[b], first, last)
        gates_product(task, t, read, units, arrays.packed, made, made, first, last, spare)
        if before:
            before_reset(t, gates, h, reset, lengths, first, last)
            again, new = reset[t % len(reset), :live], gates[t, :live, 2 * units :]
            if size > 1:
                meetings = meet(task, meetings, size)
                fetch_row(reset[t % len(reset), 0])
            columns_product(task, t, again, arrays.packed_n, new, first, last, spare)
            before_mix(t, gates, h, y, arrays.keep, lengths, first, last)
        else:
            after_forward(t, gates, h, y, arrays.keep, lengths, first, last)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(h[(t + 1) % len(h), 0])


@jit()
def backward(task: Whole, arrays: GruBackward[Floats], lengths: Whole, by_rows: bool) -> None:
    """The gradient dz of all pre-activations, and of u, laid out as the gates, from that of the outputs, dy [B, T, H].

    `dh` [B, H] holds the gradient of the last state, and in the end that of the first. Each part of the rows has its
    own row of `d_bias` [parts, G]. Where reset comes before the product `d_reset` [B, H] is room for the gradient of
    r h; `weight` is as in `forward`, `weight_n` is not transposed.
    """
    weight, weight_n, packed, packed_n = arrays.weight, arrays.weight_n, arrays.packed, arrays.packed_n
    rows, units, parts = arrays.gates.shape[1], arrays.h.shape[2], len(arrays.d_bias)
    if not by_rows:
        first, last = own_units(units, lanes_of(weight), member(task), members(task))
        pack_columns(weight, packed, first, last, 0, 1)
        if len(weight_n):
            pack_columns(weight_n, packed_n, first, last, 0, 1)
        _backward_rows(task, arrays, lengths, (0, rows, 1), first, last, 0, parts, members(task))
        return
    pack_all_columns(task, weight, packed, units, weight_n, packed_n, len(weight_n))
    part = claim(task, PARTS)
    while part < parts:
        own = rows_of_part(rows, part, parts, len(lengths) > 0)
        _backward_rows(task, arrays, lengths, own, 0, units, part, 1, 1)
        part = claim(task, PARTS)


@jit()
def _backward_rows(
    task: Whole, arrays: GruBackward[Floats], lengths: Whole, own: tuple[int, int, int], first: int,
    last: int, part: int, parts: int, size: int,
) -> None:  # fmt: skip
    """The units `first` to `last` of the rows of so many parts from `part` on, by `size` threads that meet."""
    top, end, step = own
    dh, d_reset, dz = arrays.dh[top:end:step], arrays.d_reset[top:end:step], arrays.dz[:, top:end:step]
    lengths_own, units = lengths[top:end:step], arrays.h.shape[2]
    rows, before, spare = len(dh), len(arrays.weight_n) > 0, arrays.spares[member(task)]
    live, meetings = 0 if len(lengths) else rows, 0
    for t in range(len(dz) - 1, -1, -1):
        for b in range(live, rows):
            if lengths_own[b] > t:
                live = b + 1
        for index in range(part, part + parts):
            _gates_back(t, arrays, lengths, index, first, last)
        if before:
            new = dz[t, :live, 2 * units :]
            if size > 1:
                meetings = meet(task, meetings, size)
                fetch_row(dz[t, 0, 2 * units :])
            columns_product(task, t, new, arrays.packed_n, d_reset[:live], first, last, spare)
            for index in range(part, part + parts):
                _reset_back(t, arrays, lengths, index, first, last)
        if size > 1:
            meetings = meet(task, meetings, size)
            fetch_row(dz[t, 0, : len(arrays.weight)])
        columns_product(task, t, dz[t, :live, : len(arrays.weight)], arrays.packed, dh[:live], first, last, spare)


@jit()
def _gates_back(t: int, arrays: GruBackward[Floats], lengths: Whole, part: int, first: int, last: int) -> None:
    """The rows of one part at step t, before the products."""
    top, end, step = rows_of_part(arrays.gates.shape[1], part, len(arrays.d_bias), len(lengths) > 0)
    gates, h, dz = arrays.gates[:, top:end:step], arrays.h[:, top:end:step], arrays.dz[:, top:end:step]
    dy, dh, own, d_bias = arrays.dy[top:end:step], arrays.dh[top:end:step], lengths[top:end:step], arrays.d_bias[part]
    if len(arrays.weight_n):
        d_reset = arrays.d_reset[top:end:step]
        before_unmix(t, gates, h, dy, dh, dz, d_reset, d_bias, arrays.keep, own, first, last)
    else:
        after_backward(t, gates, h, dy, dh, dz, d_bias, arrays.keep, own, first, last)


@jit()
def _reset_back(t: int, arrays: GruBackward[Floats], lengths: Whole, part: int, first: int, last: int) -> None:
    """The same between the two products, where there are two."""
    top, end, step = rows_of_part(arrays.gates.shape[1], part, len(arrays.d_bias), len(lengths) > 0)
    gates, h, dz = arrays.gates[:, top:end:step], arrays.h[:, top:end:step], arrays.dz[:, top:end:step]
    dh, d_reset, own = arrays.dh[top:end:step], arrays.d_reset[top:end:step], lengths[top:end:step]
    before_reset_back(t, gates, h, dh, dz, d_reset, arrays.d_bias[part], own, first, last)


@compiled_once
def forward_task(dtype: FloatType) -> CFunction:
    """`forward` as a function of a task, whose arrays are those of `GruForward`."""

    def gru_forward_task(address: int) -> None:
        task = task_at(address)
        arrays = _forward_arrays(task, dtype)
        forward(task, arrays, arrays.lengths, switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), gru_forward_task)


@compiled_once
def backward_task(dtype: FloatType) -> CFunction:
    """`backward` as a function of a task, whose arrays are those of `GruBackward`."""

    def gru_backward_task(address: int) -> None:
        task = task_at(address)
        arrays = _backward_arrays(task, dtype)
        backward(task, arrays, arrays.lengths, switch(task, BY_ROWS))

    return c_function(types.void(types.voidptr), gru_backward_task)
