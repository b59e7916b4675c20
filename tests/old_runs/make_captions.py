"""Writes the run folders of captioners, beside those of `make.py`; not to be run again either.

    cd tests && python -m old_runs.make_captions

Captions of pictures of a few pixels, which are kept as an array: trained to its end and stopped on its way, by the code
of the day on which this task came.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from old_runs.make import HERE, STEPS, Made, make, shortened

COLOURS = {"red": (200, 30, 30), "green": (20, 170, 40), "blue": (30, 40, 210)}
OPTIONS: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.03, "hidden": 4, "embed": 4, "width": 2, "stages": 2}
RUNS = {
    "caption": Made(
        "captioned",
        {**OPTIONS, "min_count": 1, "flip": False, "dropout": 0.1, "bag": 1.0, "epochs": 24},
        47,
        task="caption",
    )
}


def write_pictures(folder: Path) -> None:
    """Pictures of one colour, of which the upper or the lower half is bright."""
    folder.mkdir(exist_ok=True)
    rng, lines, pictures = np.random.default_rng(22), ["image\tcaption"], []
    for number in range(40):
        colour, half = list(COLOURS)[int(rng.integers(3))], ("top", "bottom")[int(rng.integers(2))]
        pixels = np.array(COLOURS[colour]) + rng.integers(-20, 21, (8, 8, 3))
        pixels[slice(0, 4) if half == "top" else slice(4, 8)] += 90
        pictures.append(pixels.clip(0, 255).astype(np.uint8))
        lines += [f"{number}\tA {colour} picture .", f"{number}\t{colour} , bright at the {half}"]
    np.savez_compressed(folder / "pictures.npz", pictures=np.stack(pictures))
    (folder / "captions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, picture in {"one": pictures[0], "other": pictures[3]}.items():
        np.save(folder.parent / f"picture-{name}.npy", picture[None])


def main() -> None:
    import tempfile

    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        os.environ["THEREAFTER_CACHE"] = f"{work}/cache"
        write_pictures(HERE / "texts" / "captioned")
        os.chdir(HERE / "texts")
        path = HERE / "expected.json"
        expected = json.loads(path.read_text(encoding="utf-8"))
        made = {name: make(name, one, Path(work)) for name, one in RUNS.items()}
    path.write_text(json.dumps(expected | shortened(made), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
