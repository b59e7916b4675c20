"""A cell of four blocks over a whole sequence: blocks of a launch own some units each, and meet once a step.

At each step a block waits until all blocks of its group have stored their units' h, multiplies (`wide` or `narrow`:
CHUNK is 0), computes its own units and stores their h. What the backward pass needs is stored after that, when nobody
waits any more.

Shapes: T steps, P rows, K units (both filled up), S slices of OWN units. `projected`, later the kept gates: [T, P, S,
4, OWN]. `states`: [T + 1, P, K], what step t begins with; `outputs`: [T, P, K]; `cells`: [T + 1, P, K] in float32.
`d_gates`: [T + 1, P, 4, K], whose last step is 0. The arrays of a step are [OWN, ROWS], narrow ones [ROWS, OWN].
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from thereafter.kernels.gpu.code import narrow
from thereafter.kernels.gpu.code.formulas import advance, retreat
from thereafter.kernels.gpu.code.meeting import APART, arrive, each_waits_for, wait_for
from thereafter.kernels.gpu.code.situations import (
    add_four,
    add_shown,
    in_float32,
    load_four,
    load_mark,
    load_peepholes,
    restart,
    settle,
    share_kept,
    store_four,
    store_shown,
    unsettle,
)
from thereafter.kernels.gpu.code.wide import (
    four_blocks,
    gather,
    keep_weights,
    make_buffers,
    multiply,
    product_layout,
    unit_layout,
)


@gluon.constexpr_function
def layout_of(rows, own, warps, wide):
    """That of the arrays of a step."""
    return unit_layout(rows, own, warps) if wide else narrow.unit_layout(own, warps)


@gluon.constexpr_function
def product_of(rows, own, warps, wide):
    """That of a product."""
    return product_layout(rows, own, warps) if wide else narrow.product_layout(warps)


@gluon.jit
def across_rows(units, WIDE: gl.constexpr):
    """Of units, as far as they go along an array of a step."""
    if WIDE:
        return units[:, None]
    else:
        return units[None, :]


@gluon.jit
def across_units(rows, WIDE: gl.constexpr):
    """The same of rows."""
    if WIDE:
        return rows[None, :]
    else:
        return rows[:, None]


@gluon.jit
def forward(
    projected,
    weights,
    states,
    outputs,
    cells,
    last_c,
    peepholes,
    marks,
    hold_h,
    hold_c,
    counters,
    steps,
    none,
    share_h,
    share_c,
    P: gl.constexpr,
    K: gl.constexpr,
    ROWS: gl.constexpr,
    OWN: gl.constexpr,
    CHUNK: gl.constexpr,
    BUFFERS: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
    FORM: gl.constexpr,
    PEEPHOLE: gl.constexpr,
    MARKED: gl.constexpr,
    HOLD_H: gl.constexpr,
    HOLD_C: gl.constexpr,
    SAVE: gl.constexpr,
    WARPS: gl.constexpr,
):
    low: gl.constexpr = states.dtype.element_ty
    WIDE: gl.constexpr = CHUNK > 0
    SLICES: gl.constexpr = K // OWN
    M: gl.constexpr = 4 * OWN
    UNIT: gl.constexpr = layout_of(ROWS, OWN, WARPS, WIDE)
    MMA: gl.constexpr = product_of(ROWS, OWN, WARPS, WIDE)
    UNITS_AXIS: gl.constexpr = 1 if WIDE else 0
    MEMORY: gl.constexpr = FORM == "lstm" or FORM == "coupled"

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    if WIDE:
        own_weights = keep_weights(weights + slice * (K * M), K, slice, M, CHUNK, K // CHUNK, IN_REGISTERS, MMA, WARPS)
        buffers = make_buffers(states, ROWS, CHUNK, BUFFERS)
        gathered = gather(states, K, group, 0, ROWS, CHUNK, WARPS)
    else:
        own_weights = narrow.keep_fragments(weights + slice * (K * M), K, K // WARPS, M, MMA, WARPS)
        gathered = narrow.gather_offsets(group, K, K // WARPS, MMA, WARPS)
        room = narrow.make_room(M, 4, WARPS)

    unit = across_rows(gl.arange(0, OWN, gl.SliceLayout(UNITS_AXIS, UNIT)), WIDE)
    row = across_units(group * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1 - UNITS_AXIS, UNIT)), WIDE)
    here = row * K + slice * OWN + unit
    blocks = row * (4 * K) + slice * M + unit
    whole = 0 * row + 0 * unit
    marked = row + whole
    counter = counters + group * steps * APART

    c = gl.load(cells + here)
    h = c
    if MEMORY:
        if MARKED or HOLD_H:
            h = gl.load(states + here).to(gl.float32)
    p = (0.0, 0.0, 0.0)
    if PEEPHOLE:
        p = load_peepholes(peepholes, slice * OWN + unit + whole, K)
    x = load_four(projected, blocks, OWN)
    mark = load_mark(marks, marked, whole, MARKED)
    for t in range(steps):
        later = gl.minimum(t + 1, steps - 1).to(gl.int64)
        next_x = load_four(projected + later * (P * 4 * K), blocks, OWN)
        next_mark = load_mark(marks + (t + 1) * P, marked, mark, MARKED)
        now = t.to(gl.int64) * (P * K)
        kept_h = share_kept(hold_h + now, here, share_h, c, HOLD_H)
        kept_c = share_kept(hold_c + now, here, share_c, c, HOLD_C)
        if WIDE:
            if t > 0:
                wait_for(counter + (t - 1) * APART, SLICES)
            sums = multiply(own_weights, buffers, gathered + now, slice + none * t, none * t, M, IN_REGISTERS, MMA)
            a = add_four(four_blocks(sums, UNIT, OWN, ROWS), in_float32(x))
        else:
            if t > 0:
                each_waits_for(counter + (t - 1) * APART, SLICES)
            narrow.multiply_shares(states + now, gathered, own_weights, room, M, MMA, WARPS)
            a = narrow.add_shares(in_float32(x), room, OWN, UNIT, WARPS)
        kept, new_c, new_h = advance(a, c, p, FORM, PEEPHOLE)
        c = settle(c, new_c, kept_c, mark, MARKED, HOLD_C)
        if MEMORY:
            h = settle(h, new_h, kept_h, mark, MARKED, HOLD_H)
        else:
            h = c
        y = h
        c = restart(c, next_mark, MARKED)
        h = restart(h, next_mark, MARKED)
        gl.store(states + now + P * K + here, h.to(low))
        arrive(counter + t * APART)
        store_shown(outputs + now, here, y, mark, MARKED)
        if SAVE:
            store_four(projected + t.to(gl.int64) * (P * 4 * K), blocks, OWN, kept)
            gl.store(cells + now + P * K + here, c)
        x = next_x
        mark = next_mark
    gl.store(last_c + here, c)


@gluon.jit
def backward(
    kept,
    turned,
    d_outputs,
    d_gates,
    cells,
    d_last_h,
    d_last_c,
    d_first_h,
    d_first_c,
    peepholes,
    d_peepholes,
    d_biases,
    marks,
    hold_h,
    hold_c,
    partial,
    counters,
    steps,
    none,
    share_h,
    share_c,
    P: gl.constexpr,
    K: gl.constexpr,
    ROWS: gl.constexpr,
    OWN: gl.constexpr,
    FORWARD_OWN: gl.constexpr,
    CHUNK: gl.constexpr,
    BUFFERS: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
    FORM: gl.constexpr,
    PEEPHOLE: gl.constexpr,
    MARKED: gl.constexpr,
    HOLD_H: gl.constexpr,
    HOLD_C: gl.constexpr,
    CHARGED: gl.constexpr,
    WARPS: gl.constexpr,
):
    WIDE: gl.constexpr = CHUNK > 0
    SLICES: gl.constexpr = K // OWN
    M: gl.constexpr = 4 * OWN
    TEAMS: gl.constexpr = K // M
    UNIT: gl.constexpr = layout_of(ROWS, OWN, WARPS, WIDE)
    MMA: gl.constexpr = product_of(ROWS, OWN, WARPS, WIDE)
    UNITS_AXIS: gl.constexpr = 1 if WIDE else 0
    MEMORY: gl.constexpr = FORM == "lstm" or FORM == "coupled"

    group = gl.program_id(0) // SLICES
    of_own = gl.arange(0, OWN, gl.SliceLayout(UNITS_AXIS, UNIT))
    of_rows = gl.arange(0, ROWS, gl.SliceLayout(1 - UNITS_AXIS, UNIT))
    if WIDE:
        team = gl.program_id(0) % SLICES // 4
        quarter = gl.program_id(0) % 4
        own_weights = keep_weights(
            turned + team * (M * 4 * K) + quarter * K, 4 * K, team, M, CHUNK, K // CHUNK, IN_REGISTERS, MMA, WARPS
        )
        buffers = make_buffers(d_gates, ROWS, CHUNK, BUFFERS)
        gathered = gather(d_gates, 4 * K, group, quarter * K, ROWS, CHUNK, WARPS)
        units = team * M + quarter * OWN + of_own
        of_m = gl.arange(0, M, gl.SliceLayout(1, MMA))
        of_n = gl.arange(0, ROWS, gl.SliceLayout(0, MMA))
        shared_sums = partial + (group * TEAMS + team) * (4 * M * ROWS)
        part_stored = quarter * (M * ROWS) + of_n[None, :] * M + of_m[:, None]
        part_loaded = of_rows[None, :] * M + (quarter * OWN + of_own)[:, None]
        team_counter = counters + ((gl.num_programs(0) // SLICES) + group * TEAMS + team) * steps * APART
    else:
        slice = gl.program_id(0) % SLICES
        own_weights = narrow.keep_fragments(turned + slice * (OWN * 4 * K), 4 * K, 4 * K // WARPS, OWN, MMA, WARPS)
        gathered = narrow.gather_offsets(group, 4 * K, 4 * K // WARPS, MMA, WARPS)
        room = narrow.make_room(OWN, 2, WARPS)
        units = slice * OWN + of_own
    unit = across_rows(units, WIDE)
    row = across_units(group * ROWS + of_rows, WIDE)
    here = row * K + unit
    blocks = row * (4 * K) + across_rows((units // FORWARD_OWN) * (4 * FORWARD_OWN) + units % FORWARD_OWN, WIDE)
    d_blocks = row * (4 * K) + unit
    whole = 0 * row + 0 * unit
    marked = row + whole
    own = unit + whole
    counter = counters + group * steps * APART

    zeros = whole.to(gl.float32)
    dc = zeros
    direct = zeros
    if CHARGED:
        dc = gl.load(d_last_c + here)
        if MEMORY:
            direct = gl.load(d_last_h + here)
    sums_of_d = (zeros, zeros, zeros, zeros)
    p = (0.0, 0.0, 0.0)
    q = (zeros, zeros, zeros)
    if PEEPHOLE:
        if not WIDE:
            p = load_peepholes(peepholes, own, K)
    last = (steps - 1).to(gl.int64)
    k = load_four(kept + last * (P * 4 * K), blocks, FORWARD_OWN)
    before = gl.load(cells + last * (P * K) + here)
    new_c = gl.load(cells + (last + 1) * (P * K) + here)
    dy = gl.load(d_outputs + last * (P * K) + here)
    mark = load_mark(marks + (steps - 1) * P, marked, whole, MARKED)
    for back in range(steps):
        t = steps - 1 - back
        earlier = gl.maximum(t - 1, 0)
        fresh = 0
        if WIDE:
            # a 0 that the compiler does not know: addresses are computed at every step and take no registers between
            fresh = none * t * 64
        earlier_k = load_four(kept + earlier.to(gl.int64) * (P * 4 * K), blocks + fresh, FORWARD_OWN)
        earlier_c = gl.load(cells + earlier.to(gl.int64) * (P * K) + (here + fresh))
        earlier_dy = gl.load(d_outputs + earlier.to(gl.int64) * (P * K) + (here + fresh))
        earlier_mark = load_mark(marks + earlier * P, marked, mark, MARKED)
        now = t.to(gl.int64) * (P * K)
        kept_h = share_kept(hold_h + now, here, share_h, dc, HOLD_H)
        kept_c = share_kept(hold_c + now, here, share_c, dc, HOLD_C)
        dh = direct
        p_t = p
        if WIDE:
            if back > 0:
                wait_for(counter + (t + 1) * APART, SLICES)
            source = gathered + (now + P * K) * 4
            sums = multiply(own_weights, buffers, source, team + none * t, none * t, M, IN_REGISTERS, MMA)
            gl.store(shared_sums + (part_stored + fresh), sums)
            arrive(team_counter + t * APART)
            if PEEPHOLE:
                # read again at every step, while the others arrive: there are no registers for them between
                p_t = load_peepholes(peepholes, own + fresh, K)
            wait_for(team_counter + t * APART, 4)
            for block in gl.static_range(4):
                dh += gl.load(shared_sums + block * (M * ROWS) + (part_loaded + fresh))
        else:
            if back > 0:
                each_waits_for(counter + (t + 1) * APART, SLICES)
            narrow.multiply_shares(d_gates + (now + P * K) * 4, gathered, own_weights, room, OWN, MMA, WARPS)
            for warp in gl.static_range(WARPS):
                dh += room.slice(warp * ROWS, ROWS, 0).load(UNIT)
        # what came from the step after this one ends where that began anew
        begins = load_mark(marks + (t + 1) * P, marked, mark, MARKED)
        dh = add_shown(restart(dh, begins, MARKED), dy, mark, MARKED)
        dc = restart(dc, begins, MARKED)
        if not MEMORY:
            dc += dh
            dh = zeros
        if MARKED or HOLD_C:
            if MEMORY:
                new_c = k[1].to(gl.float32) * before + k[0].to(gl.float32) * k[2].to(gl.float32)
        dc, dc_old = unsettle(dc, kept_c, mark, MARKED, HOLD_C)
        dh, direct = unsettle(dh, kept_h, mark, MARKED, HOLD_H)
        d, dc = retreat(dh, dc, in_float32(k), before, new_c, p_t, FORM, PEEPHOLE)
        dc += dc_old
        store_four(d_gates + now * 4, d_blocks + fresh, K, d)
        arrive(counter + t * APART)
        sums_of_d = add_four(sums_of_d, d)
        if PEEPHOLE:
            q = (q[0] + d[0] * before, q[1] + d[1] * before, q[2] + d[3] * new_c)
        new_c = before
        before = earlier_c
        k = earlier_k
        dy = earlier_dy
        mark = earlier_mark
    begins = load_mark(marks, marked, mark, MARKED)
    gl.store(d_first_c + here, restart(dc, begins, MARKED))
    gl.store(d_first_h + here, restart(direct, begins, MARKED))
    store_four(d_biases, here, P * K, sums_of_d)
    if PEEPHOLE:
        for number in gl.static_range(3):
            gl.store(d_peepholes + number * P * K + here, q[number])
