"""The kernels in torch's own operators: the plain loop, and linear recurrences for all steps at once.

The loop is the readable twin of every kernel: any device, any cell, double backward, gradients in eval mode.

A linear recurrence, h_t = a_t h_{t-1} + b_t, is an associative scan. Pairs compose: first (a, b), then (a', b') is
(a' a, a' b + b'). Doubling the reach of each position log2(T) times gives every prefix (Hillis and Steele 1986;
Blelloch 1990). Long rows are cut into about sqrt(T) pieces that run side by side, and the state at the end of each is
carried into the next: three passes over the numbers in place of log2(T). The gradient is the same recurrence backward:
    g_t = dL/dh_t + a_{t+1} g_{t+1},   dL/db_t = g_t,   dL/da_t = g_t h_{t-1}

Shapes: B rows, T steps, H units, P pieces of S steps.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import Record
from thereafter.kernels.jobs import Job, SameBits, Unrolled, torch_products
from thereafter.kernels.switches import apply_one

_LONG = 256  # steps above which pieces are faster than doubling; rows of usual texts are shorter


class Parallel:
    """All steps at once, for cells that are linear in their state."""

    name = "parallel"

    def refuses(self, job: Job) -> str | None:
        if not job.cell.linear:
            return f"the cell {job.cell.name!r} is not linear in its state"
        if job.hold:
            return "zoneout needs the step-by-step form"
        return None

    def status(self) -> str:
        return "runs everywhere: associative scan, for mingru, minlstm and diagonal"

    def deterministic(self, job: Job) -> SameBits:
        return torch_products(job)

    def run(self, job: Job) -> Unrolled:
        record: Record | None = {} if job.record else None
        z_BTG = job.cell.project(job.x_BTI, job.weights)
        a_BTH, b_BTH = job.cell.coefficients(z_BTG, job.weights, record)
        a_BTH, b_BTH, live_BT1 = resets_and_ends(job, a_BTH, b_BTH)
        h_BTH = linear_scan(a_BTH, b_BTH, job.state.h)
        last = h_BTH[:, -1] if h_BTH.shape[1] else job.state.h
        if record is not None:
            record["h"] = h_BTH
        y_BTH = h_BTH if live_BT1 is None else torch.where(live_BT1, h_BTH, torch.zeros_like(h_BTH))
        return Unrolled(y_BTH, type(job.state)(last), record)


def resets_and_ends(job: Job, a: Tensor, b: Tensor, *, rows_first: bool = True) -> tuple[Tensor, Tensor, Tensor | None]:
    """Coefficients, [B, T, H] or [T, B, H], that forget the state where it is reset and keep it in finished rows; and
    which steps of which rows are not finished, if any are."""

    def beside(x_BT: Tensor) -> Tensor:
        return (x_BT if rows_first else x_BT.t()).unsqueeze(-1)

    live = None
    if job.lengths_B is not None:
        steps = torch.arange(job.x_BTI.shape[1], device=a.device)
        live = beside(steps < job.lengths_B.unsqueeze(1))
        a, b = torch.where(live, a, torch.ones_like(a)), torch.where(live, b, torch.zeros_like(b))
    if job.reset_BT is not None:
        a = a * beside(~job.reset_BT).to(a.dtype)
    return a, b, live


def linear_scan(a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor) -> Tensor:
    """h_t = a_t h_{t-1} + b_t from h_0 = `h_BH`; differentiable in all three.

    >>> ones = torch.ones(1, 4, 1)
    >>> linear_scan(0.5 * ones, ones, torch.zeros(1, 1)).flatten().tolist()
    [1.0, 1.5, 1.75, 1.875]
    """
    return apply_one(_LinearScan, a_BTH, b_BTH, h_BH)


class _LinearScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor) -> Tensor:
        h_BTH = (_by_pieces if a_BTH.shape[1] > _LONG else _doubling)(a_BTH, b_BTH, h_BH)
        ctx.save_for_backward(a_BTH, h_BTH, h_BH)
        return h_BTH

    @staticmethod
    def backward(ctx: Any, grad_BTH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a_BTH, h_BTH, h_BH = ctx.saved_tensors
        if not a_BTH.shape[1]:
            return torch.zeros_like(a_BTH), torch.zeros_like(a_BTH), torch.zeros_like(h_BH)
        # a moved by one step: the gradient at t meets a_{t+1}
        later = torch.cat([a_BTH[:, 1:], torch.zeros_like(a_BTH[:, :1])], dim=1)
        # through the public scan, so that its own gradient exists too
        g_BTH = linear_scan(later.flip(1), grad_BTH.flip(1), torch.zeros_like(h_BH)).flip(1)
        before = torch.cat([h_BH.unsqueeze(1), h_BTH[:, :-1]], dim=1)
        return g_BTH * before, g_BTH, g_BTH[:, 0] * a_BTH[:, 0]


def _doubling(a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor) -> Tensor:
    steps = a_BTH.shape[1]
    if not steps:
        return b_BTH.clone()
    b_BTH = torch.cat([a_BTH[:, :1] * h_BH.unsqueeze(1) + b_BTH[:, :1], b_BTH[:, 1:]], dim=1)
    reach = 1
    while reach < steps:
        b_BTH = torch.cat([b_BTH[:, :reach], a_BTH[:, reach:] * b_BTH[:, :-reach] + b_BTH[:, reach:]], dim=1)
        if 2 * reach < steps:
            a_BTH = torch.cat([a_BTH[:, :reach], a_BTH[:, reach:] * a_BTH[:, :-reach]], dim=1)
        reach *= 2
    return b_BTH


def _by_pieces(a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor) -> Tensor:
    rows, steps, units = b_BTH.shape
    kind = torch.promote_types(torch.promote_types(a_BTH.dtype, b_BTH.dtype), h_BH.dtype)  # under autocast they differ
    a_BTH, b_BTH = a_BTH.to(kind), b_BTH.to(kind)
    pieces = math.isqrt(steps - 1) + 1
    size = -(-steps // pieces)
    if pieces * size > steps:  # steps that leave the state as it is
        rest = (rows, pieces * size - steps, units)
        a_BTH, b_BTH = torch.cat([a_BTH, a_BTH.new_ones(rest)], 1), torch.cat([b_BTH, b_BTH.new_zeros(rest)], 1)
    a_BPSH, b_BPSH = (x.reshape(rows, pieces, size, units) for x in (a_BTH, b_BTH))
    # within each piece: its states from 0, and what is left of a state before it
    h_BPSH, kept_BPSH = torch.empty_like(b_BPSH), torch.empty_like(b_BPSH)
    h_BPSH[:, :, 0], kept_BPSH[:, :, 0] = b_BPSH[:, :, 0], a_BPSH[:, :, 0]
    for step in range(1, size):
        torch.addcmul(b_BPSH[:, :, step], a_BPSH[:, :, step], h_BPSH[:, :, step - 1], out=h_BPSH[:, :, step])
        torch.mul(a_BPSH[:, :, step], kept_BPSH[:, :, step - 1], out=kept_BPSH[:, :, step])
    before_BPH = torch.empty_like(h_BPSH[:, :, 0])
    before_BPH[:, 0] = h_BH
    for piece in range(1, pieces):
        last, kept = h_BPSH[:, piece - 1, -1], kept_BPSH[:, piece - 1, -1]
        torch.addcmul(last, kept, before_BPH[:, piece - 1], out=before_BPH[:, piece])
    return h_BPSH.addcmul_(kept_BPSH, before_BPH.unsqueeze(2)).flatten(1, 2)[:, :steps]


PARALLEL = Parallel()


class Reference:
    """h_t = cell(x_t, h_{t-1}), one step after the other."""

    name = "reference"

    def refuses(self, job: Job) -> str | None:
        return None

    def status(self) -> str:
        return "runs everywhere: the plain loop, for every cell and option"

    def deterministic(self, job: Job) -> SameBits:
        return torch_products(job)

    def run(self, job: Job) -> Unrolled:
        cell, state = job.cell, job.state
        z_BTG = cell.project(job.x_BTI, job.weights)
        steps = job.x_BTI.shape[1]
        outputs: list[Tensor] = []
        records: list[Record] = []
        for t in range(steps):
            if job.reset_BT is not None:
                reset_B1 = job.reset_BT[:, t].unsqueeze(-1)
                state = type(state)(*(torch.where(reset_B1, torch.zeros_like(part), part) for part in state))
            record: Record | None = {} if job.record else None
            y_BO, new = cell.step(z_BTG[:, t], state, job.weights, record)
            if job.hold:
                new = _zone_out(job, new, state, t)
                y_BO = new.h
            if job.lengths_B is not None:
                live_B1 = (t < job.lengths_B).unsqueeze(-1)
                new = type(new)(*(torch.where(live_B1, a, b) for a, b in zip(new, state, strict=True)))
                y_BO = torch.where(live_B1, y_BO, torch.zeros_like(y_BO))
            state = new
            outputs.append(y_BO)
            if record is not None:
                records.append(record | dict(zip(state._fields, state, strict=True)))
        if not outputs:
            return Unrolled(job.x_BTI.new_zeros(len(job.x_BTI), 0, cell.output_size), state, {} if job.record else None)
        kept = {name: torch.stack([r[name] for r in records], dim=1) for name in records[0]} if records else None
        return Unrolled(torch.stack(outputs, dim=1), state, kept)


def _zone_out(job: Job, new: Any, old: Any, t: int) -> Any:
    """Zoneout: keep a share of each old state."""
    parts = []
    for name, fresh, stale in zip(new._fields, new, old, strict=True):
        share = job.hold.get(name, 0.0)
        keep = share[:, t] if isinstance(share, Tensor) else share
        parts.append(keep * stale + (1 - keep) * fresh)
    return type(new)(*parts)


REFERENCE = Reference()
