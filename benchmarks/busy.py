"""Speed beside another program: the share of its quiet speed that a cell keeps while an endless loop has a core.

    python benchmarks/busy.py [--rounds 5] [--loops 1] [--json FILE] [--quick] [--large]

Forward + backward in float32. Each round times a cell for some tenths of a second without the loop and as long with it;
which comes first changes from round to round. A figure is the median over the rounds of quiet / busy milliseconds: on
two cores 0.75 is all that one loop leaves, 0.5 is what a half of the work for each core comes to, and less is lost by
waiting. torch's share stands beside, for information.

One core is loaded, however many there are: a team that meets waits for its slowest thread, so that one loop asks the
same of 2 cores as of 64, and 0.5 is still what equal halves come to. `--loops N` loads N cores. `--large` measures
layers whose matrix is larger than a second cache instead: their threads own units and meet at every step.
"""

from __future__ import annotations

import thereafter  # noqa: F401  # isort: skip  # before torch: so its threads wait as they do under a command

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import torch

from endless import endless_loops
from recurrent import Sizes, both_ways
from report import Report, machine
from thereafter import nn

Cells = dict[str, tuple[str, dict[str, object]]]  # a name, the layer and its options
CELLS: Cells = {
    "LSTM": ("LSTM", {}),
    "LSTM, peephole": ("LSTM", {"peephole": True}),
    "LSTM, coupled": ("LSTM", {"coupled": True}),
    "LSTM, projected": ("LSTM", {"proj_size": 64}),
    "LSTM, layer norm": ("LSTM", {"layer_norm": True}),
    "GRU, reset after": ("GRU", {}),
    "GRU, reset before": ("GRU", {"reset": "before"}),
    "Elman": ("RNN", {}),
    "minGRU": ("MinGRU", {}),
    "minLSTM": ("MinLSTM", {}),
    "diagonal": ("Diagonal", {}),
}
SIZES = ((16, 35, 256, 256), (32, 35, 256, 256))
LARGE = {"LSTM": 512, "GRU, reset after": 512, "Elman": 1024}  # units
REQUIRED, AIM = 0.4, 0.5
_SETTLE = 0.1  # seconds in which the system spreads threads anew
Job = Callable[[], None]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--loops", type=int, default=1, help="cores that are loaded")
    options.add_argument("--json", type=Path)
    options.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    options.add_argument("--large", action="store_true", help="layers whose threads meet at every step")
    given = options.parse_args()
    torch.manual_seed(0)
    print(machine(), end="\n\n")
    report = Report()
    rounds, seconds = (2, 0.15) if given.quick else (given.rounds, 0.3)
    if given.large:
        for name, units in LARGE.items():
            sizes = tuple((batch, 35, units, units) for batch in (16, 32))
            beside_loop(report, {name: CELLS[name]}, sizes, rounds, seconds, given.loops)
    else:
        beside_loop(report, CELLS, SIZES, rounds, seconds, given.loops)
    return report.close(given.json)


def beside_loop(report: Report, cells: Cells, sizes: Sizes, rounds: int, seconds: float, loops: int = 1) -> None:
    """A row for every cell and size: the share of its quiet speed."""
    for name, (kind, options) in cells.items():
        for batch, steps, inputs, hidden in sizes:
            x = torch.randn(batch, steps, inputs, requires_grad=True)
            jobs = {"ours": both_ways(getattr(nn, kind)(inputs, hidden, batch_first=True, **options), x)}
            if not options and hasattr(torch.nn, kind):
                jobs["torch"] = both_ways(getattr(torch.nn, kind)(inputs, hidden, batch_first=True), x)
            quiet, busy = in_turns(jobs, rounds, seconds, loops)
            share = {job: median(q / b for q, b in zip(quiet[job], busy[job], strict=True)) for job in jobs}
            beside = f"quiet {median(quiet['ours']):.1f} ms, busy {median(busy['ours']):.1f}"
            if "torch" in share:
                beside += (
                    f"; torch keeps {share['torch']:.2f} (quiet {median(quiet['torch']):.1f}, "
                    f"busy {median(busy['torch']):.1f})"
                )
            figure = f"{name} {batch, steps, inputs, hidden} beside a loop"
            report.add(figure, share["ours"], REQUIRED, beside, aim=AIM, job=jobs["ours"])


def in_turns(
    jobs: dict[str, Job], rounds: int, seconds: float, loops: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Milliseconds of a call, a figure a round, of each job: without the loops and with them."""
    times: tuple[dict[str, list[float]], ...] = tuple({name: [] for name in jobs} for _ in range(2))
    for job in jobs.values():
        job()
    for turn in range(rounds):
        for is_busy in (False, True) if turn % 2 == 0 else (True, False):
            with endless_loops(loops) if is_busy else nullcontext():
                time.sleep(_SETTLE)
                for name, job in jobs.items():
                    times[is_busy][name].append(milliseconds_a_call(job, seconds))
    return times[False], times[True]


def milliseconds_a_call(job: Job, seconds: float) -> float:
    """The mean over calls of some tenths of a second: how long threads wait differs much from call to call."""
    job()
    began, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - began < seconds:
        job()
        calls += 1
    return 1e3 * (time.perf_counter() - began) / calls


if __name__ == "__main__":
    sys.exit(main())
