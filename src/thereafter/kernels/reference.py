"""The readable twin of every kernel: the plain loop. Any device, any cell, double backward, gradients in eval mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import Record
from thereafter.kernels.jobs import Job, SameBits, Unrolled, torch_products


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
