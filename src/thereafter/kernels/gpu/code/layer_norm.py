"""What `recurrent` does for a layer-norm LSTM alone: sums over all units of a row, twice a step in each direction.

    forward     n = (U h - mean) / sd over all gates;    a = z + gain n;   i, f, g, o, c' of a
                m = (c' - mean) / sd over all units;     h' = o tanh(gain_c m + shift_c)
    backward    e = gain_c dm;    dc' = (e - mean(e) - m mean(e m)) / sd;   da of the gates, which is dz
                e = gain da;      d(U h) = (e - mean(e) - n mean(e n)) / sd

z = W x, normalised, with both biases, comes from outside. A block has the sums of its own units alone. It stores two
numbers for each of its rows and reads those of all blocks of its group. Nobody counts arrivals for that: a place that
has not been written holds EMPTY, bits that no sum has, and readers look again until none is left. So it takes one way
through the second cache where a counter and a load take two. Sums are added in one order. A warp has some rows and all
its lanes share the slices, so a block's warps do not wait for one another either.

Shapes: as in `recurrent`. `norms`: [6, K], the gains of the four gates, then gain and shift of c'. `exchange`: for
every step, group and the two sums of a step [rows / rows of a warp, 2, slices, rows of a warp]. Units and gates that
were filled up have gains of 0: they add nothing to any sum.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

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
def share_sums(mine, first, second, SLICES: gl.constexpr, WARPS: gl.constexpr):
    """This block's sums over its units of two arrays [OWN, ROWS], for all blocks to read; `mine`: its places [ROWS]."""
    text: gl.constexpr = storing(4 * SLICES * (first.shape[1] // WARPS))
    sums = [mine.to(gl.int64), gl.sum(first, 0), gl.sum(second, 0)]
    gl.inline_asm_elementwise(text, "=r,l,f,f", sums, dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def all_sums(everybody, last, SLICES: gl.constexpr, UNIT: gl.constexpr):
    """The sums of all blocks, as soon as they are there: two of [1, ROWS]. `everybody`: places [LANES, ROWS]."""
    LANES: gl.constexpr = everybody.shape[0]
    text: gl.constexpr = reading(4 * SLICES * (32 // LANES), (SLICES + LANES - 1) // LANES, SLICES % LANES != 0)
    places = [everybody.to(gl.int64), last]
    both: gl.constexpr = (gl.float32, gl.float32)
    first, second = gl.inline_asm_elementwise(text, "=f,=f,l,r", places, dtype=both, is_pure=False, pack=1)
    ROW: gl.constexpr = gl.SliceLayout(0, UNIT)
    return gl.convert_layout(gl.sum(first, 0), ROW)[None, :], gl.convert_layout(gl.sum(second, 0), ROW)[None, :]


@gluon.jit
def places_of_sums(of_rows, slice, SLICES: gl.constexpr, WARPS: gl.constexpr):
    """Where a block stores its sums [ROWS], where the lanes begin to read those of all blocks, and which of them read a
    last one: [LANES, ROWS]."""
    ROWS: gl.constexpr = of_rows.shape[0]
    OF_WARP: gl.constexpr = ROWS // WARPS
    LANES: gl.constexpr = 32 // OF_WARP
    SUMS: gl.constexpr = gl.BlockedLayout([1, 1], [LANES, OF_WARP], [1, WARPS], [0, 1])
    of_sums = gl.arange(0, ROWS, gl.SliceLayout(0, SUMS))[None, :]
    of_lanes = gl.arange(0, LANES, gl.SliceLayout(1, SUMS))[:, None]
    everybody = (of_sums // OF_WARP) * (2 * SLICES * OF_WARP) + of_lanes * OF_WARP + of_sums % OF_WARP
    last = (of_lanes + (SLICES - 1) // LANES * LANES < SLICES).to(gl.int32) + 0 * of_sums
    return (of_rows // OF_WARP) * (2 * SLICES * OF_WARP) + slice * OF_WARP + of_rows % OF_WARP, everybody, last


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
def normalised(a, total, squares, share, eps):
    """Four blocks less their mean by their sd, from sums over 1 / share numbers; and 1 / sd."""
    mean, scale = moments(total, squares, share, eps)
    return (
        (a[0] - mean) * scale,
        (a[1] - mean) * scale,
        (a[2] - mean) * scale,
        (a[3] - mean) * scale,
    ), scale


@gluon.jit
def through_norm(e, n, scale, first, second):
    """The gradient of four blocks from that of what `normalised` made of them, and means over all of them."""
    return (
        scale * (e[0] - first - n[0] * second),
        scale * (e[1] - first - n[1] * second),
        scale * (e[2] - first - n[2] * second),
        scale * (e[3] - first - n[3] * second),
    )
