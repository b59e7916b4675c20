"""The layer-norm LSTM on a GPU: right against the plain loop in float64, and how long a step takes.

    PYTHONPATH=src python tests/kernels/gpu_norm_check.py [--quick]

Sizes are rows, steps, units. An error is the norm of the difference from float64 as a share of the norm, the plain
loop's own in bfloat16 beside it. Times are of CUDA graphs: forward alone, forward and backward, of the programs and of
the plain loop in the same type.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from watchdog import watched

from thereafter.cells.base import HCState
from thereafter.cells.lstm import LSTM
from thereafter.kernels.gpu.geometry import norm_geometry
from thereafter.kernels.gpu.launching import PROGRAMS
from thereafter.kernels.gpu.passes import refuses, unrolled
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.plain import REFERENCE

SMALL: list[tuple[int, int, int, dict[str, Any]]] = [
    (3, 6, 5, {}),
    (3, 6, 5, {"peephole": True}),
    (5, 9, 40, {"coupled": True}),
    (17, 20, 130, {"peephole": True, "coupled": True}),
    (20, 12, 300, {}),
]
LARGE = [(64, 70, 1150), (64, 128, 512), (64, 256, 256), (64, 128, 1024), (20, 70, 1150)]


def say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def make(rows: int, steps: int, units: int, dtype: torch.dtype, **options: Any) -> Job:
    draw = torch.Generator().manual_seed(rows + steps + units)
    inputs = max(4, units // 2)
    cell = LSTM(inputs, units, layer_norm=True, **options)

    def leaf(*shape: int, scale: float = 1.0, about: float = 0.0) -> Tensor:
        drawn = about + scale * torch.randn(shape, generator=draw)
        return drawn.bfloat16().to("cuda", dtype).requires_grad_()

    weights = {}
    for name, shape in cell.shapes().items():
        gain = name.startswith("norm")
        weights[name] = leaf(*shape, scale=0.1 if gain else units**-0.5, about=1.0 if gain else 0.0)
    state = HCState(leaf(rows, units), leaf(rows, units))
    return Job(cell, leaf(rows, steps, inputs), state, weights)


def leaves(job: Job) -> dict[str, Tensor]:
    return {"x": job.x_BTI, "h": job.state.h, "c": job.state.c, **job.weights}


def processors() -> int:
    return torch.cuda.get_device_properties(0).multi_processor_count


def by_programs(job: Job) -> Unrolled:
    return unrolled(job, PROGRAMS, processors())


def everything(job: Job, run: Callable[[Job], Unrolled]) -> dict[str, Tensor]:
    made = run(job)
    outputs = [made.y_BTO, *made.state]
    draw = torch.Generator("cuda").manual_seed(1)
    incoming = [torch.randn(part.shape, generator=draw, device="cuda").to(part.dtype) for part in outputs]
    gradients = torch.autograd.grad(outputs, list(leaves(job).values()), incoming)
    named = dict(zip((f"d {name}" for name in leaves(job)), gradients, strict=True))
    return {"y": made.y_BTO, "last h": made.state.h, "last c": made.state.c} | named


def as_double(job: Job) -> Job:
    def leaf(part: Tensor) -> Tensor:
        return part.detach().double().requires_grad_()

    weights = {name: leaf(weight) for name, weight in job.weights.items()}
    return Job(
        job.cell, leaf(job.x_BTI), HCState(*map(leaf, job.state)), weights, job.lengths_B, job.reset_BT, job.hold
    )


def check(job: Job, label: str) -> None:
    with watched(label, 60):
        truth = everything(as_double(job), REFERENCE.run)
        ours, theirs = everything(job, by_programs), everything(job, REFERENCE.run)
        again = everything(job, by_programs)
        torch.cuda.synchronize()

    def error(got: dict[str, Tensor], name: str) -> float:
        return float(
            (got[name].detach().double() - truth[name].detach()).norm() / truth[name].detach().norm().clamp(min=1e-30)
        )

    shown = ", ".join(f"{name} {error(ours, name):.1e}/{error(theirs, name):.1e}" for name in truth)
    same = all(torch.equal(ours[name], again[name]) for name in ours)
    worst = max(truth, key=lambda name: error(ours, name) / max(error(theirs, name), 1e-9))
    say(f"{label}: worst {worst} {error(ours, worst):.1e}, loop {error(theirs, worst):.1e}; same bits {same}; {shown}")


def graph_time(work: Callable[[], object]) -> float:
    """Microseconds of a replay."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begun) / 5 * 1e6)
    return best


def times(rows: int, steps: int, units: int) -> None:
    job = make(rows, steps, units, torch.bfloat16)
    figures: dict[str, float] = {}
    for name, run in (("programs", by_programs), ("loop", REFERENCE.run)):

        def forward(run: Callable[[Job], Unrolled] = run) -> None:
            with torch.no_grad():
                run(job)

        def both(run: Callable[[Job], Unrolled] = run) -> None:
            made = run(job)
            torch.autograd.grad(made.y_BTO, list(leaves(job).values()), torch.ones_like(made.y_BTO))

        with watched(f"times of {name}", 120):
            figures[f"{name} forward"], figures[f"{name} both"] = graph_time(forward), graph_time(both)
    shares = [figures[f"loop {way}"] / figures[f"programs {way}"] for way in ("forward", "both")]
    listed = ", ".join(f"{name} {value:.0f} us ({value / steps:.2f} a step)" for name, value in figures.items())
    say(f"({rows}, {steps}, {units}): {listed}; faster {shares[0]:.1f} and {shares[1]:.1f} times")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        made = by_programs(job)
        torch.autograd.grad(made.y_BTO, list(leaves(job).values()), torch.ones_like(made.y_BTO))
        torch.cuda.synchronize()
    events = sorted(profile.key_averages(), key=lambda event: -event.device_time_total)[:14]
    say("    " + "; ".join(f"{event.key[:48]} x{event.count} {event.device_time_total:.0f} us" for event in events))


def main() -> None:
    for rows, steps, units, options in SMALL:
        for dtype in (torch.bfloat16, torch.float16):
            job = make(rows, steps, units, dtype, **options)
            assert refuses(job, processors()) is None
            check(job, f"({rows}, {steps}, {units}) {options} {dtype}")
    job = make(20, 12, 300, torch.bfloat16, peephole=True)
    lengths = torch.arange(20, device="cuda") % 13
    reset = torch.rand(20, 12, device="cuda") < 0.2
    hold = {name: (torch.rand(20, 12, 300, device="cuda") < 0.3).bfloat16() for name in ("h", "c")}
    reset &= torch.arange(12, device="cuda") < lengths.unsqueeze(1)
    check(Job(job.cell, job.x_BTI, job.state, job.weights, lengths, reset, hold), "lengths, reset, zoneout mask")
    check(
        Job(job.cell, job.x_BTI, job.state, job.weights, lengths, None, {"h": 0.2, "c": 0.1}), "lengths, zoneout mean"
    )
    for rows, steps, units in LARGE:
        over = norm_geometry(rows, units, processors())
        say(over)
        check(make(rows, min(steps, 20), units, torch.bfloat16), f"({rows}, 20, {units})")
        if "--quick" not in sys.argv:
            times(rows, steps, units)


if __name__ == "__main__":
    main()
