"""The products of a step where units are many: gates are the rows of a product by a warpgroup (wgmma), the batch its
columns.

A block owns OWN units, that is 4 OWN rows of the recurrent matrix, for a group of ROWS rows of the batch. Its weights
are read once: the first IN_REGISTERS chunks of CHUNK columns stay in registers, the others in shared memory. At each
step it waits until all blocks of its group have stored their units' h, copies all of h into shared memory, as many
chunks on their way at once as there are buffers, and multiplies.

    forward     acc[4 OWN, ROWS] = W[own gates, :] h[:, rows]

Backward, the product dh = W' dgates would read 4 K numbers a row. It is shared by four blocks, one for each gate:
block q multiplies the q-th quarter for 4 OWN units, the four exchange partial sums, and each goes on with OWN of them.

    backward    partial_q[4 OWN, ROWS] = W'[4 OWN units, gate q] dgates_q[:, rows];  dh[own] = sum over q partial_q[own]
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

# its name up to Triton 3.7
async_load = async_copy.async_load if hasattr(async_copy, "async_load") else async_copy.async_copy_global_to_shared

SHARED = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2))


@gluon.constexpr_function
def unit_layout(rows, own, warps):
    """[OWN, ROWS], neighbouring units in one thread."""
    each = rows * own // (32 * warps)
    return gl.BlockedLayout([each, 1], [own // each, 32 * each // own], [1, warps], [0, 1])


@gluon.constexpr_function
def product_layout(rows, own, warps):
    """[4 OWN, ROWS]."""
    tall = min(4 * own // 16, warps)
    return gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[tall, warps // tall], instr_shape=[16, rows * tall // warps, 16]
    )


@gluon.constexpr_function
def copy_layout(warps):
    """[rows, CHUNK] on its way into shared memory."""
    return gl.BlockedLayout([1, 8], [4, 8], [warps, 1], [1, 0])


@gluon.jit
def keep_weights(
    first,
    stride,
    rotation,
    M: gl.constexpr,
    CHUNK: gl.constexpr,
    CHUNKS: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
    MMA: gl.constexpr,
    WARPS: gl.constexpr,
):
    """M rows of a matrix, chunk by chunk; each block begins at another chunk, so that not all read the same lines."""
    low: gl.constexpr = first.dtype.element_ty
    COPY: gl.constexpr = copy_layout(WARPS)
    OPERAND: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
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
def make_buffers(like, ROWS: gl.constexpr, CHUNK: gl.constexpr, BUFFERS: gl.constexpr):
    """One allocation for each: copies into parts of one allocation would wait for one another."""
    low: gl.constexpr = like.dtype.element_ty
    buffers = ()
    for _ in gl.static_range(BUFFERS):
        buffers = buffers + (gl.allocate_shared_memory(low, [1, ROWS, CHUNK], SHARED),)
    return buffers


@gluon.jit
def gather(source, stride, group, column, ROWS: gl.constexpr, CHUNK: gl.constexpr, WARPS: gl.constexpr):
    """Pointers to a chunk of a group's rows, which begins at a column."""
    COPY: gl.constexpr = copy_layout(WARPS)
    row_copy = gl.arange(0, ROWS, gl.SliceLayout(1, COPY))
    k_copy = gl.arange(0, CHUNK, gl.SliceLayout(0, COPY))
    return source + (group * ROWS + row_copy)[:, None] * stride + column + k_copy[None, :]


@gluon.jit
def multiply(weights, buffers, source, rotation, none, M: gl.constexpr, IN_REGISTERS: gl.constexpr, MMA: gl.constexpr):
    """The M weight rows times the rows at `source` (pointers to the first chunk).

    `none` is always 0. As an index that the compiler does not know it keeps the descriptors of shared memory from being
    computed before the loop over time, where they would take all registers; `rotation` has it added for the same
    reason.
    """
    CHUNKS: gl.constexpr = len(weights)
    BUFFERS: gl.constexpr = len(buffers)
    ROWS: gl.constexpr = buffers[0].shape[1]
    CHUNK: gl.constexpr = buffers[0].shape[2]
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
