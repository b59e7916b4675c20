"""What the commands save of a network that draws: new pictures, side by side in one PNG."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import typer
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.storage import replacing

MOST_PICTURES = 4_096
_BETWEEN = 2  # pixels between two pictures
_GREY = 128


def draws(run: str) -> bool:
    """Whether a run holds a network that draws."""
    from thereafter.runs import folder

    return folder.read_config(Path(run))[0].get("task") == "draw"


def save_samples(run: str, count: int, seed: int, figure: Path | None) -> None:
    """Draw new pictures and save them: to `figure`, else to samples.png in the current folder."""
    from thereafter import progress
    from thereafter.figures.pixels import png
    from thereafter.models.drawer import Drawer
    from thereafter.task_model import load_task
    from thereafter.terminal import show_progress

    path = figure or Path("samples.png")
    if path.suffix.lower() != ".png":
        raise OptionError(f"--figure is {path.name!r}; expected a name that ends in .png; try {path.stem}.png")
    if not 1 <= count <= MOST_PICTURES:
        raise OptionError(f"--samples is {count}; expected 1 to {MOST_PICTURES:,} pictures")
    net = load_task(run).net
    if not isinstance(net, Drawer):
        raise OptionError(f"{run} predicts every pixel by itself and draws no pictures; expected one with model='draw'")
    with show_progress(), progress.task("drawing pictures"):
        chances_NCHW = net.sample(count, seed).cpu().numpy()
    with replacing(path) as beside:
        beside.write_bytes(png(contact_sheet(np.rint(255 * chances_NCHW).astype(np.uint8))))
    typer.echo(f"saved {path}: {count:,} pictures, seed {seed}")


def contact_sheet(pictures_NCHW: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pictures in rows, about as many rows as columns, [rows of pixels, columns of pixels, C].

    >>> contact_sheet(np.zeros((5, 1, 4, 4), np.uint8)).shape
    (14, 20, 1)
    """
    count, channels, height, width = pictures_NCHW.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    sheet = np.full((rows * (height + _BETWEEN) + _BETWEEN, columns * (width + _BETWEEN) + _BETWEEN, channels), _GREY)
    for at, picture_CHW in enumerate(pictures_NCHW):
        y, x = (_BETWEEN + (size + _BETWEEN) * k for size, k in zip((height, width), divmod(at, columns), strict=True))
        sheet[y : y + height, x : x + width] = np.moveaxis(picture_CHW, 0, 2)
    return sheet.astype(np.uint8)
