"""Exported files: how fast a step is beside ONNX Runtime's own LSTM nodes, how large files are, how far they are off.

    python benchmarks/export.py [--hidden 512] [--layers 2] [--rounds 60] [--json FILE]
    python benchmarks/export.py --table [--targets onnx,c] [--all] [--cells FILE] [--write docs/export.md]

Speed: a character LSTM with drawn weights, one row, one thread, the state carried from call to call through Python.
Beside it a graph with nothing but that many LSTM nodes of that size, fed in the same way. Rounds of 5 steps take
turns, and the fastest round of each counts. `--table`: see export_table.py; with `--all` every option of every cell as
well.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from report import Report, machine
from thereafter.export.onnx.cells import GraphWeights, by_operator
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.model import TARGET, OnnxRunner, model_bytes, session
from thereafter.export.plan import RecurrentPlan, plan_of
from thereafter.export.targets import TARGETS

sys.path.append(str(Path(__file__).parents[1] / "tests" / "export"))

STEPS = 5


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hidden", type=int, default=512)
    options.add_argument("--layers", type=int, default=2)
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("--json", type=Path)
    options.add_argument("--table", action="store_true", help="print the table of docs/export.md")
    options.add_argument("--targets", default=",".join(TARGETS))
    options.add_argument("--write", type=Path, metavar="PAGE", help="put the table between the marks of a page")
    options.add_argument("--cells", type=Path, metavar="FILE", help="figures that are known, and where new ones go")
    options.add_argument("--all", action="store_true", help="every option of every cell")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.table:
        return print_table(given.targets.split(","), given.all, given.write, given.cells)
    print(machine(), end="\n\n")
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        measure(report, Path(folder), given.hidden, given.layers, given.rounds)
    return report.close(given.json)


def print_table(targets: list[str], every: bool, page: Path | None, cells: Path | None) -> int:
    """The tables of docs/export.md, line by line as they are made."""
    from export_table import Kept, is_built, table, task_table, written

    lines, kept = [], Kept(cells)
    for line in chain(table([name for name in targets if is_built(name)], every, kept), [""], task_table(kept)):
        print(line, flush=True)
        lines.append(line)
    if page is not None:
        written(page, lines)
    return 0


def measure(report: Report, folder: Path, hidden: int, layers: int, rounds: int) -> None:
    from step_models import CASES, toy

    CASES["benchmark"] = ("lstm", {"hidden": hidden, "layers": layers})
    plan = plan_of(toy("benchmark"))
    assert isinstance(plan, RecurrentPlan)
    (folder / "int8").mkdir()
    path = TARGET.write(plan, folder / "m.onnx", int8=False).paths[0]
    small = TARGET.write(plan, folder / "int8" / "m.onnx", int8=True).paths[0]
    seconds = fastest(
        {"nodes": nodes(plan, folder / "nodes.onnx"), "step": stepper(path), "int8": stepper(small)}, rounds
    )
    beside = ", ".join(f"{name} {1e6 * took:.0f} us" for name, took in seconds.items())
    report.add("onnx step / ONNX Runtime's LSTM nodes", seconds["nodes"] / seconds["step"], 0.9, beside)
    report.add("int8 step / ONNX Runtime's LSTM nodes", seconds["nodes"] / seconds["int8"])
    report.add("onnx file, MB", path.stat().st_size / 1e6)
    report.add("int8 file / file", small.stat().st_size / path.stat().st_size, 0.27, at_least=False)


def stepper(path: Path) -> Callable[[], object]:
    """One step of an exported file."""
    runner, token = OnnxRunner(path), np.array([5])
    runner.start(1)
    return lambda: runner.step(token)


def nodes(plan: RecurrentPlan, path: Path) -> Callable[[], object]:
    """One step of a graph that is nothing but LSTM nodes."""
    g = Graph("nodes")
    w, size = GraphWeights(g), plan.embedding.shape[1]
    x, states = g.input("x", np.float32, [1, "B", size]), []
    for layer in plan.layers:
        before = [g.input(part.name, np.float32, ["B", *part.shape]) for part in layer.lane.state()]
        x, after = by_operator(w, layer.lane, x, "", before)
        states += list(zip(before, after, strict=True))
    for name, after_name in states:
        g.output(after_name, f"next_{name}", np.float32, None)
    path.write_bytes(model_bytes(g, {}))
    run, names = session(path), [name for name, _ in states]
    given = {"x": np.zeros((1, 1, size), np.float32)} | {name: np.zeros((1, size), np.float32) for name in names}

    def step() -> None:
        given.update(zip(names, run.run(None, given), strict=True))

    return step


def fastest(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of a step, of the fastest of so many rounds that take turns."""
    best = dict.fromkeys(steps, float("inf"))
    for turn in range(rounds + 1):
        for name, step in steps.items():
            began = time.perf_counter()
            for _ in range(STEPS):
                step()
            if turn:
                best[name] = min(best[name], (time.perf_counter() - began) / STEPS)
    return best


if __name__ == "__main__":
    sys.exit(main())
