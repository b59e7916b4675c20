"""Writes the run folder of a classifier of pictures, beside those of `make.py`; not to be run again either.

    cd tests && python -m old_runs.make_pictures

Trained to its end and stopped on its way, by the code of the day on which this task came.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from old_runs.make import HERE, STEPS, Made, add_runs

OPTIONS: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.03, "hidden": 4, "layers": 1, "epochs": 16}
RUNS = {
    "classify-pictures": Made(
        "lit.npz",
        {**OPTIONS, "read": "permuted", "encoder": "mingru", "stack": "residual", "pooling": "mean", "memory": 16},
        40,
        task="classify-pictures",
    )
}


def write_pictures(folder: Path) -> None:
    """Grey pictures of 4 x 4 that are bright at the top or at the bottom, and two to ask about."""
    rng = np.random.default_rng(22)
    pixels = rng.integers(0, 80, (50, 4, 4))
    labels = np.array(["top", "bottom"] * 25)
    pixels[::2, :2] += 150
    pixels[1::2, 2:] += 150
    np.savez_compressed(folder / "lit.npz", pixels=pixels[:48].astype(np.uint8), labels=labels[:48])
    for name, one in zip(("lit-top", "lit-bottom"), pixels[48:].astype(np.uint8), strict=True):
        np.save(folder / f"{name}.npy", one[None])


def main() -> None:
    write_pictures(HERE / "texts")
    add_runs(RUNS)


if __name__ == "__main__":
    main()
