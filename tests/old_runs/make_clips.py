"""Writes the run folders of tasks over clips, beside those of `make.py`; not to be run again either.

    cd tests && python -m old_runs.make_clips

A classifier of clips and a predictor of frames, each trained to its end and stopped on its way, by the code of the day
on which these tasks came.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from old_runs.make import HERE, STEPS, Made, make, shortened

OPTIONS: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.02, "hidden": 4, "layers": 1}
RUNS = {
    "video": Made("squares.npz", {**OPTIONS, "width": 4, "stages": 1, "epochs": 20}, 40, task="video"),
    "next-frames": Made(
        "going.npz", {**OPTIONS, "patch": 2, "kernel": 3, "read": 3, "epochs": 16}, 47, task="next-frames"
    ),
}


def write_clips(folder: Path) -> None:
    """Small and large squares that go to the right in the upper or the lower half; and two clips to ask about."""
    rng = np.random.default_rng(22)
    frames = np.zeros((50, 5, 8, 8), np.uint8)
    for number, clip_THW in enumerate(frames):
        side, row, column = 1 + 2 * (number % 2), 5 * (number // 2 % 2), int(rng.integers(8))
        clip_THW[0, row : row + side, :side] = rng.integers(150, 256)
        for step in reversed(range(5)):
            clip_THW[step] = np.roll(clip_THW[0], column + step, axis=1)
    sizes, halves = np.array(["small", "large"] * 25), np.array(["top", "top", "bottom", "bottom"] * 13)[:50]
    np.savez_compressed(folder / "squares.npz", frames=frames[:48], size=sizes[:48], half=halves[:48])
    np.savez_compressed(folder / "going.npz", frames=frames[:48])
    for name, clip_THW in zip(("small", "large"), frames[48:], strict=True):
        np.save(folder / f"square-{name}.npy", clip_THW)


def main() -> None:
    import tempfile

    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        os.environ["THEREAFTER_CACHE"] = f"{work}/cache"
        write_clips(HERE / "texts")
        os.chdir(HERE / "texts")
        made = {name: make(name, one, Path(work)) for name, one in RUNS.items()}
    path = HERE / "expected.json"
    expected = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(expected | shortened(made), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
