"""Recurrent layers against torch, against themselves, and against what the machine could do at best.

    python benchmarks/recurrent.py [--rounds 9] [--json FILE] [--quick]

Medians of alternating rounds, ratios within one run. "best torch" is the faster of torch with oneDNN on and off.
Exit code 1 if a requirement is missed.
"""

from __future__ import annotations

import thereafter  # noqa: F401  # isort: skip  # before torch: so its threads wait as they do under a command

import argparse
import math
import random
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from report import Report, machine
from thereafter import nn

warnings.filterwarnings("ignore", message=".*TF32.*")
SIZES = ((32, 35, 256, 256), (20, 70, 400, 1150), (64, 100, 128, 128), (1, 100, 256, 256))
NAMES = {"LSTM": "LSTM", "GRU": "GRU", "RNN": "Elman"}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
MEANS = {"LSTM": (1.4, 1.6), "GRU": (1.4, 1.8), "RNN": (1.4, 1.8)}  # required of the sizes together, and the aim
Sizes = tuple[tuple[int, int, int, int], ...]
_ROUND = 0.7  # seconds; where the jobs are shorter there are more rounds


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--json", type=Path)
    options.add_argument("--quick", action="store_true", help="fewer rounds, no series")
    given = options.parse_args()
    rounds = 3 if given.quick else given.rounds
    torch.manual_seed(0)
    torch.set_num_threads(torch.get_num_threads())  # said aloud, so that the product library does not choose fewer
    print(machine())
    report = Report()
    rate = matrix_rate()
    print(f"large matrix product: {rate:.0f} GFLOP/s\n")
    reached = {kind: against_torch(report, kind, rounds, rate) for kind in NAMES}
    for size, speed in zip(SIZES, reached["LSTM"], strict=True):
        if size[3] == 1150:
            report.add("LSTM share of the matrix-product rate", speed / rate, 0.65, f"{speed:.0f} GFLOP/s")
    variants(report, rounds)
    layer_norm(report, rounds)
    if not given.quick:
        growth()
    return report.close(given.json)


