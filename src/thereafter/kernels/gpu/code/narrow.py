"""Layers of fewer units, 16 rows at a time: every warp multiplies a share of the columns, by mma.sync.

Weights stay in registers as the product's fragments, h comes from the second cache straight into fragments: no shared
memory but for the sum over the warps. A block owns OWN units of a group of 16 rows. Forward, a row of h has K columns;
backward, a row of all gates' gradients has 4 K.

    forward     a[16, 4 OWN] = sum over warps w of h[rows, share w] W[own gates, share w]'
    backward    dh[16, OWN]  = sum over warps w of dgates[rows, share w] W[share w, own units]

Shapes and arguments: see wide.py.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from thereafter.kernels.gpu.code.formulas import advance, retreat
from thereafter.kernels.gpu.code.meeting import APART, arrive, each_waits_for
from thereafter.kernels.gpu.code.situations import load_four, restart, settle, share_kept, store_four, unsettle

ROWS = gl.constexpr(16)
PIECE = gl.constexpr(64)
"""Columns of a fragment: 8 for each of 4 threads, 16 bytes at once, twice over."""


@gluon.jit
def keep_fragments(
    first, stride, SHARE: gl.constexpr, N: gl.constexpr, PIECES: gl.constexpr, MMA: gl.constexpr, WARPS: gl.constexpr
):
    """N rows of a matrix as right operands: warp w has the columns from w SHARE on."""
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MMA, 8)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, gl.SliceLayout(2, RIGHT)))
    n = gl.arange(0, N, gl.SliceLayout(0, gl.SliceLayout(1, RIGHT)))
    k = gl.arange(0, PIECE, gl.SliceLayout(0, gl.SliceLayout(2, RIGHT)))
    columns = (warp[:, None] * SHARE + k[None, :])[:, :, None]
    kept = ()
    for j in gl.static_range(PIECES):
        kept = kept + (gl.load(first + n[None, None, :] * stride + columns + j * PIECE),)
    return kept


@gluon.jit
def gather_offsets(group, stride, SHARE: gl.constexpr, MMA: gl.constexpr, WARPS: gl.constexpr):
    """Where the left operands of a group's rows begin."""
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MMA, 8)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, gl.SliceLayout(2, LEFT)))
    row = group * ROWS + gl.arange(0, ROWS, gl.SliceLayout(0, gl.SliceLayout(2, LEFT)))
    k = gl.arange(0, PIECE, gl.SliceLayout(0, gl.SliceLayout(1, LEFT)))
    return (warp[:, None] * SHARE + row[None, :] * stride)[:, :, None] + k[None, None, :]


@gluon.jit
def multiply_shares(
    source, offsets, weights, N: gl.constexpr, PIECES: gl.constexpr, MMA: gl.constexpr, WARPS: gl.constexpr
):
    """Every warp's own sum: [WARPS, ROWS, N]. All loads are on their way before the first product."""
    pieces = ()
    for j in gl.static_range(PIECES):
        pieces = pieces + (gl.load(source + offsets + j * PIECE),)
    sums = gl.zeros([WARPS, ROWS, N], gl.float32, MMA)
    for j in gl.static_range(PIECES):
        sums = mma_v2(pieces[j], weights[j], sums)
    return sums


