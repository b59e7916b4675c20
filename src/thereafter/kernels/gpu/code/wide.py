"""Layers of many units: gates are the rows of a product by a warpgroup (wgmma), the batch its columns.

A block owns OWN units, that is 4 OWN rows of the recurrent matrix, for a group of ROWS rows of the batch. Its weights
are read once: the first IN_REGISTERS chunks of CHUNK columns stay in registers, the others in shared memory. At each
step it waits until all blocks of its group have stored their units' h, copies all of h into shared memory, BUFFERS
chunks on their way at once, multiplies, computes its own units and stores their h. What the backward pass needs is
stored after that, when nobody waits any more.

    forward     acc[4 OWN, ROWS] = W[own gates, :] h[:, rows]

Backward, the product dh = W' dgates would read 4 K numbers a row. It is shared by four blocks, one for each gate:
block q multiplies the q-th quarter for 4 OWN units, the four exchange partial sums, and each goes on with OWN of them.

    backward    partial_q[4 OWN, ROWS] = W'[4 OWN units, gate q] dgates_q[:, rows];  dh[own] = sum over q partial_q[own]

Shapes: T steps, P rows, K units (both filled up), S slices of OWN units. `projected`, later the kept gates: [T, P, S,
4, OWN]. `states`: [T + 1, P, K], what step t begins with; `outputs`: [T, P, K]; `cells`: [T + 1, P, K] in float32.
`d_gates`: [T + 1, P, 4, K], whose last step is 0.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

from thereafter.kernels.gpu.code.formulas import advance, retreat
from thereafter.kernels.gpu.code.meeting import APART, arrive, wait_for
from thereafter.kernels.gpu.code.situations import load_four, restart, settle, share_kept, store_four, unsettle

# its name up to Triton 3.7
async_load = async_copy.async_load if hasattr(async_copy, "async_load") else async_copy.async_copy_global_to_shared


@gluon.jit
def keep_weights(
    first,
    stride,
    rotation,
    M: gl.constexpr,
    CHUNK: gl.constexpr,
    CHUNKS: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
    SHARED: gl.constexpr,
    OPERAND: gl.constexpr,
    COPY: gl.constexpr,
):
    """M rows of a matrix, chunk by chunk; each block begins at another chunk, so that not all read the same lines."""
    low: gl.constexpr = first.dtype.element_ty
    m_operand = gl.arange(0, M, gl.SliceLayout(1, OPERAND))
    k_operand = gl.arange(0, CHUNK, gl.SliceLayout(0, OPERAND))
    m_copy = gl.arange(0, M, gl.SliceLayout(1, COPY))
    k_copy = gl.arange(0, CHUNK, gl.SliceLayout(0, COPY))
    kept = ()
    for j in gl.static_range(CHUNKS):
        column = ((j + rotation) % CHUNKS) * CHUNK
        if j < IN_REGISTERS:
            kept = kept + (gl.load(first + m_operand[:, None] * stride + k_operand[None, :] + column),)
        else:
            kept = kept + (gl.allocate_shared_memory(low, [1, M, CHUNK], SHARED),)
            async_load(kept[j].index(0), first + m_copy[:, None] * stride + k_copy[None, :] + column)
    async_copy.commit_group()
    async_copy.wait_group(0)
    return kept


@gluon.jit
def make_buffers(like, ROWS: gl.constexpr, CHUNK: gl.constexpr, BUFFERS: gl.constexpr, SHARED: gl.constexpr):
    """One allocation for each: copies into parts of one allocation would wait for one another."""
    low: gl.constexpr = like.dtype.element_ty
    buffers = ()
    for _ in gl.static_range(BUFFERS):
        buffers = buffers + (gl.allocate_shared_memory(low, [1, ROWS, CHUNK], SHARED),)
    return buffers


@gluon.jit
def multiply(
    weights,
    buffers,
    source,
    rotation,
    none,
    M: gl.constexpr,
    ROWS: gl.constexpr,
    CHUNK: gl.constexpr,
    CHUNKS: gl.constexpr,
    BUFFERS: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
    MMA: gl.constexpr,
):
    """The M weight rows times the rows at `source` (pointers to the first chunk).

    `none` is always 0. As an index that the compiler does not know it keeps the descriptors of shared memory from being
    computed before the loop over time, where they would take all registers; `rotation` has it added for the same
    reason.
    """
    sums = gl.zeros([M, ROWS], gl.float32, MMA)
    for j in gl.static_range(BUFFERS):
        async_load(buffers[j].index(none), source + ((j + rotation) % CHUNKS) * CHUNK)
        async_copy.commit_group()
    for j in gl.static_range(CHUNKS):
        if j + BUFFERS <= CHUNKS:
            async_copy.wait_group(BUFFERS - 1)
        else:
            async_copy.wait_group(CHUNKS - 1 - j)
        column = buffers[j % BUFFERS].index(none).permute((1, 0))
        if j < IN_REGISTERS:
            sums = warpgroup_mma(weights[j], column, sums, is_async=True)
        else:
            sums = warpgroup_mma(weights[j].index(none), column, sums, is_async=True)
        if j + BUFFERS < CHUNKS:
            sums = warpgroup_mma_wait(0, deps=[sums])
            async_load(buffers[j % BUFFERS].index(none), source + ((j + BUFFERS + rotation) % CHUNKS) * CHUNK)
            async_copy.commit_group()
    return warpgroup_mma_wait(0, deps=[sums])


@gluon.jit
def four_blocks(sums, UNIT: gl.constexpr, OWN: gl.constexpr, ROWS: gl.constexpr):
    """[4 OWN, ROWS] as four of [OWN, ROWS]."""
    parts = gl.convert_layout(sums, UNIT).reshape([4, OWN, ROWS]).permute([1, 2, 0]).reshape([OWN, ROWS, 2, 2])
    even, odd = gl.split(parts)
    a0, a2 = gl.split(even)
    a1, a3 = gl.split(odd)
    return (
        gl.convert_layout(a0, UNIT),
        gl.convert_layout(a1, UNIT),
        gl.convert_layout(a2, UNIT),
        gl.convert_layout(a3, UNIT),
    )


@gluon.jit
def wide_forward(
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
    SLICES: gl.constexpr = K // OWN
    M: gl.constexpr = 4 * OWN
    CHUNKS: gl.constexpr = K // CHUNK
    EACH: gl.constexpr = ROWS * OWN // (32 * WARPS)
    UNIT: gl.constexpr = gl.BlockedLayout([EACH, 1], [OWN // EACH, 32 * EACH // OWN], [1, WARPS], [0, 1])
    TALL: gl.constexpr = M // 16 if M // 16 < WARPS else WARPS
    MMA: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[TALL, WARPS // TALL], instr_shape=[16, ROWS * TALL // WARPS, 16]
    )
    SHARED: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    COPY: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0])
    OPERAND: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
    MEMORY: gl.constexpr = FORM == "lstm" or FORM == "coupled"
    APART_OUTPUTS: gl.constexpr = MARKED

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    own_weights = keep_weights(
        weights + slice * (K * M), K, slice, M, CHUNK, CHUNKS, IN_REGISTERS, SHARED, OPERAND, COPY
    )
    buffers = make_buffers(states, ROWS, CHUNK, BUFFERS, SHARED)
    row_copy = gl.arange(0, ROWS, gl.SliceLayout(1, COPY))
    k_copy = gl.arange(0, CHUNK, gl.SliceLayout(0, COPY))
    gathered = states + (group * ROWS + row_copy)[:, None] * K + k_copy[None, :]

    unit = gl.arange(0, OWN, gl.SliceLayout(1, UNIT))
    row = group * ROWS + gl.arange(0, ROWS, gl.SliceLayout(0, UNIT))
    here = row[None, :] * K + slice * OWN + unit[:, None]
    blocks = row[None, :] * (4 * K) + slice * M + unit[:, None]
    marked = row[None, :] + gl.zeros([OWN, ROWS], gl.int32, UNIT)
    counter = counters + group * steps * APART

    c = gl.load(cells + here)
    h = c
    if MEMORY:
        if MARKED or HOLD_H:
            h = gl.load(states + here).to(gl.float32)
    p0 = 0.0
    p1 = 0.0
    p3 = 0.0
    if PEEPHOLE:
        own = slice * OWN + unit[:, None] + gl.zeros([OWN, ROWS], gl.int32, UNIT)
        p0 = gl.load(peepholes + own)
        p1 = gl.load(peepholes + K + own)
        p3 = gl.load(peepholes + 2 * K + own)
    x0, x1, x2, x3 = load_four(projected, blocks, OWN)
    mark = gl.zeros([OWN, ROWS], gl.int32, UNIT)
    if MARKED:
        mark = gl.load(marks + marked).to(gl.int32)
    for t in range(steps):
        later = gl.minimum(t + 1, steps - 1).to(gl.int64)
        y0, y1, y2, y3 = load_four(projected + later * (P * 4 * K), blocks, OWN)
        next_mark = mark
        if MARKED:
            next_mark = gl.load(marks + (t + 1) * P + marked).to(gl.int32)
        now = t.to(gl.int64) * (P * K)
        kept_h = share_kept(hold_h + now, here, share_h, c, HOLD_H)
        kept_c = share_kept(hold_c + now, here, share_c, c, HOLD_C)
        if t > 0:
            wait_for(counter + (t - 1) * APART, SLICES)
        sums = multiply(
            own_weights,
            buffers,
            gathered + now,
            slice + none * t,
            none * t,
            M,
            ROWS,
            CHUNK,
            CHUNKS,
            BUFFERS,
            IN_REGISTERS,
            MMA,
        )
        a0, a1, a2, a3 = four_blocks(sums, UNIT, OWN, ROWS)
        a0 += x0.to(gl.float32)
        a1 += x1.to(gl.float32)
        a2 += x2.to(gl.float32)
        a3 += x3.to(gl.float32)
        k0, k1, k2, k3, new_c, new_h = advance(a0, a1, a2, a3, c, p0, p1, p3, FORM, PEEPHOLE)
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
        if APART_OUTPUTS:
            gl.store(outputs + now + here, gl.where((mark & 1) != 0, y, gl.zeros_like(y)).to(low))
        if SAVE:
            store_four(projected + t.to(gl.int64) * (P * 4 * K), blocks, OWN, k0, k1, k2, k3)
            gl.store(cells + now + P * K + here, c)
        x0 = y0
        x1 = y1
        x2 = y2
        x3 = y3
        mark = next_mark
    gl.store(last_c + here, c)


@gluon.jit
def wide_backward(
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
    M: gl.constexpr = 4 * OWN
    TEAMS: gl.constexpr = K // M
    CHUNKS: gl.constexpr = K // CHUNK
    EACH: gl.constexpr = ROWS * OWN // (32 * WARPS)
    UNIT: gl.constexpr = gl.BlockedLayout([EACH, 1], [OWN // EACH, 32 * EACH // OWN], [1, WARPS], [0, 1])
    TALL: gl.constexpr = M // 16 if M // 16 < WARPS else WARPS
    MMA: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[TALL, WARPS // TALL], instr_shape=[16, ROWS * TALL // WARPS, 16]
    )
    SHARED: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    COPY: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0])
    OPERAND: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
    MEMORY: gl.constexpr = FORM == "lstm" or FORM == "coupled"

    group = gl.program_id(0) // (TEAMS * 4)
    team = gl.program_id(0) % (TEAMS * 4) // 4
    quarter = gl.program_id(0) % 4
    own_weights = keep_weights(
        turned + team * (M * 4 * K) + quarter * K, 4 * K, team, M, CHUNK, CHUNKS, IN_REGISTERS, SHARED, OPERAND, COPY
    )
    buffers = make_buffers(d_gates, ROWS, CHUNK, BUFFERS, SHARED)
    row_copy = gl.arange(0, ROWS, gl.SliceLayout(1, COPY))
    k_copy = gl.arange(0, CHUNK, gl.SliceLayout(0, COPY))
    gathered = d_gates + (group * ROWS + row_copy)[:, None] * (4 * K) + quarter * K + k_copy[None, :]

    of_own = gl.arange(0, OWN, gl.SliceLayout(1, UNIT))
    of_rows = gl.arange(0, ROWS, gl.SliceLayout(0, UNIT))
    unit = team * M + quarter * OWN + of_own
    row = group * ROWS + of_rows
    here = row[None, :] * K + unit[:, None]
    blocks = row[None, :] * (4 * K) + ((unit // FORWARD_OWN) * (4 * FORWARD_OWN) + unit % FORWARD_OWN)[:, None]
    d_blocks = row[None, :] * (4 * K) + unit[:, None]
    marked = row[None, :] + gl.zeros([OWN, ROWS], gl.int32, UNIT)
    of_m = gl.arange(0, M, gl.SliceLayout(1, MMA))
    of_n = gl.arange(0, ROWS, gl.SliceLayout(0, MMA))
    shared_sums = partial + (group * TEAMS + team) * (4 * M * ROWS)
    part_stored = quarter * (M * ROWS) + of_n[None, :] * M + of_m[:, None]
    part_loaded = of_rows[None, :] * M + (quarter * OWN + of_own)[:, None]
    counter = counters + group * steps * APART
    team_counter = counters + ((gl.num_programs(0) // (TEAMS * 4)) + group * TEAMS + team) * steps * APART

    zeros = gl.zeros([OWN, ROWS], gl.float32, UNIT)
    dc = zeros
    direct = zeros
    if CHARGED:
        dc = gl.load(d_last_c + here)
        if MEMORY:
            direct = gl.load(d_last_h + here)
    s0 = zeros
    s1 = zeros
    s2 = zeros
    s3 = zeros
    q0 = zeros
    q1 = zeros
    q3 = zeros
    own = unit[:, None] + gl.zeros([OWN, ROWS], gl.int32, UNIT)
    last = (steps - 1).to(gl.int64)
    k0, k1, k2, k3 = load_four(kept + last * (P * 4 * K), blocks, FORWARD_OWN)
    before = gl.load(cells + last * (P * K) + here)
    new_c = gl.load(cells + (last + 1) * (P * K) + here)
    dy = gl.load(d_outputs + last * (P * K) + here)
    mark = gl.zeros([OWN, ROWS], gl.int32, UNIT)
    if MARKED:
        mark = gl.load(marks + (steps - 1) * P + marked).to(gl.int32)
    for back in range(steps):
        t = steps - 1 - back
        earlier = gl.maximum(t - 1, 0)
        # a 0 that the compiler does not know: addresses are computed at every step and take no registers between
        fresh = none * t * 64
        e0, e1, e2, e3 = load_four(kept + earlier.to(gl.int64) * (P * 4 * K), blocks + fresh, FORWARD_OWN)
        earlier_c = gl.load(cells + earlier.to(gl.int64) * (P * K) + (here + fresh))
        earlier_dy = gl.load(d_outputs + earlier.to(gl.int64) * (P * K) + (here + fresh))
        earlier_mark = mark
        if MARKED:
            earlier_mark = gl.load(marks + earlier * P + marked).to(gl.int32)
        now = t.to(gl.int64) * (P * K)
        kept_h = share_kept(hold_h + now, here, share_h, dc, HOLD_H)
        kept_c = share_kept(hold_c + now, here, share_c, dc, HOLD_C)
        if back > 0:
            wait_for(counter + (t + 1) * APART, TEAMS * 4)
        sums = multiply(
            own_weights,
            buffers,
            gathered + (now + P * K) * 4,
            team + none * t,
            none * t,
            M,
            ROWS,
            CHUNK,
            CHUNKS,
            BUFFERS,
            IN_REGISTERS,
            MMA,
        )
        gl.store(shared_sums + (part_stored + fresh), sums)
        arrive(team_counter + t * APART)
        p0 = zeros
        p1 = zeros
        p3 = zeros
        if PEEPHOLE:
            # read again at every step, while the others arrive: there are no registers for them between
            p0 = gl.load(peepholes + (own + fresh))
            p1 = gl.load(peepholes + K + (own + fresh))
            p3 = gl.load(peepholes + 2 * K + (own + fresh))
        wait_for(team_counter + t * APART, 4)
        dh = direct
        for q in gl.static_range(4):
            dh += gl.load(shared_sums + q * (M * ROWS) + (part_loaded + fresh))
        if MARKED:
            # what came from the step after this one ends where that began anew
            begins = gl.load(marks + (t + 1) * P + marked).to(gl.int32)
            dh = restart(dh, begins, MARKED)
            dc = restart(dc, begins, MARKED)
            dh += gl.where((mark & 1) != 0, dy.to(gl.float32), zeros)
        else:
            dh += dy.to(gl.float32)
        if not MEMORY:
            dc += dh
            dh = zeros
        if MARKED or HOLD_C:
            if MEMORY:
                new_c = k1.to(gl.float32) * before + k0.to(gl.float32) * k2.to(gl.float32)
        dc, dc_old = unsettle(dc, kept_c, mark, MARKED, HOLD_C)
        dh, direct = unsettle(dh, kept_h, mark, MARKED, HOLD_H)
        d0, d1, d2, d3, dc = retreat(
            dh,
            dc,
            k0.to(gl.float32),
            k1.to(gl.float32),
            k2.to(gl.float32),
            k3.to(gl.float32),
            before,
            new_c,
            p0,
            p1,
            p3,
            FORM,
            PEEPHOLE,
        )
        dc += dc_old
        store_four(d_gates + now * 4, d_blocks + fresh, K, d0, d1, d2, d3)
        arrive(counter + t * APART)
        s0 += d0
        s1 += d1
        s2 += d2
        s3 += d3
        if PEEPHOLE:
            q0 += d0 * before
            q1 += d1 * before
            q3 += d3 * new_c
        new_c = before
        before = earlier_c
        k0 = e0
        k1 = e1
        k2 = e2
        k3 = e3
        dy = earlier_dy
        mark = earlier_mark
    if MARKED:
        begins = gl.load(marks + marked).to(gl.int32)
        dc = restart(dc, begins, MARKED)
        direct = restart(direct, begins, MARKED)
    gl.store(d_first_c + here, dc)
    gl.store(d_first_h + here, direct)
    store_four(d_biases, here, P * K, s0, s1, s2, s3)
    if PEEPHOLE:
        gl.store(d_peepholes + here, q0)
        gl.store(d_peepholes + P * K + here, q1)
        gl.store(d_peepholes + 2 * P * K + here, q3)
