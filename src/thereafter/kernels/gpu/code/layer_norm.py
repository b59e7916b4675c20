"""A layer-norm LSTM: the programs of `wide`, with sums over all units of a row twice a step in each direction.

    forward     n = (U h - mean) / sd over all gates;    a = z + gain n;   i, f, g, o, c' of a
                m = (c' - mean) / sd over all units;     h' = o tanh(gain_c m + shift_c)
    backward    e = gain_c dm;    dc' = (e - mean(e) - m mean(e m)) / sd;   da of the gates, which is dz
                e = gain da;      d(U h) = (e - mean(e) - n mean(e n)) / sd

z = W x, normalised, with both biases, comes from outside. A block has the sums of its own units alone. It stores two
numbers for each of its rows and reads those of all blocks of its group. Nobody counts arrivals for that: a place that
has not been written holds EMPTY, bits that no sum has, and readers look again until none is left. So it takes one way
through the second cache where a counter and a load take two. Sums are added in one order. A warp has some rows and all
its lanes share the slices, so a block's warps do not wait for one another either.

Shapes: as in `wide`. `hats`: n, as `projected`. `statistics`: [T, 3, P], mean of c', 1 / sd of c', 1 / sd of U h.
`norms`: [6, K], the gains of the four gates, then gain and shift of c'. `exchange`: for every step, group and the two
sums of a step [rows / rows of a warp, 2, slices, rows of a warp]. `d_raw`: [T + 1, P, 4, K], d(U h), whose last step is
0. `d_gates`: [T, P, 4, K], dz. Units and gates that were filled up have gains of 0: they add nothing to any sum.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from thereafter.kernels.gpu.code.formulas import advance, retreat_memory, tanh
from thereafter.kernels.gpu.code.meeting import APART, arrive, wait_for
from thereafter.kernels.gpu.code.situations import (
    add_four,
    add_shown,
    in_float32,
    load_four,
    load_mark,
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

EMPTY = "0xffffffff"
"""What `exchange` is filled with. A sum that is not a number is stored with other bits."""


@gluon.constexpr_function
def storing(apart):
    """Two numbers, `apart` bytes from each other."""
    lines = ["{", ".reg .pred bad;", ".reg .b32 v0, v1;"]
    for number in range(2):
        lines += [
            f"mov.b32 v{number}, ${2 + number};",
            f"setp.nan.f32 bad, ${2 + number}, ${2 + number};",
            f"@bad mov.b32 v{number}, 0x7fffffff;",
            f"st.relaxed.gpu.global.b32 [$1+{number * apart}], v{number};",
        ]
    return "\n".join([*lines, "mov.u32 $0, 0;", "}"])


@gluon.constexpr_function
def reading(apart, loads, tail):
    """Two sums of `loads` numbers, 128 bytes from one to the next; `tail`: the last is for lanes where $3 is not 0."""
    names = [[f"v{number}_{load}" for load in range(loads)] for number in range(2)]
    lines = ["{", ".reg .pred again, last;", f".reg .b32 {', '.join(names[0] + names[1])};"]
    lines += ["setp.ne.u32 last, $3, 0;", *(f"mov.b32 {name}, 0;" for name in (names[0][-1], names[1][-1])), "LOOK:"]
    for number in range(2):
        for load, name in enumerate(names[number]):
            guard = "@last " if tail and load == loads - 1 else ""
            lines.append(f"{guard}ld.relaxed.gpu.global.b32 {name}, [$2+{number * apart + 128 * load}];")
    lines.append(f"setp.eq.b32 again, {names[0][0]}, {EMPTY};")
    lines += [f"setp.eq.or.b32 again, {name}, {EMPTY}, again;" for name in (names[0] + names[1])[1:]]
    lines.append("@again bra LOOK;")
    for number in range(2):
        lines.append(f"mov.b32 ${number}, {names[number][0]};")
        lines += [f"add.f32 ${number}, ${number}, {name};" for name in names[number][1:]]
    return "\n".join([*lines, "}"])


@gluon.jit
def share_sums(own, first, second, SLICES: gl.constexpr, ROWS_OF_WARP: gl.constexpr):
    """This block's sums over its units of two arrays [OWN, ROWS], for all blocks to read; `own`: its places [ROWS]."""
    text: gl.constexpr = storing(4 * SLICES * ROWS_OF_WARP)
    gl.inline_asm_elementwise(
        text,
        "=r,l,f,f",
        [own.to(gl.int64), gl.sum(first, 0), gl.sum(second, 0)],
        dtype=gl.int32,
        is_pure=False,
        pack=1,
    )


