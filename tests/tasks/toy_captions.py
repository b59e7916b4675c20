"""Pictures of one colour with a bright half, and captions that say both: learned in seconds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

COLOURS = {"red": (200, 30, 30), "green": (20, 170, 40), "blue": (30, 40, 210)}
HALVES = ("top", "bottom")
SAVED = Path(__file__).parent / "pictures"
"""Questions that are there before any test: the first three are of several sizes."""
QUESTIONS = ("red-top", "blue-bottom", "green-bottom", "blue-top")


def painted(colour: str, half: str, draw: random.Random, side: int = 12) -> NDArray[np.uint8]:
    """uint8 [side, side, 3]."""
    noise = np.random.default_rng(draw.getrandbits(32)).integers(-25, 26, (side, side, 3))
    pixels = np.array(COLOURS[colour]) + noise
    rows = slice(0, side // 2) if half == "top" else slice(side // 2, side)
    pixels[rows] += 90
    return pixels.clip(0, 255).astype(np.uint8)


def captions_of(colour: str, half: str) -> list[str]:
    """Two, as people would write them."""
    return [f"A {colour} picture , bright at the {half} .", f"The {half} of the {colour} field is bright ."]


def captioned(path: Path, count: int = 60, seed: int = 1) -> Path:
    """A table of captions, with the pictures in a folder beside it."""
    draw = random.Random(seed)
    folder = path.parent / "pictures"
    folder.mkdir(exist_ok=True)
    lines = ["image\tcaption"]
    for number in range(count):
        colour, half = draw.choice(list(COLOURS)), draw.choice(HALVES)
        Image.fromarray(painted(colour, half, draw)).save(folder / f"{number}.png")
        lines += [f"{number}.png\t{caption}" for caption in captions_of(colour, half)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> None:
    """Write the questions."""
    draw = random.Random(5)
    for name, side in zip(QUESTIONS, (12, 20, 16, 24), strict=True):
        Image.fromarray(painted(*name.partition("-")[::2], draw, side)).save(SAVED / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
