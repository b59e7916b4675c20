"""The loss over a large vocabulary, in pieces, against the plain way: peak memory and time.

    python benchmarks/softmax.py [--rounds 9] [--json FILE] [--quick]

Memory: what one step forward and backward adds to the peak of a fresh process, for more and more tokens a batch. Time:
medians of alternating rounds in one process. The plain way is F.cross_entropy(F.linear(f, W, b), targets).
Exit code 1 if the memory grows with the number of logits, or if the pieces are slower than the plain way.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from report import machine
from thereafter.layers.heads import Softmax

MEGA = 1e6
WORDS, FEATURES = 50_000, 256
TOKENS = (700, 1400, 2800)
TIMED = [(700, 10_000, 200), (700, 10_000, 650), (700, 50_000, 256)]
GROWTH = 0.1
"""The share of the logits' own growth that memory may grow by: features and their gradients grow, logits must not."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--json", type=Path)
    options.add_argument("--quick", action="store_true", help="fewer rounds")
    options.add_argument("--worker", nargs=2, metavar=("WAY", "TOKENS"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.worker:
        print(peak_of_a_step(given.worker[0], int(given.worker[1])))
        return 0
    torch.set_num_threads(torch.get_num_threads())  # said aloud, so that the product library does not choose fewer
    print(machine(), end="\n\n")
    missed: list[str] = []
    rows = memory(missed) + speed(3 if given.quick else given.rounds, missed)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    print("\n" + ("every requirement holds" if not missed else "MISSED: " + ", ".join(missed)))
    return 1 if missed else 0


def memory(missed: list[str]) -> list[dict[str, object]]:
    """Peak megabytes of one step by each way, and how they grow."""
    print(f"peak memory of one step, {WORDS:,} words, {FEATURES} features, MB above the process before it")
    print(f"{'tokens':>8} {'logits alone':>14} {'plain':>10} {'in pieces':>10}")
    found: dict[str, list[float]] = {"plain": [], "pieces": []}
    rows: list[dict[str, object]] = []
    for tokens in TOKENS:
        for way in found:
            found[way].append(in_fresh_process(way, tokens))
        logits = 4 * tokens * WORDS / MEGA
        plain, pieces = (found[way][-1] for way in ("plain", "pieces"))
        print(f"{tokens:>8,} {logits:>14,.0f} {plain:>10,.0f} {pieces:>10,.0f}")
        rows.append({"tokens": tokens, "logits_mb": logits, "plain_mb": plain, "pieces_mb": pieces})
    more = 4 * (TOKENS[-1] - TOKENS[0]) * WORDS / MEGA
    for way, peaks in found.items():
        print(f"{way}: {peaks[-1] - peaks[0]:,.0f} MB more for {more:,.0f} MB more of logits")
    if found["pieces"][-1] - found["pieces"][0] > GROWTH * more:
        missed.append("memory does not grow with steps x batch x vocabulary")
    if found["plain"][-1] - found["plain"][0] <= GROWTH * more:
        missed.append("the plain way grows (the measurement can fail)")
    return rows


def in_fresh_process(way: str, tokens: int) -> float:
    command = [sys.executable, __file__, "--worker", way, str(tokens)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peak_of_a_step(way: str, tokens: int) -> float:
    """Megabytes that one step adds to this process' peak; a tiny one goes before, so that libraries are there."""
    torch.manual_seed(0)
    step_of(way, 8, 100, FEATURES)()
    step = step_of(way, tokens, WORDS, FEATURES)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step()
    unit = 1 if sys.platform == "darwin" else 1024
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit / MEGA


def step_of(way: str, tokens: int, words: int, features: int) -> Callable[[], Tensor]:
    """One way forward and back, for features, matrix and bias."""
    head = Softmax(features, words)
    f = torch.randn(tokens, features, requires_grad=True)
    targets = torch.randint(0, words, (tokens,))

    def step() -> Tensor:
        head.zero_grad()
        f.grad = None
        if way == "plain":
            loss = F.cross_entropy(F.linear(f, head.weight, head.bias), targets)
        else:
            loss = head.total(f, targets) / tokens
        loss.backward()
        return loss.detach()

    return step


def speed(rounds: int, missed: list[str]) -> list[dict[str, object]]:
    """Median milliseconds of a step by each way."""
    print(f"\ntime of one step, medians of {rounds} rounds")
    print(f"{'tokens x words x features':>28} {'plain':>10} {'in pieces':>10}")
    rows: list[dict[str, object]] = []
    for tokens, words, features in TIMED:
        torch.manual_seed(0)
        plain = step_of("plain", tokens, words, features)
        torch.manual_seed(0)
        pieces = step_of("pieces", tokens, words, features)
        torch.testing.assert_close(pieces(), plain())
        times = alternating(rounds, {"plain": plain, "pieces": pieces})
        ratio = times["plain"] / times["pieces"]
        size = f"{tokens:,} x {words:,} x {features}"
        good = ratio >= 1.0
        print(
            f"{size:>28} {times['plain']:>8.1f}ms {times['pieces']:>8.1f}ms  {ratio:.2f}x  {'ok' if good else 'MISSED'}"
        )
        rows.append({"size": size, "plain_ms": times["plain"], "pieces_ms": times["pieces"], "ratio": ratio})
        if not good:
            missed.append(f"not slower at {size}")
    return rows


def alternating(rounds: int, jobs: dict[str, Callable[[], Tensor]]) -> dict[str, float]:
    """Median milliseconds of each job, the jobs taking turns in an order drawn anew each round."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    draw, order = random.Random(0), list(jobs)
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            began = time.perf_counter()
            jobs[name]()
            times[name].append(1e3 * (time.perf_counter() - began))
    return {name: sorted(values)[len(values) // 2] for name, values in times.items()}


if __name__ == "__main__":
    sys.exit(main())
