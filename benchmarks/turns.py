"""Whether a change made anything slower: one benchmark, two checkouts, taking turns.

    python benchmarks/turns.py --against CHECKOUT [--turns 9] [--json FILE] BENCHMARK [ITS OPTIONS]
    python benchmarks/turns.py --against ../before training.py --only training --rounds 1 --steps 6

Each turn runs the benchmark of one checkout in a process of its own, with the package of that checkout; which of them
goes first changes from turn to turn. A figure is the median over the turns; `new / old` is the median of the ratios of
neighbouring turns, with the middle half of them beside it: a busy minute falls on both. Whether larger is better is the
benchmark's matter. A first run of each, which compiles, is thrown away.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from report import machine

HERE = Path(__file__).resolve().parents[1]
Figures = dict[str, float]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", type=Path, required=True, metavar="CHECKOUT", help="the older checkout")
    options.add_argument("--turns", type=int, default=9)
    options.add_argument("--json", type=Path)
    options.add_argument("benchmark", help="a file of benchmarks/")
    options.add_argument("rest", nargs=argparse.REMAINDER, help="options of the benchmark")
    given = options.parse_args()
    checkouts = {"old": given.against.resolve(), "new": HERE}
    print(machine(), end="\n\n", flush=True)
    measured: dict[str, list[Figures]] = {"old": [], "new": []}
    try:
        for turn in range(given.turns + 1):
            figures = {}
            for name in ("old", "new") if turn % 2 else ("new", "old"):
                figures[name] = run(checkouts[name], given.benchmark, given.rest)
            if turn:
                for name, turns in measured.items():
                    turns.append(figures[name])
            print(f"turn {turn} of {given.turns}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"stopped after {len(measured['new'])} turns", file=sys.stderr, flush=True)
    if not measured["new"]:
        return 1
    rows = compared(measured["old"], measured["new"])
    for figure, (old, new, ratio, low, high) in rows.items():
        print(f"{figure:<60} old {old:<10.4g} new {new:<10.4g} new / old {ratio:.3f} ({low:.3f} to {high:.3f})")
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine(), "rows": rows, "measured": measured}, indent=1))
    return 0


def run(checkout: Path, benchmark: str, rest: list[str]) -> Figures:
    """The figures of one run, by name."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        script = checkout / "benchmarks" / benchmark
        env = os.environ | {"PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, str(script), *rest, "--json", str(figures)]
        done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True)
        if not figures.is_file():  # exit code 1 is a missed requirement, not a failure
            raise SystemExit(f"{script} failed:\n{done.stdout}\n{done.stderr}")
        found = json.loads(figures.read_text())
    rows = found["figures"] if isinstance(found, dict) else found
    return dict(map(figure_of, rows))


def figure_of(row: dict[str, Any]) -> tuple[str, float]:
    """Name and value of a row. One of `kernels.py` is the milliseconds of the kernel that `auto` takes."""
    if "figure" in row:
        return row["figure"], float(row["got"] if "got" in row else row["measured"])
    options = " ".join(f"{name}={value}" for name, value in row["options"].items())
    work = "training" if row["learning"] else "inference"
    return f"{row['cell']} {options} {tuple(row['sizes'])} {work}, ms", float(row["ms"][row["auto"]])


def compared(old: list[Figures], new: list[Figures]) -> dict[str, tuple[float, float, float, float, float]]:
    """By figure: both medians, the median ratio, and the middle half of the ratios."""
    rows = {}
    for figure in (name for name in old[0] if all(name in turn for turn in (*old, *new))):
        ratios = [b[figure] / a[figure] for a, b in zip(old, new, strict=True)]
        low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        rows[figure] = (
            median(turn[figure] for turn in old), median(turn[figure] for turn in new), median(ratios), low, high,
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    sys.exit(main())
