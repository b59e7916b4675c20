"""Small grey pictures whose label is where they are bright: learned in seconds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PLACES = ("top", "bottom", "left")
SAVED = Path(__file__).parent / "pictures" / "grey"
"""Questions that are there before any test, of several sizes."""
QUESTIONS = ("top", "bottom", "left", "top-large")


def lit(place: str, draw: random.Random, side: int = 6) -> NDArray[np.uint8]:
    """uint8 [side, side], bright in one half."""
    pixels = np.random.default_rng(draw.getrandbits(32)).integers(0, 80, (side, side))
    half = slice(0, side // 2) if place != "bottom" else slice(side // 2, side)
    pixels[(slice(None), half) if place == "left" else (half, slice(None))] += 150
    return pixels.astype(np.uint8)


def labelled_pictures(path: Path, count: int = 60, seed: int = 1) -> Path:
    """A table of labels, with the pictures in a folder beside it."""
    draw = random.Random(seed)
    folder = path.parent / "lit"
    folder.mkdir(exist_ok=True)
    lines = ["image\tlabel"]
    for number in range(count):
        place = draw.choice(PLACES)
        Image.fromarray(lit(place, draw)).save(folder / f"{number}.png")
        lines.append(f"{number}.png\t{place}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def stacked_pictures(path: Path, count: int = 60, seed: int = 1) -> Path:
    """The same as arrays, .npz."""
    draw = random.Random(seed)
    places = [draw.choice(PLACES) for _ in range(count)]
    np.savez_compressed(path, pixels=np.stack([lit(place, draw) for place in places]), labels=np.array(places))
    return path


def bare_pictures(path: Path, count: int = 60, seed: int = 1) -> Path:
    """The same as arrays without labels."""
    with np.load(stacked_pictures(path.with_suffix(".npz"), count, seed)) as arrays:
        pixels = arrays["pixels"]
    np.savez_compressed(path.with_suffix(".npz"), pixels=pixels)
    return path.with_suffix(".npz")


def main() -> None:
    """Write the questions."""
    draw = random.Random(5)
    SAVED.mkdir(parents=True, exist_ok=True)
    for name, side in zip(QUESTIONS, (6, 9, 8, 12), strict=True):
        Image.fromarray(lit(name.partition("-")[0], draw, side)).save(SAVED / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
