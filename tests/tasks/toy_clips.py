"""Clips of a bright square that goes one of four ways: learned in seconds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WAYS = {"E": (0, 1), "N": (-1, 0), "S": (1, 0), "W": (0, -1)}
SIZES = {"small": 2, "large": 4}
SIDE = 12
SAVED = Path(__file__).parent / "clips"
"""Questions that are there before any test, of several lengths."""
QUESTIONS = {"large-E": 5, "small-N": 4, "large-W": 6, "small-S": 9}


def square_clip(size: str, way: str, frames: int, draw: random.Random) -> NDArray[np.uint8]:
    """A square that goes on its way, a pixel a frame, and comes in again at the other side; uint8 [T, H, W]."""
    side, (down, right) = SIZES[size], WAYS[way]
    first = np.zeros((SIDE, SIDE), np.uint8)
    first[:side, :side] = draw.randint(180, 255)
    row, column = draw.randrange(SIDE), draw.randrange(SIDE)
    return np.stack([np.roll(first, (row + step * down, column + step * right), (0, 1)) for step in range(frames)])


def labelled_clips(path: Path, count: int = 60, seed: int = 1) -> Path:
    """Clips with two labels each, the size of the square and its way, as .npz."""
    draw = random.Random(seed)
    labels = [(draw.choice(list(SIZES)), draw.choice(list(WAYS))) for _ in range(count)]
    frames = np.stack([square_clip(size, way, 6, draw) for size, way in labels])
    path, sizes, ways = path.with_suffix(".npz"), *(np.array(column) for column in zip(*labels, strict=True))
    np.savez_compressed(path, frames=frames, size=sizes, way=ways)
    return path


def bare_clips(path: Path, count: int = 60, seed: int = 1) -> Path:
    """The same without labels."""
    with np.load(labelled_clips(path, count, seed)) as arrays:
        frames = arrays["frames"]
    np.savez_compressed(path.with_suffix(".npz"), frames=frames)
    return path.with_suffix(".npz")


def question_files() -> tuple[str, ...]:
    """The paths of the saved clips, the longest last."""
    return tuple(str(SAVED / f"{name}.npz") for name in QUESTIONS)


def save_questions() -> None:
    """Write the questions; they lie here already."""
    draw = random.Random(7)
    for name, frames in QUESTIONS.items():
        size, way = name.split("-")
        clip = square_clip(size, way, frames, draw)
        np.savez_compressed(SAVED / f"{name}.npz", frames=clip[None])
