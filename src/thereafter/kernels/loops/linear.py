"""h_t = a_t h_{t-1} + b_t step by step: on a CPU one pass over memory is faster than the parallel form. [T, B, H]."""

from __future__ import annotations

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import Floats
from thereafter.kernels.loops.formulas import FAST


@jit(**FAST)
def linear_forward(a: Floats, b: Floats, h: Floats) -> None:
    """Fill h[1:] from h[0]."""
    for t in range(a.shape[0]):
        for row in range(a.shape[1]):
            a_row, b_row, old, new = a[t, row], b[t, row], h[t, row], h[t + 1, row]
            for j in range(len(new)):
                new[j] = a_row[j] * old[j] + b_row[j]


@jit(**FAST)
def linear_backward(a: Floats, h: Floats, dy: Floats, da: Floats, db: Floats, dh: Floats) -> None:
    """da, db [T, B, H] and dh [B, H], the gradient of the initial state, which starts as 0."""
    for t in range(a.shape[0] - 1, -1, -1):
        for row in range(a.shape[1]):
            a_row, old, d, back = a[t, row], h[t, row], dh[row], dy[t, row]
            da_row, db_row = da[t, row], db[t, row]
            for j in range(len(d)):
                db_row[j] = d[j] + back[j]
            for j in range(len(d)):
                da_row[j] = db_row[j] * old[j]
            for j in range(len(d)):
                d[j] = db_row[j] * a_row[j]
