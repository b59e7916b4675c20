"""A cell of four blocks over a whole sequence: blocks of a launch own some units each, and meet once a step.

At each step a block waits until all blocks of its group have stored their units' h, multiplies (`wide` or `narrow`:
CHUNK is 0), computes its own units and stores their h. What the backward pass needs is stored after that, when nobody
waits any more.

With `norms` it is a layer-norm LSTM (`layer_norm`), always `wide`, which exchanges sums over units as well; otherwise
all that only it has is None. It has no registers to load a step's numbers before the step, nor for addresses.

Shapes: T steps, P rows, K units (both filled up), S slices of OWN units. `projected`, later the kept gates: [T, P, S,
4, OWN]. `states`: [T + 1, P, K], what step t begins with; `outputs`: [T, P, K]; `cells`: [T + 1, P, K] in float32.
`d_gates`: [T + 1, P, 4, K], whose last step is 0. The arrays of a step are [OWN, ROWS], narrow ones [ROWS, OWN].
With layer norm: `hats`, the normalised U h, as `projected`; `statistics`: [T, 3, P], mean of c', 1 / sd of c', 1 / sd
of U h; `d_raw`: [T + 1, P, 4, K], d(U h), whose last step is 0; `d_gates`: [T, P, 4, K], dz.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from thereafter.kernels.gpu.code import layer_norm as norm
from thereafter.kernels.gpu.code import narrow, wide
from thereafter.kernels.gpu.code.formulas import advance, retreat, retreat_memory, tanh
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


@gluon.jit
def forward(
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
    NORMED: gl.constexpr = norms is not None
    WIDE: gl.constexpr = CHUNK > 0
    SLICES: gl.constexpr = K // OWN
    M: gl.constexpr = 4 * OWN
    UNIT: gl.constexpr = wide.unit_layout(ROWS, OWN, WARPS) if WIDE else narrow.unit_layout(OWN, WARPS)
    MMA: gl.constexpr = wide.product_layout(ROWS, OWN, WARPS) if WIDE else narrow.product_layout(WARPS)
    ALONG_ROWS: gl.constexpr = 1 if WIDE else 0  # the axis of a step's arrays that rows go along
    ALONG_UNITS: gl.constexpr = 1 - ALONG_ROWS
    MEMORY: gl.constexpr = FORM == "lstm" or FORM == "coupled"

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    if WIDE:
        own_weights = wide.keep_weights(
            weights + slice * (K * M), K, slice, M, CHUNK, K // CHUNK, IN_REGISTERS, MMA, WARPS
        )
        buffers = wide.make_buffers(states, ROWS, CHUNK, BUFFERS)
        gathered = wide.gather(states, K, group, 0, ROWS, CHUNK, WARPS)
    else:
        own_weights = narrow.keep_fragments(weights + slice * (K * M), K, K // WARPS, M, MMA, WARPS)
        gathered = narrow.gather_offsets(group, K, K // WARPS, MMA, WARPS)
        room = narrow.make_room(M, 4, WARPS)

    of_own = gl.arange(0, OWN, gl.SliceLayout(ALONG_ROWS, UNIT))
    of_rows = gl.arange(0, ROWS, gl.SliceLayout(ALONG_UNITS, UNIT))
    unit = gl.expand_dims(of_own, ALONG_ROWS)
    row = gl.expand_dims(group * ROWS + of_rows, ALONG_UNITS)
    here = row * K + slice * OWN + unit
    blocks = row * (4 * K) + slice * M + unit
    whole = 0 * row + 0 * unit
    marked = row + whole
    if NORMED:
        ONE: gl.constexpr = 2 * SLICES * ROWS  # numbers of one exchange of a group
        marked = row
        gains = norm.keep_gains(norms, peepholes, slice * OWN + of_own, OWN, K, PEEPHOLE)
        mine, everybody, last_lanes = norm.places_of_sums(of_rows, slice, SLICES, WARPS)
        places = exchange + group.to(gl.int64) * steps * (2 * ONE)
    counter = counters + group * steps * APART

    c = gl.load(cells + here)
    h = c
    if MEMORY:
        if MARKED or HOLD_H:
            h = gl.load(states + here).to(gl.float32)
    p = (0.0, 0.0, 0.0)
    if not NORMED:
        if PEEPHOLE:
            p = load_peepholes(peepholes, slice * OWN + unit + whole, K)
        x = load_four(projected, blocks, OWN)
    mark = load_mark(marks, marked, 0 * marked, MARKED)
    for t in range(steps):
        fresh = 0
        if NORMED:
            # a 0 that the compiler does not know: addresses are computed at every step and take no registers between
            fresh = none * t * 64
        here_t = here + fresh
        blocks_t = blocks + fresh
        marked_t = marked + fresh
        if NORMED:
            mine_t = mine + fresh
            everybody_t = everybody + fresh
            x = load_four(projected + t.to(gl.int64) * (P * K) * 4, blocks_t, OWN)
            next_x = x
        else:
            later = gl.minimum(t + 1, steps - 1).to(gl.int64)
            next_x = load_four(projected + later * (P * 4 * K), blocks, OWN)
        next_mark = load_mark(marks + (t + 1) * P, marked_t, mark, MARKED)
        now = t.to(gl.int64) * (P * K)
        kept_h = share_kept(hold_h + now, here_t, share_h, c, HOLD_H)
        kept_c = share_kept(hold_c + now, here_t, share_c, c, HOLD_C)
        p_t = p
        if WIDE:
            if t > 0:
                wait_for(counter + (t - 1) * APART, SLICES)
            rotation = slice + (fresh if NORMED else none * t)
            sums = wide.multiply(own_weights, buffers, gathered + now, rotation, none * t, M, IN_REGISTERS, MMA)
            a = wide.four_blocks(sums, UNIT, OWN, ROWS)
            if NORMED:
                place = places + t * (2 * ONE)
                norm.share_sums(place + mine_t, norm.sum_of_four(a), norm.sum_of_products(a, a), SLICES, WARPS)
                total, squares = norm.all_sums(place + everybody_t, last_lanes, SLICES, UNIT)
                n, gate_scale = norm.normalised(a, total, squares, one_gate, eps)
                if PEEPHOLE:
                    p_t = (
                        norm.gain(gains, 6, UNIT),
                        norm.gain(gains, 7, UNIT),
                        norm.gain(gains, 8, UNIT),
                    )
                a = norm.times_gains(n, gains, UNIT)
            a = add_four(a, in_float32(x))
        else:
            if t > 0:
                each_waits_for(counter + (t - 1) * APART, SLICES)
            narrow.multiply_shares(states + now, gathered, own_weights, room, M, MMA, WARPS)
            a = narrow.add_shares(in_float32(x), room, OWN, UNIT, WARPS)
        kept, new_c, new_h = advance(a, c, p_t, FORM, PEEPHOLE)
        if NORMED:
            place += ONE
            norm.share_sums(place + mine_t, new_c, new_c * new_c, SLICES, WARPS)
        c = settle(c, new_c, kept_c, mark, MARKED, HOLD_C)
        if NORMED:
            if SAVE:
                # while the others come
                store_four(projected + now * 4, blocks_t, OWN, kept)
                store_four(hats + now * 4, blocks_t, OWN, n)
                gl.store(cells + now + P * K + here_t, restart(c, next_mark, MARKED))
            total, squares = norm.all_sums(place + everybody_t, last_lanes, SLICES, UNIT)
            mean, scale = norm.moments(total, squares, one_unit, eps)
            new_h = kept[3] * tanh((new_c - mean) * scale * norm.gain(gains, 4, UNIT) + norm.gain(gains, 5, UNIT))
        if MEMORY:
            h = settle(h, new_h, kept_h, mark, MARKED, HOLD_H)
        else:
            h = c
        y = h
        c = restart(c, next_mark, MARKED)
        h = restart(h, next_mark, MARKED)
        gl.store(states + now + P * K + here_t, h.to(low))
        arrive(counter + t * APART)
        store_shown(outputs + now, here_t, y, mark, MARKED)
        if SAVE:
            if NORMED:
                if slice == 0:
                    of_step = statistics + t.to(gl.int64) * (3 * P) + marked_t
                    gl.store(of_step, mean)
                    gl.store(of_step + P, scale)
                    gl.store(of_step + 2 * P, gate_scale)
            else:
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
    d_biases,
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
    NORMED: gl.constexpr = norms is not None
    WIDE: gl.constexpr = CHUNK > 0
    SLICES: gl.constexpr = K // OWN
    M: gl.constexpr = 4 * OWN
    TEAMS: gl.constexpr = K // M
    UNIT: gl.constexpr = wide.unit_layout(ROWS, OWN, WARPS) if WIDE else narrow.unit_layout(OWN, WARPS)
    MMA: gl.constexpr = wide.product_layout(ROWS, OWN, WARPS) if WIDE else narrow.product_layout(WARPS)
    ALONG_ROWS: gl.constexpr = 1 if WIDE else 0  # the axis of a step's arrays that rows go along
    ALONG_UNITS: gl.constexpr = 1 - ALONG_ROWS
    MEMORY: gl.constexpr = FORM == "lstm" or FORM == "coupled"

    # the gradient of what U gave
    d_state = d_gates
    if NORMED:
        d_state = d_raw
    group = gl.program_id(0) // SLICES
    of_own = gl.arange(0, OWN, gl.SliceLayout(ALONG_ROWS, UNIT))
    of_rows = gl.arange(0, ROWS, gl.SliceLayout(ALONG_UNITS, UNIT))
    if WIDE:
        team = gl.program_id(0) % SLICES // 4
        quarter = gl.program_id(0) % 4
        own_weights = wide.keep_weights(
            turned + team * (M * 4 * K) + quarter * K, 4 * K, team, M, CHUNK, K // CHUNK, IN_REGISTERS, MMA, WARPS
        )
        buffers = wide.make_buffers(d_state, ROWS, CHUNK, BUFFERS)
        gathered = wide.gather(d_state, 4 * K, group, quarter * K, ROWS, CHUNK, WARPS)
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
    unit = gl.expand_dims(units, ALONG_ROWS)
    row = gl.expand_dims(group * ROWS + of_rows, ALONG_UNITS)
    here = row * K + unit
    blocks = row * (4 * K) + gl.expand_dims(
        (units // FORWARD_OWN) * (4 * FORWARD_OWN) + units % FORWARD_OWN, ALONG_ROWS
    )
    d_blocks = row * (4 * K) + unit
    whole = 0 * row + 0 * unit
    marked = row + whole
    own = unit + whole
    counter = counters + group * steps * APART
    if NORMED:
        ONE: gl.constexpr = 2 * SLICES * ROWS
        marked = row
        gains = norm.keep_gains(norms, peepholes, units, OWN, K, PEEPHOLE)
        mine, everybody, last_lanes = norm.places_of_sums(of_rows, gl.program_id(0) % SLICES, SLICES, WARPS)
        places = exchange + group.to(gl.int64) * steps * (2 * ONE)

    zeros = whole.to(gl.float32)
    dc = zeros
    direct = zeros
    if CHARGED:
        dc = gl.load(d_last_c + here)
        if MEMORY:
            direct = gl.load(d_last_h + here)
    if NORMED:
        # sums over steps, in shared memory: registers are scarce
        SUMS: gl.constexpr = 9 if PEEPHOLE else 6
        through_steps = gl.allocate_shared_memory(
            gl.float32, [SUMS, OWN, ROWS], gl.SwizzledSharedLayout(1, 1, 1, [0, 1])
        )
        for number in gl.static_range(SUMS):
            through_steps.index(number).store(zeros)
    else:
        sums_of_d = (zeros, zeros, zeros, zeros)
        p = (0.0, 0.0, 0.0)
        q = (zeros, zeros, zeros)
        if PEEPHOLE:
            if not WIDE:
                p = load_peepholes(peepholes, own, K)
        last = (steps - 1).to(gl.int64)
        k = load_four(kept + last * (P * 4 * K), blocks, FORWARD_OWN)
        before = gl.load(cells + last * (P * K) + here)
    new_c = gl.load(cells + ((steps - 1).to(gl.int64) + 1) * (P * K) + here)
    mark = 0 * marked
    if not NORMED:
        dy = gl.load(d_outputs + last * (P * K) + here)
        mark = load_mark(marks + (steps - 1) * P, marked, whole, MARKED)
    for back in range(steps):
        t = steps - 1 - back
        fresh = 0
        if WIDE:
            # a 0 that the compiler does not know: addresses are computed at every step and take no registers between
            fresh = none * t * 64
        begins = mark
        hold_at = here
        if NORMED:
            now = t.to(gl.int64) * (P * K)
            hold_at = here + fresh
            k = load_four(kept + now * 4, blocks + fresh, FORWARD_OWN)
            n = load_four(hats + now * 4, blocks + fresh, FORWARD_OWN)
            before = gl.load(cells + now + (here + fresh))
            dy = gl.load(d_outputs + now + (here + fresh))
            of_step = statistics + t.to(gl.int64) * (3 * P) + (row + fresh)
            mean = gl.load(of_step)
            scale = gl.load(of_step + P)
            gate_scale = gl.load(of_step + 2 * P)
            mark = load_mark(marks + t * P, row + fresh, begins, MARKED)
        else:
            earlier = gl.maximum(t - 1, 0)
            earlier_k = load_four(kept + earlier.to(gl.int64) * (P * 4 * K), blocks + fresh, FORWARD_OWN)
            earlier_c = gl.load(cells + earlier.to(gl.int64) * (P * K) + (here + fresh))
            earlier_dy = gl.load(d_outputs + earlier.to(gl.int64) * (P * K) + (here + fresh))
            earlier_mark = load_mark(marks + earlier * P, marked, mark, MARKED)
            p_t = p
        now = t.to(gl.int64) * (P * K)
        kept_h = share_kept(hold_h + now, hold_at, share_h, dc, HOLD_H)
        kept_c = share_kept(hold_c + now, hold_at, share_c, dc, HOLD_C)
        dh = direct
        if WIDE:
            if back > 0:
                wait_for(counter + (t + 1) * APART, SLICES)
            source = gathered + (now + P * K) * 4
            rotation = team + (fresh if NORMED else none * t)
            sums = wide.multiply(own_weights, buffers, source, rotation, none * t, M, IN_REGISTERS, MMA)
            gl.store(shared_sums + (part_stored + fresh), sums)
            arrive(team_counter + t * APART)
            if PEEPHOLE:
                if not NORMED:
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
        if not NORMED:
            begins = load_mark(marks + (t + 1) * P, marked, mark, MARKED)
        dh = restart(dh, begins, MARKED)
        dc = restart(dc, begins, MARKED)
        dh = add_shown(dh, dy, mark, MARKED)
        if not MEMORY:
            dc += dh
            dh = zeros
        if MARKED or HOLD_C:
            if MEMORY:
                new_c = k[1].to(gl.float32) * before + k[0].to(gl.float32) * k[2].to(gl.float32)
        dc, dc_old = unsettle(dc, kept_c, mark, MARKED, HOLD_C)
        dh, direct = unsettle(dh, kept_h, mark, MARKED, HOLD_H)
        if NORMED:
            i, f, g, o = in_float32(k)
            m = (new_c - mean) * scale
            shown = tanh(m * norm.gain(gains, 4, UNIT) + norm.gain(gains, 5, UNIT))
            d_shown = dh * o * (1.0 - shown * shown)
            e = d_shown * norm.gain(gains, 4, UNIT)
            # first over all units
            place = places + t * (2 * ONE)
            norm.share_sums(place + (mine + fresh), e, e * m, SLICES, WARPS)
            norm.add_to(through_steps, 4, d_shown * m, UNIT)
            norm.add_to(through_steps, 5, d_shown, UNIT)
            d3 = dh * shown * o * (1.0 - o)
            if PEEPHOLE:
                norm.add_to(through_steps, 8, d3 * new_c, UNIT)
                dc += d3 * norm.gain(gains, 8, UNIT)
            first, second = norm.all_sums(place + (everybody + fresh), last_lanes, SLICES, UNIT)
            dc += scale * (e - one_unit * (first + m * second))
            d0, d1, d2 = retreat_memory(dc, (i, f, g, o), before, FORM)
            # then over all gates
            d = (d0, d1, d2, d3)
            e = norm.times_gains(d, gains, UNIT)
            n = in_float32(n)
            place += ONE
            norm.share_sums(place + (mine + fresh), norm.sum_of_four(e), norm.sum_of_products(e, n), SLICES, WARPS)
            store_four(d_gates + now * 4, d_blocks + fresh, K, d)
            for number in gl.static_range(4):
                norm.add_to(through_steps, number, d[number] * n[number], UNIT)
            dc = dc * f
            if PEEPHOLE:
                norm.add_to(through_steps, 6, d0 * before, UNIT)
                norm.add_to(through_steps, 7, d1 * before, UNIT)
                dc += d0 * norm.gain(gains, 6, UNIT) + d1 * norm.gain(gains, 7, UNIT)
            dc += dc_old
            first, second = norm.all_sums(place + (everybody + fresh), last_lanes, SLICES, UNIT)
            d = norm.through_norm(e, n, gate_scale, first * one_gate, second * one_gate)
        else:
            d, dc = retreat(dh, dc, in_float32(k), before, new_c, p_t, FORM, PEEPHOLE)
            dc += dc_old
        store_four(d_state + now * 4, d_blocks + fresh, K, d)
        arrive(counter + t * APART)
        if NORMED:
            new_c = before
        else:
            sums_of_d = add_four(sums_of_d, d)
            if PEEPHOLE:
                q = (q[0] + d[0] * before, q[1] + d[1] * before, q[2] + d[3] * new_c)
            new_c = before
            before = earlier_c
            k = earlier_k
            dy = earlier_dy
            mark = earlier_mark
    begins = mark
    if not NORMED:
        begins = load_mark(marks, marked, mark, MARKED)
    gl.store(d_first_c + here, restart(dc, begins, MARKED))
    gl.store(d_first_h + here, restart(direct, begins, MARKED))
    if NORMED:
        for number in gl.static_range(6):
            gl.store(d_norms + number * P * K + here, through_steps.index(number).load(UNIT))
        if PEEPHOLE:
            for number in gl.static_range(3):
                gl.store(d_peepholes + number * P * K + here, through_steps.index(6 + number).load(UNIT))
    else:
        store_four(d_biases, here, P * K, sums_of_d)
        if PEEPHOLE:
            for number in gl.static_range(3):
                gl.store(d_peepholes + number * P * K + here, q[number])
