"""Blocks of one launch that wait for one another: a counter for every step.

A block that has stored its share of a step adds 1 to the step's counter, after all its stores (release). A block that
needs everybody's share looks at the counter until all have come (acquire). There is a counter for every step, so that
none is ever used again within a launch; they lie 32 bytes apart. About 0.9 us a step on an H200, for 16 to 132 blocks.

This only ends where all blocks are on the GPU at the same time: the launch is cooperative and refused otherwise.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

APART = gl.constexpr(8)
"""Counters of 4 bytes from one step's to the next."""

barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier  # its name up to Triton 3.6


@gluon.constexpr_function
def looking(alone):
    """Until so many blocks have arrived; `alone`: the first thread looks, and no other."""
    others_leave = "mov.u32 thread, %tid.x; setp.ne.u32 other, thread, 0; @other bra DONE;" if alone else ""
    return f"""
        {{
        .reg .pred fewer, other;
        .reg .u32 seen, thread;
        {others_leave}
        LOOK:
        ld.acquire.gpu.global.u32 seen, [$1];
        setp.lt.u32 fewer, seen, $2;
        @fewer bra LOOK;
        DONE:
        mov.u32 $0, 0;
        }}
        """


@gluon.jit
def look(counter, blocks, ALONE: gl.constexpr):
    text: gl.constexpr = looking(ALONE)
    places = [counter.to(gl.int64), blocks]
    gl.inline_asm_elementwise(text, "=r,l,r", places, dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def wait_for(counter, blocks):
    """Until so many blocks have arrived: the first thread looks, the others of its block wait for it."""
    look(counter, blocks, True)
    barrier()


@gluon.jit
def each_waits_for(counter, blocks):
    """The same, but that every thread looks for itself: where no shared memory is written before the next meeting of
    the block's own threads, nobody has to wait for the one that looked."""
    look(counter, blocks, False)


@gluon.jit
def arrive(counter):
    """All stores of this block are done: say so."""
    barrier()
    gl.inline_asm_elementwise(
        """
        {
        .reg .pred first;
        .reg .u32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 first, thread, 0;
        @first red.release.gpu.global.add.u32 [$1], 1;
        mov.u32 $0, 0;
        }
        """,
        "=r,l",
        [counter.to(gl.int64)],
        dtype=gl.int32,
        is_pure=False,
        pack=1,
    )
