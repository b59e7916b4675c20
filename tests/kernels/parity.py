"""Every cell x option x situation x kernel against the reference loop: outputs, final state, every gradient.

`test_parity.py` runs it under pytest. As a plain script it needs numpy and torch alone: `python tests/kernels/parity.py
[device]`.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.cells.elman import ACTIVATIONS
from thereafter.kernels.jobs import Job, Kernel, Unrolled
from thereafter.kernels.reference import REFERENCE
from thereafter.kernels.scan import KERNELS, _turned, _turned_job

TOLERANCES: dict[torch.dtype, float] = {torch.float64: 1e-10, torch.float32: 1e-4}
"""The one table for every kernel: the largest error, as a share of the tensor's largest entry where that is over 1."""

GRUS = [{"reset": reset, "update": update} for reset in ("after", "before") for update in ("old", "new")]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "elman": [{"nonlinearity": name} for name in ACTIVATIONS] + [{"layer_norm": True}],
    "lstm": [
        {},
        {"peephole": True},
        {"coupled": True},
        {"layer_norm": True},
        {"proj_size": 3},
        {"peephole": True, "coupled": True, "layer_norm": True, "proj_size": 3},
        {"peephole": True, "layer_norm": True},
        {"coupled": True, "proj_size": 2},
    ],
    "gru": GRUS + [option | {"layer_norm": True} for option in GRUS],
}
"""The options of each cell; a cell that is not listed is tested plain."""

