"""What changes a state beyond its formula: rows that have ended, rows that begin anew, and zoneout.

`marks` has a byte for every step and row, and one step more: bit 0 says that the row is live at that step, bit 1 that
its state is 0 before it. `HOLD_H`, `HOLD_C`: what share of the old value is kept: 0 none, 1 one number for all
(`share_h`, `share_c`), 2 a number for every step, row and unit (`hold_h`, `hold_c`).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

LIVE = gl.constexpr(1)
RESET = gl.constexpr(2)


@gluon.jit
def share_kept(array, offsets, share, like, HOLD: gl.constexpr):
    """The share of the old value that is kept, in the shape of `like`."""
    if HOLD == 2:
        return gl.load(array + offsets).to(gl.float32)
    else:
        return gl.zeros_like(like) + share


@gluon.jit
def settle(old, new, share, mark, MARKED: gl.constexpr, HOLD: gl.constexpr):
    """The state after a step: share old + (1 - share) new in live rows, the old one in others."""
    if HOLD:
        new = share * old + (1.0 - share) * new
    if MARKED:
        new = gl.where((mark & LIVE) != 0, new, old)
    return new


@gluon.jit
def unsettle(d, share, mark, MARKED: gl.constexpr, HOLD: gl.constexpr):
    """The gradient of a state after a step, shared by what the formula made and by the old state."""
    none = gl.zeros_like(d)
    d_old = none
    d_new = d
    if HOLD:
        d_old = share * d
        d_new = d - d_old
    if MARKED:
        live = (mark & LIVE) != 0
        d_old = gl.where(live, d_old, d)
        d_new = gl.where(live, d_new, none)
    return d_new, d_old


@gluon.jit
def restart(x, mark, MARKED: gl.constexpr):
    """0 in rows that begin anew."""
    if MARKED:
        x = gl.where((mark & RESET) != 0, gl.zeros_like(x), x)
    return x


@gluon.jit
def load_mark(marks, offsets, none, MARKED: gl.constexpr):
    """The marks of a step's rows; `none` where nothing is marked."""
    if MARKED:
        return gl.load(marks + offsets).to(gl.int32)
    else:
        return none


@gluon.jit
def store_shown(outputs, offsets, y, mark, MARKED: gl.constexpr):
    """The output of a step where it is not the state: 0 in rows that have ended."""
    if MARKED:
        shown = gl.where((mark & LIVE) != 0, y, gl.zeros_like(y))
        gl.store(outputs + offsets, shown.to(outputs.dtype.element_ty))


@gluon.jit
def add_shown(dh, dy, mark, MARKED: gl.constexpr):
    """The gradient of h and that of the output, which had no h in rows that have ended."""
    if MARKED:
        dh += gl.where((mark & LIVE) != 0, dy.to(gl.float32), gl.zeros_like(dh))
    else:
        dh += dy.to(gl.float32)
    return dh


@gluon.jit
def load_four(array, offsets, APART: gl.constexpr):
    """The four blocks of a step."""
    a0 = gl.load(array + offsets)
    a1 = gl.load(array + offsets + APART)
    a2 = gl.load(array + offsets + 2 * APART)
    a3 = gl.load(array + offsets + 3 * APART)
    return a0, a1, a2, a3


@gluon.jit
def store_four(array, offsets, APART: gl.constexpr, a):
    """The four blocks of a step, rounded to the array's type."""
    low: gl.constexpr = array.dtype.element_ty
    gl.store(array + offsets, a[0].to(low))
    gl.store(array + offsets + APART, a[1].to(low))
    gl.store(array + offsets + 2 * APART, a[2].to(low))
    gl.store(array + offsets + 3 * APART, a[3].to(low))


@gluon.jit
def in_float32(a):
    """Four blocks."""
    return a[0].to(gl.float32), a[1].to(gl.float32), a[2].to(gl.float32), a[3].to(gl.float32)


@gluon.jit
def add_four(a, b):
    """Four blocks and four more."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


@gluon.jit
def load_peepholes(peepholes, own, K: gl.constexpr):
    """Those of input, forget and output."""
    return gl.load(peepholes + own), gl.load(peepholes + K + own), gl.load(peepholes + 2 * K + own)
