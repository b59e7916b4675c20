"""What the commands save of networks that draw or look: new pictures as one PNG or as arrays, strokes, glimpses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer
from numpy.typing import NDArray

from thereafter.base.storage import replacing
from thereafter.cli.task_hints import ARRAYS
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel
    from thereafter.tasks.answers import Explained

MOST_PICTURES = 4_096
_BETWEEN = 2  # pixels between two pictures
_GREY = 128


def save_samples(
    run: str, count: int, seed: int, figure: Path | None, out: Path | None = None, *, device: str = "cpu"
) -> None:
    """Draw new pictures and save them: side by side to `figure`, as arrays to `out`; without both to samples.png in the
    current folder.

    The arrays are `pixels`, 0 to 255, [N, H, W, C], which can be read again as pictures, and `chances`, the chance of
    each pixel to be lit.
    """
    from thereafter.base import progress
    from thereafter.base.terminal import show_progress
    from thereafter.figures.pictures import png
    from thereafter.task_model import load_task
    from thereafter.vision.drawing.network import Drawer

    sheet = Path("samples.png") if figure is None and out is None else figure
    for option, path, ending in (("--figure", sheet, ".png"), ("--out", out, ARRAYS)):
        if path is not None and path.suffix.lower() != ending:
            raise OptionError(
                f"{option} is {path.name!r}; expected a name that ends in {ending}; try {path.stem}{ending}"
            )
    if not 1 <= count <= MOST_PICTURES:
        raise OptionError(f"--samples is {count:,}; expected 1 to {MOST_PICTURES:,} pictures")
    net = load_task(run, device=device).net
    if not isinstance(net, Drawer):
        raise OptionError(f"{run} predicts every pixel by itself and draws no pictures; expected one with model='draw'")
    with show_progress(), progress.task("drawing pictures"):
        chances_NCHW = net.sample(count, seed).cpu().numpy()
    pixels_NCHW = np.rint(255 * chances_NCHW).astype(np.uint8)
    if sheet is not None:
        with replacing(sheet) as beside:
            beside.write_bytes(png(contact_sheet(pixels_NCHW)))
    if out is not None:
        arrays = {"pixels": np.moveaxis(pixels_NCHW, 1, 3), "chances": np.moveaxis(chances_NCHW, 1, 3)}
        with replacing(out) as beside, beside.open("wb") as file:
            np.savez_compressed(file, **arrays)
    names = " and ".join(str(path) for path in (sheet, out) if path is not None)
    typer.echo(f"saved {names}: {count:,} pictures, seed {seed}")


def save_explained(model: TaskModel, explained: Explained, given: object, name: str, figure: Path) -> None:
    """The figure of one picture: the path of glimpses over it, or how it is drawn again, stroke by stroke."""
    from thereafter.figures import drawn_strokes, glimpse_path, measured_glimpses, measured_strokes
    from thereafter.vision.drawing.network import Drawer
    from thereafter.vision.glimpsing.network import Glimpser
    from thereafter.vision.glimpsing.task import GlimpsesExplained

    net, text = model.net, Path(name).name
    if isinstance(explained, GlimpsesExplained) and isinstance(net, Glimpser):
        sensor = net.sensor
        path = glimpse_path(measured_glimpses(explained, patch=sensor.patch, scales=sensor.scales, text=text)).save(
            figure
        )
    elif isinstance(net, Drawer):
        read, write = net.settings.read, net.settings.write
        path = drawn_strokes(measured_strokes(model.trace(given), read=read, write=write, text=text)).save(figure)
    else:
        raise OptionError(
            "the run sees or predicts all of a picture at once; expected glimpses or strokes; try leaving --figure out"
        )
    typer.echo(f"saved {path}", err=True)


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
