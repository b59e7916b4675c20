"""The GRU that resets before its product: two products a step that wait for one another, and one beside them.

    r, z = sigmoid(W x + U h + b),   n = tanh(W_n x + b + U_n (r h) + b'),   h' from h, n and z

A block owns OWN units of a group of ROWS rows. Every warp multiplies a share of the columns by mma.sync, 16 rows at a
time. Weights are kept as the product's fragments, in registers, and some pieces in shared memory; h and r h come from
the second cache straight into fragments, AHEAD of them on their way. All blocks of a group meet twice a step, and
while they wait they multiply what nobody waits for.

    forward     U_r h   ->  r h  stored, meeting, meanwhile U_z h    ->  U_n (r h)  ->  h'  stored, meeting
    backward    dn, dz  stored, meeting  ->  d(r h) = U_n' dn,  dr  stored, meeting, meanwhile U_z' dz  ->  + U_r' dr

Shapes: T steps, P rows, K units (both filled up). `projected` = W x + b + b', later the kept r, z, n: [T, P, 3, K].
`weights` = U: [3, K, K]; `turned` = U': [K, 3, K]. `states`: [T + 1, P, K], what step t begins with; `cells`: the same
in float32. `resets` = r h: [T, P, K]. `d_gates`: [T + 1, P, 3, K], whose last step is 0. As in `recurrent` the state of
a cell without a memory cell goes by the names of c.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from thereafter.kernels.gpu.code.formulas import retreat_update, sigmoid, tanh, update
from thereafter.kernels.gpu.code.meeting import APART, arrive, wait_for
from thereafter.kernels.gpu.code.situations import (
    add_shown,
    load_mark,
    restart,
    settle,
    share_kept,
    store_shown,
    unsettle,
)

WARPS = gl.constexpr(8)
TILE = gl.constexpr(16)
"""Rows of one product of a warp."""
PIECE = gl.constexpr(64)
"""Columns of a piece: 8 for each of 4 threads, 16 bytes at once, twice over. What is left is a piece of 32 or 16."""
MMA = gl.constexpr(gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[8, 1, 1], instr_shape=[1, 16, 8]))
"""[WARPS, TILE, OWN]: every warp has a sum of its own."""


@gluon.constexpr_function
def unit_layout(own):
    """[ROWS, OWN], neighbouring units in one thread."""
    return gl.BlockedLayout([1, own // 16], [2, 16], [8, 1], [1, 0])


@gluon.jit
def right_piece(first, COLUMNS: gl.constexpr, OWN: gl.constexpr, SHARE: gl.constexpr, STRIDE: gl.constexpr):
    """OWN rows of a matrix and COLUMNS of each warp's share, as a right operand."""
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MMA, COLUMNS // 8)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, gl.SliceLayout(2, RIGHT)))
    n = gl.arange(0, OWN, gl.SliceLayout(0, gl.SliceLayout(1, RIGHT)))
    k = gl.arange(0, COLUMNS, gl.SliceLayout(0, gl.SliceLayout(2, RIGHT)))
    return gl.load(first + (warp[:, None] * SHARE + k[None, :])[:, :, None] + n[None, None, :] * STRIDE)