@gluon.jit
def narrow_forward(
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
    share_h,
    share_c,
    P: gl.constexpr,
    K: gl.constexpr,
    OWN: gl.constexpr,
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
    N: gl.constexpr = 4 * OWN
    SHARE: gl.constexpr = K // WARPS
    PIECES: gl.constexpr = SHARE // PIECE
    MMA: gl.constexpr = gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[WARPS, 1, 1], instr_shape=[1, 16, 8])
    SUMS: gl.constexpr = gl.SwizzledSharedLayout(vec=8, per_phase=1, max_phase=4, order=[1, 0])
    UNIT: gl.constexpr = gl.BlockedLayout([1, 2], [32 // (OWN // 2), OWN // 2], [WARPS, 1], [1, 0])
    MEMORY: gl.constexpr = FORM == "lstm" or FORM == "coupled"

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    own_weights = keep_fragments(weights + slice * (K * N), K, SHARE, N, PIECES, MMA, WARPS)
    gathered = gather_offsets(group, K, SHARE, MMA, WARPS)
    shared_sums = gl.allocate_shared_memory(gl.float32, [WARPS * ROWS, N], SUMS)

    unit = gl.arange(0, OWN, gl.SliceLayout(0, UNIT))
    row = group * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, UNIT))
    here = row[:, None] * K + slice * OWN + unit[None, :]
    blocks = row[:, None] * (4 * K) + slice * N + unit[None, :]
    marked = row[:, None] + gl.zeros([ROWS, OWN], gl.int32, UNIT)
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
        own = slice * OWN + unit[None, :] + gl.zeros([ROWS, OWN], gl.int32, UNIT)
        p0 = gl.load(peepholes + own)
        p1 = gl.load(peepholes + K + own)
        p3 = gl.load(peepholes + 2 * K + own)
    x0, x1, x2, x3 = load_four(projected, blocks, OWN)
    mark = gl.zeros([ROWS, OWN], gl.int32, UNIT)
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
            each_waits_for(counter + (t - 1) * APART, SLICES)
        sums = multiply_shares(states + now, gathered, own_weights, N, PIECES, MMA, WARPS)
        shared_sums.store(sums.reshape([WARPS * ROWS, N]))
        a0 = x0.to(gl.float32)
        a1 = x1.to(gl.float32)
        a2 = x2.to(gl.float32)
        a3 = x3.to(gl.float32)
        for warp in gl.static_range(WARPS):
            part = shared_sums.slice(warp * ROWS, ROWS, 0)
            a0 += part.slice(0, OWN, 1).load(UNIT)
            a1 += part.slice(OWN, OWN, 1).load(UNIT)
            a2 += part.slice(2 * OWN, OWN, 1).load(UNIT)
            a3 += part.slice(3 * OWN, OWN, 1).load(UNIT)
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
        if MARKED:
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
def narrow_backward(
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
    counters,
    steps,
    share_h,
    share_c,
    P: gl.constexpr,
    K: gl.constexpr,
    OWN: gl.constexpr,
    FORWARD_OWN: gl.constexpr,
    FORM: gl.constexpr,
    PEEPHOLE: gl.constexpr,
    MARKED: gl.constexpr,
    HOLD_H: gl.constexpr,
    HOLD_C: gl.constexpr,
    CHARGED: gl.constexpr,
    WARPS: gl.constexpr,
):
    SLICES: gl.constexpr = K // OWN
    SHARE: gl.constexpr = 4 * K // WARPS
    PIECES: gl.constexpr = SHARE // PIECE
    MMA: gl.constexpr = gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[WARPS, 1, 1], instr_shape=[1, 16, 8])
    SUMS: gl.constexpr = gl.SwizzledSharedLayout(vec=8, per_phase=1, max_phase=2, order=[1, 0])
    UNIT: gl.constexpr = gl.BlockedLayout([1, 2], [32 // (OWN // 2), OWN // 2], [WARPS, 1], [1, 0])
    MEMORY: gl.constexpr = FORM == "lstm" or FORM == "coupled"

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    own_weights = keep_fragments(turned + slice * (OWN * 4 * K), 4 * K, SHARE, OWN, PIECES, MMA, WARPS)
    gathered = gather_offsets(group, 4 * K, SHARE, MMA, WARPS)
    shared_sums = gl.allocate_shared_memory(gl.float32, [WARPS * ROWS, OWN], SUMS)

    unit = slice * OWN + gl.arange(0, OWN, gl.SliceLayout(0, UNIT))
    row = group * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, UNIT))
    here = row[:, None] * K + unit[None, :]
    blocks = row[:, None] * (4 * K) + ((unit // FORWARD_OWN) * (4 * FORWARD_OWN) + unit % FORWARD_OWN)[None, :]
    d_blocks = row[:, None] * (4 * K) + unit[None, :]
    marked = row[:, None] + gl.zeros([ROWS, OWN], gl.int32, UNIT)
    counter = counters + group * steps * APART

    zeros = gl.zeros([ROWS, OWN], gl.float32, UNIT)
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
    p0 = 0.0
    p1 = 0.0
    p3 = 0.0
    q0 = zeros
    q1 = zeros
    q3 = zeros
    if PEEPHOLE:
        own = unit[None, :] + gl.zeros([ROWS, OWN], gl.int32, UNIT)
        p0 = gl.load(peepholes + own)
        p1 = gl.load(peepholes + K + own)
        p3 = gl.load(peepholes + 2 * K + own)
    last = (steps - 1).to(gl.int64)
    k0, k1, k2, k3 = load_four(kept + last * (P * 4 * K), blocks, FORWARD_OWN)
    before = gl.load(cells + last * (P * K) + here)
    new_c = gl.load(cells + (last + 1) * (P * K) + here)
    dy = gl.load(d_outputs + last * (P * K) + here)
    mark = gl.zeros([ROWS, OWN], gl.int32, UNIT)
    if MARKED:
        mark = gl.load(marks + (steps - 1) * P + marked).to(gl.int32)
    for back in range(steps):
        t = steps - 1 - back
        earlier = gl.maximum(t - 1, 0)
        e0, e1, e2, e3 = load_four(kept + earlier.to(gl.int64) * (P * 4 * K), blocks, FORWARD_OWN)
        earlier_c = gl.load(cells + earlier.to(gl.int64) * (P * K) + here)
        earlier_dy = gl.load(d_outputs + earlier.to(gl.int64) * (P * K) + here)
        earlier_mark = mark
        if MARKED:
            earlier_mark = gl.load(marks + earlier * P + marked).to(gl.int32)
        now = t.to(gl.int64) * (P * K)
        kept_h = share_kept(hold_h + now, here, share_h, dc, HOLD_H)
        kept_c = share_kept(hold_c + now, here, share_c, dc, HOLD_C)
        if back > 0:
            each_waits_for(counter + (t + 1) * APART, SLICES)
        sums = multiply_shares(d_gates + (now + P * K) * 4, gathered, own_weights, OWN, PIECES, MMA, WARPS)
        shared_sums.store(sums.reshape([WARPS * ROWS, OWN]))
        dh = direct
        for warp in gl.static_range(WARPS):
            dh += shared_sums.slice(warp * ROWS, ROWS, 0).load(UNIT)
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
        store_four(d_gates + now * 4, d_blocks, K, d0, d1, d2, d3)
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
