"""One step of the GRU forward and backward, all but its matrix products. Arrays as in `loops.lstm`; gates reset,
update, new: [T, B, 3H]. `old`: z multiplies the old state, else the candidate.
"""

from __future__ import annotations

from thereafter.compiled import jit
from thereafter.kernels.arrays import Floats, Whole
from thereafter.kernels.loops.activation import FAST, sigmoid_row, tanh_row


@jit(**FAST)
def gru_after_forward(
    t: int,
    keep: int,
    product: Floats,
    bias: Floats,
    gates: Floats,
    candidate: Floats,
    h: Floats,
    old: bool,
    lengths: Whole,
    exact: bool,
) -> None:
    """Reset after the product: `gates[t]` holds z, `product` [B, 3H] is U h; U_n h + b' is kept in `candidate`."""
    rows, units = h.shape[1], h.shape[2]
    for b in range(rows):
        if len(lengths) and t >= lengths[b]:
            h[t + 1, b] = h[t, b]
            continue
        both, u_row = gates[t, b, : 2 * units], product[b, : 2 * units]
        for j in range(2 * units):
            both[j] += u_row[j] + bias[j]
        sigmoid_row(both, exact)
        r_row, n_row, kept = gates[t, b, :units], gates[t, b, 2 * units :], candidate[keep, b]
        u_new, b_new = product[b, 2 * units :], bias[2 * units :]
        for j in range(units):
            kept[j] = u_new[j] + b_new[j]
        for j in range(units):
            n_row[j] += r_row[j] * kept[j]
        tanh_row(n_row, exact)
        _mix(gates[t, b, units : 2 * units], n_row, h[t, b], h[t + 1, b], old)


@jit(**FAST)
def gru_after_backward(
    t: int, gates: Floats, candidate: Floats, h: Floats, dh: Floats, dz: Floats, du: Floats, old: bool, lengths: Whole
) -> None:
    """`dz[t]` and `du[t]`, gradients of both products of step t; `dh` [B, H] becomes what flows past the product."""
    rows, units = h.shape[1], h.shape[2]
    for b in range(rows):
        if len(lengths) and t >= lengths[b]:
            dz[t, b] = 0
            du[t, b] = 0
            continue
        r_row, n_row, kept = gates[t, b, :units], gates[t, b, 2 * units :], candidate[t, b]
        dr, du_r, du_z, du_n = dz[t, b, :units], du[t, b, :units], du[t, b, units : 2 * units], du[t, b, 2 * units :]
        dz_z, dn = dz[t, b, units : 2 * units], dz[t, b, 2 * units :]
        _unmix(gates[t, b, units : 2 * units], n_row, h[t, b], dh[b], dz_z, dn, old)
        for j in range(units):
            dr[j] = dn[j] * kept[j] * r_row[j] * (1 - r_row[j])
        for j in range(units):
            du_n[j] = dn[j] * r_row[j]
        for j in range(units):
            du_r[j] = dr[j]
        for j in range(units):
            du_z[j] = dz_z[j]


@jit(**FAST)
def gru_before_gates(t: int, keep: int, gates: Floats, h: Floats, reset_h: Floats, exact: bool) -> None:
    """Reset before the product, first half: r and z from their pre-activations, and `reset_h[t]` = r h."""
    rows, units = h.shape[1], h.shape[2]
    for b in range(rows):
        sigmoid_row(gates[t, b, : 2 * units], exact)
        r_row, old_row, out = gates[t, b, :units], h[t, b], reset_h[keep, b]
        for j in range(units):
            out[j] = r_row[j] * old_row[j]


@jit(**FAST)
def gru_before_mix(t: int, gates: Floats, h: Floats, old: bool, lengths: Whole, exact: bool) -> None:
    """Second half: the candidate from its pre-activation, and the new state."""
    rows, units = h.shape[1], h.shape[2]
    for b in range(rows):
        if len(lengths) and t >= lengths[b]:
            h[t + 1, b] = h[t, b]
            continue
        n_row = gates[t, b, 2 * units :]
        tanh_row(n_row, exact)
        _mix(gates[t, b, units : 2 * units], n_row, h[t, b], h[t + 1, b], old)


@jit(**FAST)
def gru_before_unmix(t: int, gates: Floats, h: Floats, dh: Floats, dz: Floats, old: bool, lengths: Whole) -> None:
    """Backward, first half: dz of update and candidate; `dh` becomes what flows past both."""
    rows, units = h.shape[1], h.shape[2]
    for b in range(rows):
        if len(lengths) and t >= lengths[b]:
            dz[t, b] = 0
            continue
        z_row, n_row = gates[t, b, units : 2 * units], gates[t, b, 2 * units :]
        _unmix(z_row, n_row, h[t, b], dh[b], dz[t, b, units : 2 * units], dz[t, b, 2 * units :], old)


@jit(**FAST)
def gru_before_reset(
    t: int, gates: Floats, h: Floats, dh: Floats, d_reset_h: Floats, dz: Floats, lengths: Whole
) -> None:
    """Second half: from `d_reset_h` [B, H], the gradient of r h, those of r and h."""
    rows, units = h.shape[1], h.shape[2]
    for b in range(rows):
        if len(lengths) and t >= lengths[b]:
            continue
        r_row, old_row, d, past, dr = gates[t, b, :units], h[t, b], d_reset_h[b], dh[b], dz[t, b, :units]
        for j in range(units):
            dr[j] = d[j] * old_row[j] * r_row[j] * (1 - r_row[j])
        for j in range(units):
            past[j] += d[j] * r_row[j]


@jit(**FAST)
def _mix(z_row: Floats, n_row: Floats, before: Floats, after: Floats, old: bool) -> None:
    if old:
        for j in range(len(after)):
            after[j] = n_row[j] + z_row[j] * (before[j] - n_row[j])
    else:
        for j in range(len(after)):
            after[j] = before[j] + z_row[j] * (n_row[j] - before[j])


@jit(**FAST)
def _unmix(z_row: Floats, n_row: Floats, before: Floats, d: Floats, dz: Floats, dn: Floats, old: bool) -> None:
    """Gradients of z's and n's pre-activations; `d` becomes the part that reaches the old state directly."""
    if old:
        for j in range(len(d)):
            dz[j] = d[j] * (before[j] - n_row[j]) * z_row[j] * (1 - z_row[j])
        for j in range(len(d)):
            dn[j] = d[j] * (1 - z_row[j]) * (1 - n_row[j] * n_row[j])
        for j in range(len(d)):
            d[j] *= z_row[j]
    else:
        for j in range(len(d)):
            dz[j] = d[j] * (n_row[j] - before[j]) * z_row[j] * (1 - z_row[j])
        for j in range(len(d)):
            dn[j] = d[j] * z_row[j] * (1 - n_row[j] * n_row[j])
        for j in range(len(d)):
            d[j] *= 1 - z_row[j]
