"""Writes the run folders of tasks over series of numbers, beside those of `make.py`; not to be run again either.

    cd tests && python -m old_runs.make_series

A forecaster and a classifier of series, each trained to its end and stopped on its way, by the code of the day on which
these tasks came.
"""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path
from typing import Any

from old_runs.make import HERE, STEPS, Made, make, shortened

SERIES: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.03, "hidden": 4, "layers": 1}
RUNS = {
    "forecast": Made(
        "load.csv",
        {**SERIES, "horizon": 3, "lookback": 8, "season": 4, "model": "lstm", "head": "gaussian", "epochs": 8},
        40,
        task="forecast",
    ),
    "classify-series": Made("shapes.csv", {**SERIES, "epochs": 20}, 40, task="classify-series"),
}


def write_series(folder: Path) -> None:
    """A season with noise; series that rise or fall."""
    draw = random.Random(21)
    rows = [f"{k},{5 + 3 * math.sin(math.pi * k / 2) + draw.gauss(0, 0.3):.3f}" for k in range(120)]
    (folder / "load.csv").write_text("\n".join(["row,load", *rows]) + "\n", encoding="utf-8")
    lines = ["series,value,label"]
    for number in range(40):
        label, slope = (("up", 1.0), ("down", -1.0))[number % 2]
        lines += [f"s{number},{slope * step + draw.gauss(0, 0.5):.3f},{label}" for step in range(draw.randint(4, 7))]
    (folder / "shapes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    import tempfile

    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        os.environ["THEREAFTER_CACHE"] = f"{work}/cache"
        write_series(HERE / "texts")
        os.chdir(HERE / "texts")
        path = HERE / "expected.json"
        expected = json.loads(path.read_text(encoding="utf-8"))
        made = {name: make(name, one, Path(work)) for name, one in RUNS.items()}
    path.write_text(json.dumps(expected | shortened(made), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