def alternating(rounds: int, **jobs: Callable[[], None]) -> dict[str, float]:
    """Median milliseconds of each job, the jobs taking turns in an order drawn anew each round.

    A job of a few milliseconds is run several times a turn: the first run after another job finds cold caches. Short
    rounds go on for some seconds: a neighbour on a shared machine comes and goes within one.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    repeats = {}
    for name, job in jobs.items():
        job()
        began = time.perf_counter()
        job()
        repeats[name] = max(1, min(10, int(0.05 / (time.perf_counter() - began))))
    order = list(jobs)
    draw = random.Random(0)
    start, done = time.perf_counter(), 0
    while done < rounds or time.perf_counter() - start < rounds * _ROUND:
        done += 1
        draw.shuffle(order)
        for name in order:
            began = time.perf_counter()
            for _ in range(repeats[name]):
                jobs[name]()
            times[name].append(1e3 * (time.perf_counter() - began) / repeats[name])
    return {name: sorted(values)[len(values) // 2] for name, values in times.items()}


def matrix_rate(rounds: int = 9) -> float:
    """GFLOP/s of a large float32 matrix product."""
    n = 2048
    a, b = torch.randn(n, n), torch.randn(n, n)
    return 2 * n**3 / 1e6 / alternating(rounds, product=lambda: torch.mm(a, b))["product"]


def both_ways(module: torch.nn.Module, x: Tensor) -> Callable[[], None]:
    def job() -> None:
        module.zero_grad(set_to_none=True)
        module(x)[0].sum().backward()

    return job


def without_onednn(job: Callable[[], None]) -> Callable[[], None]:
    def off() -> None:
        with torch.backends.mkldnn.flags(enabled=False):
            job()

    return off


def against_torch(report: Report, kind: str, rounds: int, rate: float, sizes: Sizes = SIZES) -> list[float]:
    """A row a size and their mean; `rate`: GFLOP/s of a large product, from which the least possible time follows.
    Gives the GFLOP/s reached at each size."""
    ratios, reached = [], []
    for batch, steps, inputs, hidden in sizes:
        x = torch.randn(batch, steps, inputs, requires_grad=True)
        theirs = getattr(torch.nn, kind)(inputs, hidden, batch_first=True)
        ours = getattr(nn, kind)(inputs, hidden, batch_first=True)
        ours.load_state_dict(theirs.state_dict())
        job, mine = both_ways(theirs, x), both_ways(ours, x)
        ms = alternating(rounds, default=job, off=without_onednn(job), ours=mine)
        ratios.append(min(ms["default"], ms["off"]) / ms["ours"])
        flops = 3 * 2 * batch * steps * GATES[kind] * hidden * (inputs + hidden)
        beside = (
            f"ours {ms['ours']:.1f} ms, torch {ms['default']:.1f} default / {ms['off']:.1f} oneDNN off, "
            f"{flops / 1e6 / rate:.1f} at the matrix-product rate"
        )
        figure = f"{NAMES[kind]} {batch, steps, inputs, hidden} against best torch"
        report.add(figure, ratios[-1], 1.0, beside, job=mine)
        reached.append(flops / 1e6 / ms["ours"])
    required, aim = MEANS[kind]
    report.add(f"{NAMES[kind]} against best torch, geometric mean", geometric_mean(ratios), required, aim=aim)
    return reached


def geometric_mean(ratios: list[float]) -> float:
    return math.prod(ratios) ** (1 / len(ratios))


def variants(report: Report, rounds: int) -> None:
    for batch, steps, inputs, hidden in SIZES[:3]:
        x = torch.randn(batch, steps, inputs, requires_grad=True)

        def made(
            kind: str, x: Tensor = x, sizes: tuple[int, int] = (inputs, hidden), **options: object
        ) -> Callable[[], None]:
            return both_ways(getattr(nn, kind)(*sizes, batch_first=True, **options), x)

        ms = alternating(
            rounds,
            auto=made("LSTM"),
            lstm=made("LSTM", kernel="cpu"),
            peephole=made("LSTM", peephole=True),
            weight_drop=made("LSTM", weight_drop=0.5),
            gru=made("GRU"),
            before=made("GRU", reset="before"),
        )
        size = str((batch, steps, inputs, hidden))
        # "plain" is what a user gets without the option: what `auto` takes. Our own kernel's plain LSTM stands beside.
        same = f"against the plain LSTM of the same kernel: {ms['lstm'] / ms['peephole']:.2f}x"
        report.add(f"peephole LSTM {size} against plain", ms["auto"] / ms["peephole"], 0.8, same)
        report.add(f"weight drop 0.5 {size} against plain", ms["auto"] / ms["weight_drop"], 0.8)
        report.add(f"GRU reset before {size} against after", ms["gru"] / ms["before"], 0.8)


def layer_norm(report: Report, rounds: int, sizes: Sizes = SIZES) -> None:
    ratios = []
    for batch, steps, inputs, hidden in sizes:
        x = torch.randn(batch, steps, inputs, requires_grad=True)
        ours = nn.LSTM(inputs, hidden, batch_first=True, layer_norm=True)
        weights = {name.removesuffix("_l0"): weight for name, weight in ours.named_parameters()}

        def loop(x: Tensor = x, w: dict[str, Tensor] = weights, hidden: int = hidden) -> None:
            """As one writes it: a Python loop over steps, the input product hoisted."""
            z = F.layer_norm(F.linear(x, w["weight_ih"]), (4 * hidden,), w["norm_ih"]) + w["bias_ih"] + w["bias_hh"]
            h, c = x.new_zeros(len(x), hidden), x.new_zeros(len(x), hidden)
            outputs = []
            for t in range(x.shape[1]):
                r = F.layer_norm(F.linear(h, w["weight_hh"]), (4 * hidden,), w["norm_hh"])
                i, f, g, o = (z[:, t] + r).chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(F.layer_norm(c, (hidden,), w["norm_c"], w["shift_c"]))
                outputs.append(h)
            torch.stack(outputs, 1).sum().backward()

        mine = both_ways(ours, x)
        ms = alternating(rounds, ours=mine, loop=loop)
        ratios.append(ms["loop"] / ms["ours"])
        shown = f"ours {ms['ours']:.1f} ms, loop {ms['loop']:.1f}"
        figure = f"layer-norm LSTM {batch, steps, inputs, hidden} against a loop"
        report.add(figure, ratios[-1], 2.5, shown, job=mine)
    print(f"layer-norm LSTM against a loop, geometric mean: {geometric_mean(ratios):.2f}x")


def growth() -> None:
    print("\nmilliseconds forward + backward of the LSTM as one size grows")
    for name, sizes in {
        "steps": [(32, steps, 256, 256) for steps in (16, 32, 64, 128, 256)],
        "batch": [(batch, 35, 256, 256) for batch in (1, 4, 16, 64, 256)],
        "hidden": [(32, 35, 256, hidden) for hidden in (64, 128, 256, 512, 1024)],
    }.items():
        shown = []
        for batch, steps, inputs, hidden in sizes:
            x = torch.randn(batch, steps, inputs, requires_grad=True)
            job = both_ways(nn.LSTM(inputs, hidden, batch_first=True), x)
            shown.append(
                f"{ {'batch': batch, 'steps': steps, 'hidden': hidden}[name] }: {alternating(5, ours=job)['ours']:.1f}"
            )
        print(f"  {name:<7}" + ",  ".join(shown))


if __name__ == "__main__":
    sys.exit(main())
