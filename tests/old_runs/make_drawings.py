"""Writes the run folders of a network that draws, beside those of `make.py`; not to be run again either.

    cd tests && python -m old_runs.make_drawings

It learns from the pictures of `make_pictures.py`: trained to its end and stopped on its way, by the code of the day on
which this task came.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from old_runs.make import HERE, STEPS, Made, make, shortened

OPTIONS: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.02, "hidden": 4, "latent": 2, "strokes": 3, "epochs": 16}
RUNS = {"draw": Made("lit.npz", {**OPTIONS, "write": 3, "dropout": 0.1}, 47, task="draw")}


def main() -> None:
    import tempfile

    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        os.environ["THEREAFTER_CACHE"] = f"{work}/cache"
        os.chdir(HERE / "texts")
        made = {name: make(name, one, Path(work)) for name, one in RUNS.items()}
    path = HERE / "expected.json"
    expected = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(expected | shortened(made), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
