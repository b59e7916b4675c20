"""Writes the run folders of a network that draws, beside those of `make.py`; not to be run again either.

    cd tests && python -m old_runs.make_drawings

It learns from the pictures of `make_pictures.py`: trained to its end and stopped on its way, by the code of the day on
which this task came.
"""

from __future__ import annotations

from typing import Any

from old_runs.make import STEPS, Made, add_runs

OPTIONS: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.02, "hidden": 4, "latent": 2, "strokes": 3, "epochs": 16}
RUNS = {"draw": Made("lit.npz", {**OPTIONS, "write": 3, "dropout": 0.1}, 47, task="draw")}


def main() -> None:
    add_runs(RUNS)


if __name__ == "__main__":
    main()