BIASES = ("two", "one", "none")


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every cell with every option, each bias convention among them."""
    for name in CELLS:
        for number, options in enumerate(OPTIONS.get(name, [{}])):
            for bias in BIASES if number == 0 else (BIASES[number % 3],):
                yield name, options | {"bias": bias}


@dataclass(frozen=True)
class Situation:
    """A shape of work: what is asked of a kernel beyond the cell."""

    name: str
    batch: int = 3
    steps: int = 6
    lengths: tuple[int, ...] | None = None
    reverse: bool = False
    reset: bool = False
    hold: str | None = None
    record: bool = False
    time_first: bool = False


SITUATIONS = [
    Situation("plain"),
    Situation("reversed", reverse=True),
    Situation("one row", batch=1),
    Situation("one step", steps=1),
    Situation("no step", steps=0),
    Situation("no row", batch=0),
    Situation("time first", time_first=True),
    Situation("lengths", lengths=(4, 6, 1)),
    Situation("lengths reversed", lengths=(4, 6, 1), reverse=True),
    Situation("an empty row", lengths=(2, 0, 5)),
    Situation("reset", reset=True),
    Situation("reset reversed, lengths", reset=True, reverse=True, lengths=(4, 6, 2)),
    Situation("zoneout mask", hold="mask"),
    Situation("zoneout mean, lengths", hold="mean", lengths=(4, 6, 1)),
    Situation("record", record=True),
    Situation("record, lengths reversed", record=True, lengths=(3, 5, 6), reverse=True),
    Situation("long enough to split", batch=5, steps=37, lengths=(37, 11, 30, 1, 36)),
]


def make_job(cell: Cell, at: Situation, dtype: torch.dtype, device: str) -> Job:
    """A seeded job; every tensor that can have a gradient asks for one."""
    draw = torch.Generator().manual_seed(zlib.crc32(f"{cell!r} {at.name}".encode()))

    def leaf(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = scale * torch.randn(shape, generator=draw, dtype=torch.float64)
        return drawn.to(device=device, dtype=dtype).requires_grad_()

    def some(*shape: int, share: float) -> Tensor:
        return (torch.rand(shape, generator=draw) < share).to(device)

    size = (at.steps, at.batch) if at.time_first else (at.batch, at.steps)
    x = leaf(*size, cell.input_size)
    weights = {name: leaf(*shape, scale=0.5) for name, shape in cell.shapes().items()}
    state = cell.state_type(*(leaf(at.batch, n) for n in cell.state_sizes().values()))
    hold: dict[str, Tensor | float] = {}
    if at.hold:
        for number, (name, n) in enumerate(cell.state_sizes().items()):
            mask = some(at.batch, at.steps, n, share=0.4).to(dtype)
            hold[name] = mask if at.hold == "mask" else 0.3 - 0.1 * number
    lengths_B = None if at.lengths is None else torch.tensor(at.lengths, device=device)
    reset_BT = some(at.batch, at.steps, share=0.3) if at.reset else None
    if reset_BT is not None and lengths_B is not None:
        reset_BT &= torch.arange(at.steps, device=device) < lengths_B.unsqueeze(1)  # as `scan` does
    return Job(
        cell=cell,
        x_BTI=x,  # turned to batch first by `run`, so that gradients are asked of the leaf
        state=state,
        weights=weights,
        lengths_B=lengths_B,
        reset_BT=reset_BT,
        hold=hold,
        record=at.record,
    )


def ready(job: Job, at: Situation) -> Job:
    """The job as a kernel gets it from `scan`."""
    rows = replace(job, x_BTI=job.x_BTI.transpose(0, 1)) if at.time_first else job
    return _turned_job(rows) if at.reverse else rows


def results(kernel: Kernel, job: Job, at: Situation) -> dict[str, Tensor]:
    """Everything a kernel makes, by name: outputs, states, records, and the gradients of a random function of them."""
    done: Unrolled = kernel.run(ready(job, at))
    if at.reverse:
        done = _turned(done, job.lengths_B)
    made = {"output": done.y_BTO} | {f"state {n}": part for n, part in zip(done.state._fields, done.state, strict=True)}
    draw = torch.Generator().manual_seed(7)
    loss = sum(
        (part * torch.randn(part.shape, generator=draw, dtype=torch.float64).to(part)).sum() for part in made.values()
    )
    leaves = {"x": job.x_BTI, **{f"initial {n}": p for n, p in zip(done.state._fields, job.state, strict=True)}}
    leaves |= dict(job.weights)
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    for (name, leaf), gradient in zip(leaves.items(), found, strict=True):
        made[f"gradient of {name}"] = torch.zeros_like(leaf) if gradient is None else gradient
    return made | {f"record of {name}": array for name, array in (done.record or {}).items()}


def differences(got: dict[str, Tensor], expected: dict[str, Tensor], dtype: torch.dtype) -> list[str]:
    """What is not the same within the table's tolerance, in words."""
    if set(got) != set(expected):
        return [f"names differ: {sorted(set(got) ^ set(expected))}"]
    wrong = []
    for name in expected:
        value, truth = got[name].detach(), expected[name].detach()
        if value.shape != truth.shape or value.dtype != truth.dtype:
            wrong.append(f"{name}: {value.dtype} {tuple(value.shape)} for {truth.dtype} {tuple(truth.shape)}")
        elif truth.numel():
            error = float((value - truth).abs().max() / truth.abs().max().clamp(min=1.0))
            if not error <= TOLERANCES[dtype]:  # a NaN is no small error
                wrong.append(f"{name}: off by {error:.2e}")
    return wrong


def compare(name: str, options: dict[str, Any], dtype: torch.dtype, device: str) -> tuple[dict[str, int], list[str]]:
    """All situations of one cell on every kernel: how many each ran, and what went wrong."""
    cell: Cell = CELLS.load(name)(4, 5, **options)
    ran = dict.fromkeys(KERNELS, 0)
    wrong: list[str] = []
    for at in SITUATIONS:
        job = make_job(cell, at, dtype, device)
        expected = results(REFERENCE, job, at)
        for label in KERNELS:
            kernel: Kernel = KERNELS.load(label)
            if label == "reference" or kernel.refuses(ready(job, at)) is not None:
                continue
            ran[label] += 1
            found = differences(results(kernel, job, at), expected, dtype)
            wrong += [f"{label}, {at.name}: {what}" for what in found]
    return ran, wrong


def main(device: str) -> int:
    """Run everything on a device; exit status 1 where something differs."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    total = dict.fromkeys(KERNELS, 0)
    wrong = []
    for name, options in cases():
        for dtype in (torch.float64, torch.float32):
            ran, found = compare(name, options, dtype, device)
            total = {label: total[label] + count for label, count in ran.items()}
            wrong += [f"{name} {options} {dtype}: {what}" for what in found]
    sys.stdout.write("\n".join([*wrong, f"on {device}: ran {total}, {len(wrong)} differences", ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ("cuda" if torch.cuda.is_available() else "cpu")))