@gluon.jit
def all_sums(
    everybody, last, SLICES: gl.constexpr, LANES: gl.constexpr, ROWS_OF_WARP: gl.constexpr, UNIT: gl.constexpr
):
    """The sums of all blocks, as soon as they are there: two of [1, ROWS]. `everybody`: places [LANES, ROWS]."""
    text: gl.constexpr = reading(4 * SLICES * ROWS_OF_WARP, (SLICES + LANES - 1) // LANES, SLICES % LANES != 0)
    first, second = gl.inline_asm_elementwise(
        text,
        "=f,=f,l,r",
        [everybody.to(gl.int64), last],
        dtype=(gl.float32, gl.float32),
        is_pure=False,
        pack=1,
    )
    ROW: gl.constexpr = gl.SliceLayout(0, UNIT)
    return (
        gl.convert_layout(gl.sum(first, 0), ROW)[None, :],
        gl.convert_layout(gl.sum(second, 0), ROW)[None, :],
    )


@gluon.jit
def places_of_all(
    ROWS: gl.constexpr, SLICES: gl.constexpr, LANES: gl.constexpr, ROWS_OF_WARP: gl.constexpr, WARPS: gl.constexpr
):
    """Where the lanes begin to read the sums of all blocks, and which of them read a last one: [LANES, ROWS]."""
    SUMS: gl.constexpr = gl.BlockedLayout([1, 1], [LANES, ROWS_OF_WARP], [1, WARPS], [0, 1])
    of_sums = gl.arange(0, ROWS, gl.SliceLayout(0, SUMS))[None, :]
    of_lanes = gl.arange(0, LANES, gl.SliceLayout(1, SUMS))[:, None]
    places = (of_sums // ROWS_OF_WARP) * (2 * SLICES * ROWS_OF_WARP) + of_lanes * ROWS_OF_WARP + of_sums % ROWS_OF_WARP
    return places, (of_lanes + (SLICES - 1) // LANES * LANES < SLICES).to(gl.int32) + 0 * of_sums


@gluon.jit
def keep_gains(norms, peepholes, own, OWN: gl.constexpr, K: gl.constexpr, PEEPHOLE: gl.constexpr):
    """`norms` and `peepholes` of this block's units, [9, OWN] in shared memory: registers are scarce."""
    gains = gl.allocate_shared_memory(gl.float32, [9, OWN], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    for number in gl.static_range(6):
        gains.index(number).store(gl.load(norms + number * K + own))
    if PEEPHOLE:
        for number in gl.static_range(3):
            gains.index(6 + number).store(gl.load(peepholes + number * K + own))
    return gains


@gluon.jit
def gain(gains, number: gl.constexpr, UNIT: gl.constexpr):
    """One of them, [OWN, 1]."""
    return gains.index(number).load(gl.SliceLayout(1, UNIT))[:, None]


@gluon.jit
def times_gains(a, gains, UNIT: gl.constexpr):
    """Four blocks times their gains."""
    first, second = gain(gains, 0, UNIT), gain(gains, 1, UNIT)
    return a[0] * first, a[1] * second, a[2] * gain(gains, 2, UNIT), a[3] * gain(gains, 3, UNIT)


@gluon.jit
def sum_of_four(a):
    return a[0] + a[1] + a[2] + a[3]


@gluon.jit
def sum_of_products(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@gluon.jit
def add_to(sums, number: gl.constexpr, more, UNIT: gl.constexpr):
    sums.index(number).store(sums.index(number).load(UNIT) + more)


@gluon.jit
def moments(total, squares, share, eps):
    """Mean and 1 / sd from sums over 1 / share numbers."""
    mean = total * share
    return mean, gl.rsqrt(gl.maximum(squares * share - mean * mean, 0.0) + eps)


@gluon.jit
def norm_forward(
    projected,
    weights,
    states,
    outputs,
    cells,
    last_c,
    hats,
    statistics,
    norms,
    peepholes,
    marks,
    hold_h,
    hold_c,
    exchange,
    counters,
    steps,
    none,
    share_h,
    share_c,
    one_gate,
    one_unit,
    eps,
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
    SLICES: gl.constexpr = K // OWN
    M: gl.constexpr = 4 * OWN
    LANES: gl.constexpr = 32 * WARPS // ROWS
    OF_WARP: gl.constexpr = 32 // LANES
    UNIT: gl.constexpr = unit_layout(ROWS, OWN, WARPS)
    MMA: gl.constexpr = product_layout(ROWS, OWN, WARPS)
    ONE: gl.constexpr = 2 * SLICES * ROWS  # numbers of one exchange of a group

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    own_weights = keep_weights(weights + slice * (K * M), K, slice, M, CHUNK, K // CHUNK, IN_REGISTERS, MMA, WARPS)
    buffers = make_buffers(states, ROWS, CHUNK, BUFFERS)
    gathered = gather(states, K, group, 0, ROWS, CHUNK, WARPS)

    unit = gl.arange(0, OWN, gl.SliceLayout(1, UNIT))
    of_rows = gl.arange(0, ROWS, gl.SliceLayout(0, UNIT))
    row = group * ROWS + of_rows
    here = row[None, :] * K + slice * OWN + unit[:, None]
    blocks = row[None, :] * (4 * K) + slice * M + unit[:, None]
    gains = keep_gains(norms, peepholes, slice * OWN + unit, OWN, K, PEEPHOLE)
    counter = counters + group * steps * APART

    everybody, last_lanes = places_of_all(ROWS, SLICES, LANES, OF_WARP, WARPS)
    mine = (of_rows // OF_WARP) * (2 * SLICES * OF_WARP) + slice * OF_WARP + of_rows % OF_WARP
    places = exchange + group.to(gl.int64) * steps * (2 * ONE)

    c = gl.load(cells + here)
    h = c
    if MARKED or HOLD_H:
        h = gl.load(states + here).to(gl.float32)
    mark = load_mark(marks, row[None, :], gl.zeros([1, ROWS], gl.int32, UNIT), MARKED)
    for t in range(steps):
        now = t.to(gl.int64) * (P * K)
        # 0, but not to the compiler: it would keep all addresses of the loop in registers
        zero = none * t * 64
        here_t = here + zero
        blocks_t = blocks + zero
        row_t = row[None, :] + zero
        mine_t = mine + zero
        everybody_t = everybody + zero
        x = load_four(projected + now * 4, blocks_t, OWN)
        next_mark = load_mark(marks + (t + 1) * P, row_t, mark, MARKED)
        kept_h = share_kept(hold_h + now, here_t, share_h, c, HOLD_H)
        kept_c = share_kept(hold_c + now, here_t, share_c, c, HOLD_C)
        if t > 0:
            wait_for(counter + (t - 1) * APART, SLICES)
        sums = multiply(own_weights, buffers, gathered + now, slice + zero, none * t, M, IN_REGISTERS, MMA)
        a = four_blocks(sums, UNIT, OWN, ROWS)
        # first over all gates
        place = places + t * (2 * ONE)
        share_sums(place + mine_t, sum_of_four(a), sum_of_products(a, a), SLICES, OF_WARP)
        total, squares = all_sums(place + everybody_t, last_lanes, SLICES, LANES, OF_WARP, UNIT)
        mean, gate_scale = moments(total, squares, one_gate, eps)
        n = (
            (a[0] - mean) * gate_scale,
            (a[1] - mean) * gate_scale,
            (a[2] - mean) * gate_scale,
            (a[3] - mean) * gate_scale,
        )
        p = (0.0, 0.0, 0.0)
        if PEEPHOLE:
            p = (gain(gains, 6, UNIT), gain(gains, 7, UNIT), gain(gains, 8, UNIT))
        a = add_four(times_gains(n, gains, UNIT), in_float32(x))
        kept, new_c, _ = advance(a, c, p, FORM, PEEPHOLE)
        # then over all units
        place += ONE
        share_sums(place + mine_t, new_c, new_c * new_c, SLICES, OF_WARP)
        c = restart(settle(c, new_c, kept_c, mark, MARKED, HOLD_C), next_mark, MARKED)
        if SAVE:
            store_four(projected + now * 4, blocks_t, OWN, kept)
            store_four(hats + now * 4, blocks_t, OWN, n)
            gl.store(cells + now + P * K + here_t, c)
        total, squares = all_sums(place + everybody_t, last_lanes, SLICES, LANES, OF_WARP, UNIT)
        mean, scale = moments(total, squares, one_unit, eps)
        new_h = kept[3] * tanh((new_c - mean) * scale * gain(gains, 4, UNIT) + gain(gains, 5, UNIT))
        h = settle(h, new_h, kept_h, mark, MARKED, HOLD_H)
        y = h
        h = restart(h, next_mark, MARKED)
        gl.store(states + now + P * K + here_t, h.to(low))
        arrive(counter + t * APART)
        store_shown(outputs + now, here_t, y, mark, MARKED)
        if SAVE:
            if slice == 0:
                of_step = statistics + t.to(gl.int64) * (3 * P) + row_t
                gl.store(of_step, mean)
                gl.store(of_step + P, scale)
                gl.store(of_step + 2 * P, gate_scale)
        mark = next_mark
    gl.store(last_c + here, c)


@gluon.jit
def norm_backward(
    kept,
    turned,
    d_outputs,
    d_gates,
    d_raw,
    cells,
    hats,
    statistics,
    d_last_h,
    d_last_c,
    d_first_h,
    d_first_c,
    norms,
    d_norms,
    peepholes,
    d_peepholes,
    marks,
    hold_h,
    hold_c,
    exchange,
    partial,
    counters,
    steps,
    none,
    share_h,
    share_c,
    one_gate,
    one_unit,
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
    M: gl.constexpr = 4 * OWN
    TEAMS: gl.constexpr = K // M
    SLICES: gl.constexpr = K // OWN
    LANES: gl.constexpr = 32 * WARPS // ROWS
    OF_WARP: gl.constexpr = 32 // LANES
    UNIT: gl.constexpr = unit_layout(ROWS, OWN, WARPS)
    MMA: gl.constexpr = product_layout(ROWS, OWN, WARPS)
    ONE: gl.constexpr = 2 * SLICES * ROWS

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    team = slice // 4
    quarter = slice % 4
    own_weights = keep_weights(
        turned + team * (M * 4 * K) + quarter * K, 4 * K, team, M, CHUNK, K // CHUNK, IN_REGISTERS, MMA, WARPS
    )
    buffers = make_buffers(d_raw, ROWS, CHUNK, BUFFERS)
    gathered = gather(d_raw, 4 * K, group, quarter * K, ROWS, CHUNK, WARPS)

    of_own = gl.arange(0, OWN, gl.SliceLayout(1, UNIT))
    of_rows = gl.arange(0, ROWS, gl.SliceLayout(0, UNIT))
    unit = slice * OWN + of_own
    row = group * ROWS + of_rows
    here = row[None, :] * K + unit[:, None]
    blocks = row[None, :] * (4 * K) + ((unit // FORWARD_OWN) * (4 * FORWARD_OWN) + unit % FORWARD_OWN)[:, None]
    d_blocks = row[None, :] * (4 * K) + unit[:, None]
    gains = keep_gains(norms, peepholes, unit, OWN, K, PEEPHOLE)
    of_m = gl.arange(0, M, gl.SliceLayout(1, MMA))
    of_n = gl.arange(0, ROWS, gl.SliceLayout(0, MMA))
    shared_sums = partial + (group * TEAMS + team) * (4 * M * ROWS)
    part_stored = quarter * (M * ROWS) + of_n[None, :] * M + of_m[:, None]
    part_loaded = of_rows[None, :] * M + (quarter * OWN + of_own)[:, None]
    counter = counters + group * steps * APART
    team_counter = counters + ((gl.num_programs(0) // SLICES) + group * TEAMS + team) * steps * APART

    everybody, last_lanes = places_of_all(ROWS, SLICES, LANES, OF_WARP, WARPS)
    mine = (of_rows // OF_WARP) * (2 * SLICES * OF_WARP) + slice * OF_WARP + of_rows % OF_WARP
    places = exchange + group.to(gl.int64) * steps * (2 * ONE)

    zeros = gl.zeros([OWN, ROWS], gl.float32, UNIT)
    dc = zeros
    direct = zeros
    if CHARGED:
        dc = gl.load(d_last_c + here)
        direct = gl.load(d_last_h + here)
    KEPT: gl.constexpr = 9 if PEEPHOLE else 6
    through_steps = gl.allocate_shared_memory(gl.float32, [KEPT, OWN, ROWS], gl.SwizzledSharedLayout(1, 1, 1, [0, 1]))
    for number in gl.static_range(KEPT):
        through_steps.index(number).store(zeros)
    new_c = gl.load(cells + steps.to(gl.int64) * (P * K) + here)
    begins = gl.zeros([1, ROWS], gl.int32, UNIT)
    for back in range(steps):
        t = steps - 1 - back
        now = t.to(gl.int64) * (P * K)
        # 0, but not to the compiler: it would keep all addresses of the loop in registers
        zero = none * t * 64
        here_t = here + zero
        blocks_t = blocks + zero
        d_blocks_t = d_blocks + zero
        row_t = row[None, :] + zero
        mine_t = mine + zero
        everybody_t = everybody + zero
        k = load_four(kept + now * 4, blocks_t, FORWARD_OWN)
        n = load_four(hats + now * 4, blocks_t, FORWARD_OWN)
        before = gl.load(cells + now + here_t)
        dy = gl.load(d_outputs + now + here_t)
        of_step = statistics + t.to(gl.int64) * (3 * P) + row_t
        mean = gl.load(of_step)
        scale = gl.load(of_step + P)
        gate_scale = gl.load(of_step + 2 * P)
        mark = load_mark(marks + t * P, row_t, begins, MARKED)
        kept_h = share_kept(hold_h + now, here_t, share_h, dc, HOLD_H)
        kept_c = share_kept(hold_c + now, here_t, share_c, dc, HOLD_C)
        if back > 0:
            wait_for(counter + (t + 1) * APART, SLICES)
        source = gathered + (now + P * K) * 4
        sums = multiply(own_weights, buffers, source, team + zero, none * t, M, IN_REGISTERS, MMA)
        gl.store(shared_sums + zero + part_stored, sums)
        arrive(team_counter + t * APART)
        wait_for(team_counter + t * APART, 4)
        dh = direct
        for q in gl.static_range(4):
            dh += gl.load(shared_sums + zero + q * (M * ROWS) + part_loaded)
        # what came from the step after this one ends where that began anew
        dh = add_shown(restart(dh, begins, MARKED), dy, mark, MARKED)
        dc = restart(dc, begins, MARKED)
        i, f, g, o = in_float32(k)
        if MARKED or HOLD_C:
            new_c = f * before + i * g
        dc, dc_old = unsettle(dc, kept_c, mark, MARKED, HOLD_C)
        dh, direct = unsettle(dh, kept_h, mark, MARKED, HOLD_H)
        m = (new_c - mean) * scale
        shown = tanh(m * gain(gains, 4, UNIT) + gain(gains, 5, UNIT))
        d_shown = dh * o * (1.0 - shown * shown)
        e = d_shown * gain(gains, 4, UNIT)
        # first over all units
        place = places + t * (2 * ONE)
        share_sums(place + mine_t, e, e * m, SLICES, OF_WARP)
        add_to(through_steps, 4, d_shown * m, UNIT)
        add_to(through_steps, 5, d_shown, UNIT)
        d3 = dh * shown * o * (1.0 - o)
        if PEEPHOLE:
            add_to(through_steps, 8, d3 * new_c, UNIT)
            dc += d3 * gain(gains, 8, UNIT)
        first, second = all_sums(place + everybody_t, last_lanes, SLICES, LANES, OF_WARP, UNIT)
        dc += scale * (e - one_unit * (first + m * second))
        d0, d1, d2 = retreat_memory(dc, (i, f, g, o), before, FORM)
        # then over all gates
        d = (d0, d1, d2, d3)
        e = times_gains(d, gains, UNIT)
        n = in_float32(n)
        place += ONE
        share_sums(place + mine_t, sum_of_four(e), sum_of_products(e, n), SLICES, OF_WARP)
        store_four(d_gates + now * 4, d_blocks_t, K, d)
        for number in gl.static_range(4):
            add_to(through_steps, number, d[number] * n[number], UNIT)
        dc = dc * f
        if PEEPHOLE:
            add_to(through_steps, 6, d0 * before, UNIT)
            add_to(through_steps, 7, d1 * before, UNIT)
            dc += d0 * gain(gains, 6, UNIT) + d1 * gain(gains, 7, UNIT)
        dc += dc_old
        first, second = all_sums(place + everybody_t, last_lanes, SLICES, LANES, OF_WARP, UNIT)
        first = first * one_gate
        second = second * one_gate
        raw = (
            gate_scale * (e[0] - first - n[0] * second),
            gate_scale * (e[1] - first - n[1] * second),
            gate_scale * (e[2] - first - n[2] * second),
            gate_scale * (e[3] - first - n[3] * second),
        )
        store_four(d_raw + now * 4, d_blocks_t, K, raw)
        arrive(counter + t * APART)
        new_c = before
        begins = mark
    gl.store(d_first_c + here, restart(dc, begins, MARKED))
    gl.store(d_first_h + here, restart(direct, begins, MARKED))
    for number in gl.static_range(6):
        gl.store(d_norms + number * P * K + here, through_steps.index(number).load(UNIT))
    if PEEPHOLE:
        for number in gl.static_range(3):
            gl.store(d_peepholes + number * P * K + here, through_steps.index(6 + number).load(UNIT))
