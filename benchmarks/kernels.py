"""Does `kernel="auto"` take the fastest kernel? Every kernel that can run, over cells and sizes, on a CPU.

    python benchmarks/kernels.py [--seconds 0.5] [--json FILE] [--only lstm]

A row: cell, sizes (batch, steps, input, hidden), with gradients or without, milliseconds of each kernel, and how many
times the fastest's time the one takes that `auto` chooses. Medians of kernels that take turns. At the end how many rows
are beyond 1.1, and how many would be if `auto` took `cpu` everywhere.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from report import machine
from thereafter import nn
from thereafter.errors import OptionError
from thereafter.kernels import running

CELLS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"peephole": True}),
    ("LSTM", {"layer_norm": True}),
    ("LSTM", {"proj_size": 16}),
    ("GRU", {}),
    ("GRU", {"reset": "before"}),
    ("RNN", {}),
    ("MinGRU", {}),
]
SIZES = [(batch, steps, hidden, hidden) for steps in (1, 2, 3, 5) for batch in (1, 20, 128) for hidden in (64, 512)] + [
    (1, 35, 128, 128), (1, 100, 256, 256), (4, 20, 64, 64), (8, 400, 100, 100), (20, 35, 200, 200),
    (20, 35, 650, 650), (32, 35, 256, 256), (64, 10, 32, 32), (64, 100, 128, 128), (128, 20, 64, 512),
]  # fmt: skip
_MARGIN = 1.1
_LONGEST_LOOP = 100  # steps; beyond them the plain loop is left out: it is never the fastest


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=0.5, help="a row")
    options.add_argument("--json", type=Path)
    options.add_argument("--only", help="a kind of cell")
    given = options.parse_args()
    torch.manual_seed(0)
    print(machine(), end="\n\n")
    rows = []
    for (kind, extra), sizes, learning in itertools.product(CELLS, SIZES, (True, False)):
        if given.only and kind.lower() != given.only.lower():
            continue
        row = compared(kind, extra, sizes, learning, given.seconds)
        rows.append(row)
        named = f"{kind} {' '.join(f'{k}={v}' for k, v in extra.items())}".strip()
        times = ", ".join(f"{name} {ms:.3f}" for name, ms in row["ms"].items())
        mark = "  <--" if row["ratio"] > _MARGIN else ""
        how = "train" if learning else "score"
        print(f"{named:<22} {sizes!s:<20} {how}  auto: {row['auto']:<9} {row['ratio']:.2f}  {times}{mark}", flush=True)
    slow = [row for row in rows if row["ratio"] > _MARGIN]
    worst = max(row["ratio"] for row in rows)
    first = sum(row["ratio"] == 1.0 for row in rows)
    print(
        f"\nof {len(rows)} rows auto takes the fastest in {first}; {len(slow)} beyond {_MARGIN}, the worst {worst:.2f}"
    )
    ours = [row["ms"]["cpu"] / min(row["ms"].values()) for row in rows if "cpu" in row["ms"]]
    beyond = sum(ratio > _MARGIN for ratio in ours)
    print(f"`cpu` everywhere: {beyond} beyond {_MARGIN}, the worst {max(ours):.2f}")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    return 0


def compared(
    kind: str, extra: dict[str, Any], sizes: tuple[int, ...], learning: bool, seconds: float
) -> dict[str, Any]:
    """One row."""
    batch, steps, inputs, hidden = sizes
    x = torch.randn(batch, steps, inputs, requires_grad=learning)  # as above another layer, or an embedding
    jobs = {}
    for name in running.KERNELS:
        if name == "operator" or (name == "reference" and steps > _LONGEST_LOOP):
            continue  # the operator is one of the others
        module = getattr(nn, kind)(inputs, hidden, batch_first=True, kernel=name, **extra)
        try:
            run(module, x, learning)
        except OptionError:
            continue  # this kernel has no such cell
        jobs[name] = module
    times: dict[str, list[float]] = {name: [] for name in jobs}
    order, draw, start = list(jobs), random.Random(0), time.perf_counter()
    while time.perf_counter() - start < seconds or len(times[order[0]]) < 5:
        draw.shuffle(order)
        for name in order:
            run(jobs[name], x, learning)  # finds the caches as the others have left them
            began, count = time.perf_counter(), 0
            while count == 0 or time.perf_counter() - began < 0.005:
                run(jobs[name], x, learning)
                count += 1
            times[name].append(1e3 * (time.perf_counter() - began) / count)
    ms = {name: statistics.median(found) for name, found in times.items()}
    auto = chosen(getattr(nn, kind)(inputs, hidden, batch_first=True, **extra), x, learning)
    found = {"cell": kind, "options": extra, "sizes": sizes, "learning": learning, "ms": ms, "auto": auto}
    return found | {"ratio": ms[auto] / min(ms.values())}


def run(module: torch.nn.Module, x: Tensor, learning: bool) -> None:
    """Forward, and backward where it learns."""
    if learning:
        module.zero_grad(set_to_none=True)
        x.grad = None
        module(x)[0].sum().backward()
        return
    with torch.no_grad():
        module(x)


def chosen(module: torch.nn.Module, x: Tensor, learning: bool) -> str:
    """The name of the kernel that `auto` takes."""
    names: list[str] = []
    choose = running.choose

    def noted(job: Any) -> Any:
        kernel = choose(job)
        names.append(kernel.name)
        return kernel

    running.choose = noted
    try:
        run(module, x, learning)
    finally:
        running.choose = choose
    return names[0]


if __name__ == "__main__":
    sys.exit(main())