@gluon.jit
def keep_weights(first, OWN: gl.constexpr, SHARE: gl.constexpr, STRIDE: gl.constexpr, SHARED: gl.constexpr):
    """OWN rows in pieces, the first SHARED of them in shared memory."""
    # 32 columns, 64 bytes, stay together: 8 threads then read 128 bytes without a conflict
    ROOM: gl.constexpr = gl.SwizzledSharedLayout(vec=32, per_phase=1, max_phase=2, order=[1, 2, 0])
    low: gl.constexpr = first.dtype.element_ty
    kept = ()
    for j in gl.static_range(SHARE // PIECE):
        piece = right_piece(first + j * PIECE, PIECE, OWN, SHARE, STRIDE)
        if j < SHARED:
            kept = kept + (gl.allocate_shared_memory(low, [WARPS, PIECE, OWN], ROOM, piece),)
        else:
            kept = kept + (piece,)
    if SHARE % 64 >= 32:
        kept = kept + (right_piece(first + SHARE // 64 * 64, 32, OWN, SHARE, STRIDE),)
    if SHARE % 32 >= 16:
        kept = kept + (right_piece(first + SHARE // 32 * 32, 16, OWN, SHARE, STRIDE),)
    return kept


@gluon.jit
def left_piece(first, COLUMNS: gl.constexpr, SHARE: gl.constexpr, STRIDE: gl.constexpr):
    """TILE rows and COLUMNS of each warp's share, as a left operand."""
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MMA, COLUMNS // 8)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, gl.SliceLayout(2, LEFT)))
    row = gl.arange(0, TILE, gl.SliceLayout(0, gl.SliceLayout(2, LEFT)))
    k = gl.arange(0, COLUMNS, gl.SliceLayout(0, gl.SliceLayout(1, LEFT)))
    return gl.load(first + (warp[:, None] * SHARE + row[None, :] * STRIDE)[:, :, None] + k[None, None, :])


@gluon.jit
def left_of(source, ITEM: gl.constexpr, TILES: gl.constexpr, SHARE: gl.constexpr, STRIDE: gl.constexpr):
    """The operand of the ITEM-th product of `multiply`."""
    FULL: gl.constexpr = SHARE // PIECE
    first = source + ITEM % TILES * TILE * STRIDE
    if ITEM // TILES < FULL:
        return left_piece(first + ITEM // TILES * PIECE, PIECE, SHARE, STRIDE)
    elif ITEM // TILES == FULL and SHARE % 64 >= 32:
        return left_piece(first + SHARE // 64 * 64, 32, SHARE, STRIDE)
    else:
        return left_piece(first + SHARE // 32 * 32, 16, SHARE, STRIDE)


@gluon.jit
def make_rooms(ROWS: gl.constexpr, OWN: gl.constexpr):
    """Shared memory for the warps' sums, one allocation a tile: stores into parts of one would wait for another."""
    SUMS: gl.constexpr = gl.SwizzledSharedLayout(vec=8, per_phase=1, max_phase=OWN // 8, order=[1, 0])
    rooms = ()
    for _ in gl.static_range(ROWS // TILE):
        rooms = rooms + (gl.allocate_shared_memory(gl.float32, [WARPS * TILE, OWN], SUMS),)
    return rooms


@gluon.jit
def sum_of_tile(room, OWN: gl.constexpr, UNIT: gl.constexpr):
    """The sum over the warps, always in the same order: [TILE, OWN]."""
    total = room.slice(0, TILE, 0).load(UNIT)
    for warp in gl.static_range(1, WARPS):
        total += room.slice(warp * TILE, TILE, 0).load(UNIT)
    return total


@gluon.jit
def sum_of_warps(rooms, ROWS: gl.constexpr, OWN: gl.constexpr, UNIT: gl.constexpr):
    """The same for all rows: [ROWS, OWN]. A thread has the same place in every tile, so nothing moves."""
    first = sum_of_tile(rooms[0], OWN, UNIT)
    if ROWS == TILE:
        return first
    else:
        two = gl.join(first, sum_of_tile(rooms[1], OWN, UNIT))
        if ROWS == 2 * TILE:
            return gl.convert_layout(two.permute([2, 0, 1]).reshape([ROWS, OWN]), UNIT)
        else:
            four = gl.join(two, gl.join(sum_of_tile(rooms[2], OWN, UNIT), sum_of_tile(rooms[3], OWN, UNIT)))
            return gl.convert_layout(four.permute([3, 2, 0, 1]).reshape([ROWS, OWN]), UNIT)


@gluon.jit
def multiply(
    source,
    weights,
    rooms,
    ROWS: gl.constexpr,
    OWN: gl.constexpr,
    SHARE: gl.constexpr,
    STRIDE: gl.constexpr,
    SHARED: gl.constexpr,
    AHEAD: gl.constexpr,
):
    """ROWS rows at `source` times the transposed weights, [ROWS, OWN], through the rooms for every warp's own sum."""
    TILES: gl.constexpr = ROWS // TILE
    PIECES: gl.constexpr = len(weights)
    ITEMS: gl.constexpr = TILES * PIECES
    lefts = ()
    for item in gl.static_range(min(AHEAD, ITEMS)):
        lefts = lefts + (left_of(source, item, TILES, SHARE, STRIDE),)
    sums = ()
    for _ in gl.static_range(TILES):
        sums = sums + (gl.zeros([WARPS, TILE, OWN], gl.float32, MMA),)
    for j in gl.static_range(PIECES):
        if j < SHARED:
            right = weights[j].load(gl.DotOperandLayout(1, MMA, 8))
        else:
            right = weights[j]
        added = ()
        for i in gl.static_range(TILES):
            added = added + (mma_v2(lefts[j * TILES + i], right, sums[i]),)
            if j * TILES + i + AHEAD < ITEMS:
                lefts = lefts + (left_of(source, j * TILES + i + AHEAD, TILES, SHARE, STRIDE),)
        sums = added
    for i in gl.static_range(TILES):
        rooms[i].store(sums[i].reshape([WARPS * TILE, OWN]))
    return sum_of_warps(rooms, ROWS, OWN, unit_layout(OWN))


@gluon.jit
def before_forward(
    projected,
    weights,
    states,
    resets,
    outputs,
    cells,
    marks,
    hold_c,
    counters,
    steps,
    share_c,
    P: gl.constexpr,
    K: gl.constexpr,
    ROWS: gl.constexpr,
    OWN: gl.constexpr,
    AHEAD: gl.constexpr,
    SHARED_R: gl.constexpr,
    SHARED_Z: gl.constexpr,
    SHARED_N: gl.constexpr,
    FORM: gl.constexpr,
    MARKED: gl.constexpr,
    HOLD_C: gl.constexpr,
    SAVE: gl.constexpr,
):
    low: gl.constexpr = states.dtype.element_ty
    SLICES: gl.constexpr = K // OWN
    SHARE: gl.constexpr = K // WARPS
    UNIT: gl.constexpr = unit_layout(OWN)

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    own_weights = weights + slice * (OWN * K)
    u_r = keep_weights(own_weights, OWN, SHARE, K, SHARED_R)
    u_z = keep_weights(own_weights + K * K, OWN, SHARE, K, SHARED_Z)
    u_n = keep_weights(own_weights + 2 * K * K, OWN, SHARE, K, SHARED_N)
    rooms = make_rooms(ROWS, OWN)

    unit = slice * OWN + gl.arange(0, OWN, gl.SliceLayout(0, UNIT))
    row = group * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, UNIT)).to(gl.int64)
    here = row[:, None] * K + unit[None, :]
    gates = row[:, None] * (3 * K) + unit[None, :]
    marked = row[:, None] + gl.zeros([ROWS, OWN], gl.int64, UNIT)
    gathered = group * (ROWS * K)
    counter = counters + group * (2 * steps) * APART

    h = gl.load(cells + here)
    x_r = gl.load(projected + gates)
    x_z = gl.load(projected + gates + K)
    x_n = gl.load(projected + gates + 2 * K)
    mark = load_mark(marks, marked, gl.zeros([ROWS, OWN], gl.int32, UNIT), MARKED)
    for t in range(steps):
        now = t.to(gl.int64) * (P * K)
        later = gl.minimum(t + 1, steps - 1).to(gl.int64) * (P * K)
        if t > 0:
            wait_for(counter + (2 * t - 1) * APART, SLICES)
        product = multiply(states + now + gathered, u_r, rooms, ROWS, OWN, SHARE, K, SHARED_R, AHEAD)
        r = sigmoid(product + x_r.to(gl.float32))
        gl.store(resets + now + here, (r * h).to(low))
        arrive(counter + 2 * t * APART)
        # while the others come
        product = multiply(states + now + gathered, u_z, rooms, ROWS, OWN, SHARE, K, SHARED_Z, AHEAD)
        z = sigmoid(product + x_z.to(gl.float32))
        if SAVE:
            gl.store(projected + now * 3 + gates, r.to(low))
            gl.store(projected + now * 3 + gates + K, z.to(low))
        x_r = gl.load(projected + later * 3 + gates)
        x_z = gl.load(projected + later * 3 + gates + K)
        kept_c = share_kept(hold_c + now, here, share_c, h, HOLD_C)
        next_mark = load_mark(marks + (t + 1) * P, marked, mark, MARKED)
        wait_for(counter + 2 * t * APART, SLICES)
        product = multiply(resets + now + gathered, u_n, rooms, ROWS, OWN, SHARE, K, SHARED_N, AHEAD)
        n = tanh(product + x_n.to(gl.float32))
        y = settle(h, update(h, n, z, FORM), kept_c, mark, MARKED, HOLD_C)
        h = restart(y, next_mark, MARKED)
        gl.store(states + now + P * K + here, h.to(low))
        arrive(counter + (2 * t + 1) * APART)
        store_shown(outputs + now, here, y, mark, MARKED)
        if SAVE:
            gl.store(projected + now * 3 + gates + 2 * K, n.to(low))
            gl.store(cells + now + P * K + here, h)
        x_n = gl.load(projected + later * 3 + gates + 2 * K)
        mark = next_mark


@gluon.jit
def before_backward(
    kept,
    turned,
    d_outputs,
    d_gates,
    cells,
    d_last_c,
    d_first_c,
    d_biases,
    marks,
    hold_c,
    counters,
    steps,
    share_c,
    P: gl.constexpr,
    K: gl.constexpr,
    ROWS: gl.constexpr,
    OWN: gl.constexpr,
    AHEAD: gl.constexpr,
    SHARED_R: gl.constexpr,
    SHARED_Z: gl.constexpr,
    SHARED_N: gl.constexpr,
    FORM: gl.constexpr,
    MARKED: gl.constexpr,
    HOLD_C: gl.constexpr,
    CHARGED: gl.constexpr,
):
    low: gl.constexpr = d_gates.dtype.element_ty
    SLICES: gl.constexpr = K // OWN
    SHARE: gl.constexpr = K // WARPS
    UNIT: gl.constexpr = unit_layout(OWN)

    group = gl.program_id(0) // SLICES
    slice = gl.program_id(0) % SLICES
    own_weights = turned + slice * (OWN * 3 * K)
    u_r = keep_weights(own_weights, OWN, SHARE, 3 * K, SHARED_R)
    u_z = keep_weights(own_weights + K, OWN, SHARE, 3 * K, SHARED_Z)
    u_n = keep_weights(own_weights + 2 * K, OWN, SHARE, 3 * K, SHARED_N)
    rooms = make_rooms(ROWS, OWN)

    unit = slice * OWN + gl.arange(0, OWN, gl.SliceLayout(0, UNIT))
    row = group * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, UNIT)).to(gl.int64)
    here = row[:, None] * K + unit[None, :]
    gates = row[:, None] * (3 * K) + unit[None, :]
    marked = row[:, None] + gl.zeros([ROWS, OWN], gl.int64, UNIT)
    gathered = group * (ROWS * 3 * K)
    counter = counters + group * (2 * steps) * APART

    zeros = gl.zeros([ROWS, OWN], gl.float32, UNIT)
    direct = zeros
    if CHARGED:
        direct = gl.load(d_last_c + here)
    unmarked = gl.zeros([ROWS, OWN], gl.int32, UNIT)
    sum_r = zeros
    sum_z = zeros
    sum_n = zeros
    last = (steps - 1).to(gl.int64) * (P * K)
    z = gl.load(kept + last * 3 + gates + K)
    n = gl.load(kept + last * 3 + gates + 2 * K)
    h = gl.load(cells + last + here)
    dy = gl.load(d_outputs + last + here)
    for back in range(steps):
        t = steps - 1 - back
        now = t.to(gl.int64) * (P * K)
        earlier = gl.maximum(t - 1, 0).to(gl.int64) * (P * K)
        mark = load_mark(marks + t * P, marked, unmarked, MARKED)
        begins = load_mark(marks + (t + 1) * P, marked, unmarked, MARKED)
        kept_c = share_kept(hold_c + now, here, share_c, zeros, HOLD_C)
        if back > 0:
            wait_for(counter + (2 * t + 3) * APART, SLICES)
        # what came from the step after this one ends where that began anew
        product = multiply(d_gates + (now + P * K) * 3 + gathered, u_r, rooms, ROWS, OWN, SHARE, 3 * K, SHARED_R, AHEAD)
        dh = restart(direct + product, begins, MARKED)
        dh = add_shown(dh, dy, mark, MARKED)
        dh, direct = unsettle(dh, kept_c, mark, MARKED, HOLD_C)
        dz, dn, past = retreat_update(dh, h, n.to(gl.float32), z.to(gl.float32), FORM)
        direct += past
        gl.store(d_gates + now * 3 + gates + K, dz.to(low))
        gl.store(d_gates + now * 3 + gates + 2 * K, dn.to(low))
        arrive(counter + 2 * t * APART)
        sum_z += dz
        sum_n += dn
        r = gl.load(kept + now * 3 + gates).to(gl.float32)
        z = gl.load(kept + earlier * 3 + gates + K)
        n = gl.load(kept + earlier * 3 + gates + 2 * K)
        dy = gl.load(d_outputs + earlier + here)
        wait_for(counter + 2 * t * APART, SLICES)
        d_reset = multiply(d_gates + now * 3 + 2 * K + gathered, u_n, rooms, ROWS, OWN, SHARE, 3 * K, SHARED_N, AHEAD)
        dr = d_reset * h * r * (1.0 - r)
        gl.store(d_gates + now * 3 + gates, dr.to(low))
        arrive(counter + (2 * t + 1) * APART)
        # while the others come
        product = multiply(d_gates + now * 3 + K + gathered, u_z, rooms, ROWS, OWN, SHARE, 3 * K, SHARED_Z, AHEAD)
        direct += d_reset * r + product
        sum_r += dr
        h = gl.load(cells + earlier + here)
    gl.store(d_first_c + here, restart(direct, load_mark(marks, marked, unmarked, MARKED), MARKED))
    gl.store(d_biases + here, sum_r)
    gl.store(d_biases + P * K + here, sum_z)
    gl.store(d_biases + 2 * P * K + here, sum_n)
