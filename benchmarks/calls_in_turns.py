"""Whether a change made a recurrent layer slower: two checkouts, call by call in turns, in two processes that stay.

    python benchmarks/calls_in_turns.py --against CHECKOUT [--rounds 60] [--json FILE]

`turns.py` runs whole benchmarks in turns, minutes apart; on a machine whose speed changes by the second that says
little. Here a call of the old checkout stands beside a call of the new one. A call is a forward and a backward pass of
the kernel that `auto` takes. `new / old` is the median of the ratios of neighbouring calls in speed (above 1: faster),
with the middle half of them, and the ratio of the fastest calls.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import IO

from report import machine

HERE = Path(__file__).resolve().parents[1]
CELLS = (
    "LSTM {}",
    'LSTM {"peephole": true}',
    'LSTM {"layer_norm": true}',
    'LSTM {"proj_size": 16}',
    "GRU {}",
    'GRU {"reset": "before"}',
    "RNN {}",
    "MinGRU {}",
)
SIZES = ((32, 35, 256, 256), (20, 70, 400, 1150), (64, 100, 128, 128), (1, 100, 256, 256), (20, 3, 512, 512))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", type=Path, help="the older checkout")
    options.add_argument("--rounds", type=int, default=60, help="calls of small sizes; large ones get a quarter")
    options.add_argument("--json", type=Path)
    options.add_argument("--answer", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.answer:
        return answer(Path(given.answer))
    if given.against is None:
        options.error("--against CHECKOUT is needed")
    print(machine(), end="\n\n", flush=True)
    workers = {name: Worker(place) for name, place in (("old", given.against.resolve()), ("new", HERE))}
    rows = {}
    for cell in CELLS:
        for size in SIZES:
            rounds = max(8, given.rounds // 4) if size[3] > 1000 else given.rounds
            row = measure(workers, f"{cell}\t{json.dumps(size)}", rounds)
            rows[f"{cell} {size}"] = row
            print(f"{cell + ' ' + str(size):<56} {row['text']}", flush=True)
    print(f"\ngeometric mean of new / old: {geometric_mean(row['ratio'] for row in rows.values()):.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))
    return 0


class Worker:
    """A process with the package of one checkout, which times a call whenever it is asked."""

    def __init__(self, checkout: Path) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--answer", str(checkout)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, call: str) -> float:
        stdin, stdout = self._pipes()
        stdin.write(call + "\n")
        stdin.flush()
        return float(stdout.readline())

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        return self._process.stdin, self._process.stdout


def measure(workers: dict[str, Worker], call: str, rounds: int) -> dict[str, object]:
    for worker in workers.values():
        for _ in range(3):
            worker.seconds(call)
    times: dict[str, list[float]] = {"old": [], "new": []}
    for turn in range(rounds):
        for name in ("old", "new") if turn % 2 else ("new", "old"):
            times[name].append(workers[name].seconds(call))
    ratios = [old / new for old, new in zip(times["old"], times["new"], strict=True)]
    low, middle, high = quantiles(ratios, n=4)
    fastest = min(times["old"]) / min(times["new"])
    text = (
        f"old {1e3 * median(times['old']):8.2f} ms  new {1e3 * median(times['new']):8.2f} ms  "
        f"new / old {middle:.3f} ({low:.3f} to {high:.3f}), fastest {fastest:.3f}"
    )
    return {"text": text, "ratio": middle, "low": low, "high": high, "fastest": fastest}


def answer(checkout: Path) -> int:
    """Time the calls that standard input names, with the package of a checkout."""
    sys.path.insert(0, str(checkout / "src"))
    import torch

    import thereafter.nn as layers

    if not Path(layers.__file__).is_relative_to(checkout):
        raise SystemExit(f"{layers.__file__} is not of {checkout}")
    torch.manual_seed(0)
    made = {}
    for line in sys.stdin:
        if line not in made:
            cell, size = line.rstrip("\n").split("\t")
            name, _, rest = cell.partition(" ")
            batch, steps, inputs, hidden = json.loads(size)
            layer = vars(layers)[name](inputs, hidden, batch_first=True, **json.loads(rest))
            made[line] = layer, torch.randn(batch, steps, inputs, requires_grad=True)
        layer, x_BTI = made[line]
        began = time.perf_counter()
        layer(x_BTI)[0].sum().backward()
        print(time.perf_counter() - began, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
