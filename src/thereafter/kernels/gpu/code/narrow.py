"""The products of a step where units are fewer, 16 rows at a time: every warp multiplies a share of the columns, by
mma.sync.

Weights stay in registers as the product's fragments, h comes from the second cache straight into fragments: no shared
memory but for the sum over the warps. A block owns OWN units of a group of 16 rows. Forward, a row of h has K columns;
backward, a row of all gates' gradients has 4 K.

    forward     a[16, 4 OWN] = sum over warps w of h[rows, share w] W[own gates, share w]'
    backward    dh[16, OWN]  = sum over warps w of dgates[rows, share w] W[share w, own units]
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

ROWS = gl.constexpr(16)
PIECE = gl.constexpr(64)
"""Columns of a fragment: 8 for each of 4 threads, 16 bytes at once, twice over."""


@gluon.constexpr_function
def unit_layout(own, warps):
    """[ROWS, OWN], neighbouring units in one thread."""
    return gl.BlockedLayout([1, 2], [32 // (own // 2), own // 2], [warps, 1], [1, 0])


@gluon.constexpr_function
def product_layout(warps):
    """[WARPS, ROWS, N]."""
    return gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[warps, 1, 1], instr_shape=[1, 16, 8])


@gluon.jit
def keep_fragments(first, stride, SHARE: gl.constexpr, N: gl.constexpr, MMA: gl.constexpr, WARPS: gl.constexpr):
    """N rows of a matrix as right operands: warp w has the columns from w SHARE on."""
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MMA, 8)
    warp = gl.arange(0, WARPS, gl.SliceLayout(1, gl.SliceLayout(2, RIGHT)))
    n = gl.arange(0, N, gl.SliceLayout(0, gl.SliceLayout(1, RIGHT)))
    k = gl.arange(0, PIECE, gl.SliceLayout(0, gl.SliceLayout(2, RIGHT)))
    columns = (warp[:, None] * SHARE + k[None, :])[:, :, None]
    kept = ()
    for j in gl.static_range(SHARE // PIECE):
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
def make_room(N: gl.constexpr, PHASES: gl.constexpr, WARPS: gl.constexpr):
    """Shared memory for the warps' sums."""
    SUMS: gl.constexpr = gl.SwizzledSharedLayout(vec=8, per_phase=1, max_phase=PHASES, order=[1, 0])
    return gl.allocate_shared_memory(gl.float32, [WARPS * ROWS, N], SUMS)


@gluon.jit
def multiply_shares(source, offsets, weights, room, N: gl.constexpr, MMA: gl.constexpr, WARPS: gl.constexpr):
    """Every warp's own sum into the room: [WARPS, ROWS, N]. All loads are on their way before the first product."""
    PIECES: gl.constexpr = len(weights)
    pieces = ()
    for j in gl.static_range(PIECES):
        pieces = pieces + (gl.load(source + offsets + j * PIECE),)
    sums = gl.zeros([WARPS, ROWS, N], gl.float32, MMA)
    for j in gl.static_range(PIECES):
        sums = mma_v2(pieces[j], weights[j], sums)
    room.store(sums.reshape([WARPS * ROWS, N]))


@gluon.jit
def add_shares(a, room, OWN: gl.constexpr, UNIT: gl.constexpr, WARPS: gl.constexpr):
    """The sums of all warps in the room, [WARPS ROWS, 4 OWN], added to four blocks."""
    for warp in gl.static_range(WARPS):
        part = room.slice(warp * ROWS, ROWS, 0)
        a = (
            a[0] + part.slice(0, OWN, 1).load(UNIT),
            a[1] + part.slice(OWN, OWN, 1).load(UNIT),
            a[2] + part.slice(2 * OWN, OWN, 1).load(UNIT),
            a[3] + part.slice(3 * OWN, OWN, 1).load(UNIT),
        )
    return a
