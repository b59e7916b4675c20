"""Pictures as files and within plots: figures as PNG or SVG, pixels as PNG, frames, weights spread over a picture.

Kaleido draws figures in a browser, one for all, with title and caption above the plot. Files are written by the ending
of their name:

.html        one page, however many figures; plotly's script is a file beside it, which all pages of a folder share
.png .svg    pictures with title and caption, through kaleido and a browser
.csv         the numbers
.json        plotly's description of the plot, which `plotly.io.read_json` reads

Shapes: T frames, H rows of pixels, W columns, C colours (1 or 3), R rows and Q columns of weights.
"""

from __future__ import annotations

import asyncio
import base64
import math
import struct
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.packages import require
from thereafter.base.storage import replacing, write_text
from thereafter.errors import ExportError, MissingPackageError, OptionError, ShapeError
from thereafter.figures.figure import Figure, page, script_name, script_text, titled
from thereafter.figures.style import Plot

PATIENCE = 60
"""Seconds in which a browser opens, or draws a picture; it takes one or two."""
SCALE = 1.5
"""Pixels of a PNG for each pixel of the plot."""


def render(figures: Sequence[Figure], format: str = "png", scale: float = SCALE) -> list[bytes]:
    """Each figure as the bytes of a picture, in `format` png or svg."""
    kaleido = require("kaleido", f"a picture as .{format}")
    # a notebook runs a loop of its own in this thread, so ours runs in another
    with ThreadPoolExecutor(1) as thread, progress.task("drawing", total=len(figures), unit="pictures") as advance:
        work = thread.submit(copy_context().run, asyncio.run, _drawn(kaleido, figures, format, scale, advance))  # noqa: TID251
        try:
            return work.result()
        except TimeoutError as error:
            raise ExportError(
                f"a picture as .{format} is drawn by a browser, and two did not answer within {PATIENCE} s each; "
                "try again, or write it as .html instead"
            ) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "choreographer":  # what starts the browser for kaleido
                raise
            raise MissingPackageError(
                f"a picture as .{format} needs a browser that kaleido can start, and got {type(error).__name__}; "
                "try: apt-get install chromium, or kaleido_get_chrome, or write it as .html instead"
            ) from error


async def _drawn(
    kaleido: Any, figures: Sequence[Figure], format: str, scale: float, advance: progress.Advance
) -> list[bytes]:
    """All pictures by one browser; on a busy machine one may stop to answer, and a second one goes on."""
    pictures: list[bytes] = []
    for last in (False, True):
        browser = kaleido.Kaleido(mathjax=False)  # the default asks the network for a formula typesetter
        try:
            await asyncio.wait_for(browser.open(), PATIENCE)
            for figure in figures[len(pictures) :]:
                drawing = browser.calc_fig(titled(figure), opts={"format": format, "scale": scale})
                pictures.append(await asyncio.wait_for(drawing, PATIENCE))
                advance(1)
            break
        except TimeoutError:
            if last:
                raise
        finally:
            with suppress(TimeoutError):
                await asyncio.wait_for(browser.close(), PATIENCE)
    return pictures


Pixels = NDArray[np.uint8]
GAP = 0.06
"""The share of its place that a frame leaves free on either side."""
_COLOURS = {1: 0, 3: 2}  # the number that PNG has for grey, and for red, green, blue
_FOG = 150.0  # what is not looked at fades towards this grey
_LEFT = 0.12  # the share of its contrast that it keeps


def png(pixels_HWC: Pixels) -> bytes:
    """A picture as PNG (ISO/IEC 15948): rows of bytes, none of them filtered.

    >>> png(np.zeros((2, 3, 1), np.uint8))[1:4]
    b'PNG'
    """
    if pixels_HWC.ndim != 3 or pixels_HWC.shape[2] not in _COLOURS or not pixels_HWC.size:
        raise ShapeError(f"the picture is {pixels_HWC.shape}; expected height, width and 1 or 3 colours")
    height, width, colours = pixels_HWC.shape
    rows = np.zeros((height, 1 + width * colours), np.uint8)
    rows[:, 1:] = pixels_HWC.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[colours], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


_BETWEEN = 2  # pixels between two pictures of a sheet
_GREY = 128


def contact_sheet(pictures_NHWC: Pixels) -> Pixels:
    """Pictures in rows, about as many rows as columns, [rows of pixels, columns of pixels, C].

    >>> contact_sheet(np.zeros((5, 4, 4, 1), np.uint8)).shape
    (14, 20, 1)
    """
    count, height, width, channels = pictures_NHWC.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    sheet = np.full((rows * (height + _BETWEEN) + _BETWEEN, columns * (width + _BETWEEN) + _BETWEEN, channels), _GREY)
    for at, picture_HWC in enumerate(pictures_NHWC):
        y, x = (_BETWEEN + (size + _BETWEEN) * k for size, k in zip((height, width), divmod(at, columns), strict=True))
        sheet[y : y + height, x : x + width] = picture_HWC
    return sheet.astype(np.uint8)


def data_uri(pixels_HWC: Pixels) -> str:
    """A picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels_HWC)).decode()}"


def enlarged(pixels_HWC: Pixels, least: int) -> Pixels:
    """Every pixel as a square of pixels, so that the shorter side has at least about `least`."""
    times = max(1, -(-least // min(pixels_HWC.shape[:2])))
    return np.repeat(np.repeat(pixels_HWC, times, axis=0), times, axis=1)


def spread_over(weights_RQ: NDArray[np.floating], height: int, width: int) -> NDArray[np.float64]:
    """Weights of the places of a grid, bilinear between the middles of the places, [height, width]."""
    import torch

    weights = torch.as_tensor(np.asarray(weights_RQ, np.float64))[None, None]
    spread = torch.nn.functional.interpolate(weights, size=(height, width), mode="bilinear", align_corners=False)
    return spread[0, 0].numpy()


def lit_by(pixels_HWC: Pixels, weights_RQ: NDArray[np.floating]) -> Pixels:
    """The picture as it is where the weights are largest, and faded to grey where they are 0."""
    height, width = pixels_HWC.shape[:2]
    weights_HW = spread_over(weights_RQ, height, width)
    share_HW1 = (_LEFT + (1 - _LEFT) * weights_HW / max(float(weights_HW.max()), 1e-9))[..., None]
    return np.rint(_FOG + (pixels_HWC - _FOG) * share_HW1).astype(np.uint8)


def add_picture(plot: Plot, pixels_HWC: Pixels, **place: int) -> None:
    """A picture that fills its small plot, without axes."""
    go = require("plotly.graph_objects", "drawing a picture")
    plot.add_trace(go.Image(source=data_uri(pixels_HWC), hoverinfo="skip"), **place)
    plot.update_xaxes(visible=False, **place)
    plot.update_yaxes(visible=False, **place)


def coloured(pixels_HWC: Pixels) -> Pixels:
    """A picture in red, green and blue, whatever it had."""
    return np.repeat(pixels_HWC, 3, axis=2) if pixels_HWC.shape[2] == 1 else pixels_HWC


def outlined(pixels_HW3: Pixels, box: tuple[int, int, int, int], tint: tuple[int, int, int], width: int) -> Pixels:
    """A copy with the outline of a box: left, top, right and bottom. What lies beyond the edges is not drawn.

    >>> outlined(np.zeros((4, 4, 3), np.uint8), (1, 1, 9, 9), (7, 7, 7), 1)[..., 0].tolist()
    [[0, 0, 0, 0], [0, 7, 7, 7], [0, 7, 0, 0], [0, 7, 0, 0]]
    """
    drawn, (left, top, right, bottom) = pixels_HW3.copy(), box
    rows, columns = np.arange(drawn.shape[0])[:, None], np.arange(drawn.shape[1])[None]
    inside = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
    within = (rows >= top + width) & (rows < bottom - width) & (columns >= left + width) & (columns < right - width)
    drawn[inside & ~within] = tint
    return drawn


def add_frames(plot: Plot, frames: Pixels, first: float, y: float, **place: int) -> None:
    """Frames beside each other: the first has its middle at `first`, each takes 1 along x, and 1 along y about `y`.

    They are grey, [T, H, W], or have colours, [T, H, W, 3].
    """
    go = require("plotly.graph_objects", "drawing a picture")
    high = 1 - 2 * GAP
    height, width = frames.shape[1:3]
    for number, frame in enumerate(frames):
        steps = {"dx": high / width, "dy": high / height}
        corner = {"x0": first + number - high / 2 + steps["dx"] / 2, "y0": y - high / 2 + steps["dy"] / 2}
        image = go.Image(
            source=data_uri(frame if frame.ndim == 3 else frame[..., None]), hoverinfo="skip", **corner, **steps
        )
        plot.add_trace(image, **place)


SUFFIXES = (".html", ".png", ".svg", ".csv", ".json")


def write(figures: Sequence[Figure], path: Path) -> Path:
    """Write figures in the format that the ending of `path` names; returns the path of the first.

    Several figures share one page; of the other formats each gets a file of its own, named after `path` and itself:
    `flow.png` becomes `flow-gradient-decay.png` and so on.

    Example: figures.write([flow.figure("gradient-decay")], Path("decay.html"))
    """
    path = Path(path)
    suffix = format_of(path)
    if not figures:
        raise OptionError(f"there is no figure to write as {path.name!r}; expected at least one")
    if suffix == ".html":
        title = figures[0].title if len(figures) == 1 else path.stem.replace("-", " ").replace("_", " ")
        beside = not path.exists() or path.is_file()  # a pipe has no folder of its own
        contents = {path: page(figures, title=title, beside=beside).encode()}
        if beside:
            script = write_script(path.parent)
            progress.note(f"{path.name} needs {script.name} beside it: to send the page, copy both, or draw a .png")
    else:
        places = [path] if len(figures) == 1 else [path.with_stem(f"{path.stem}-{one.name}") for one in figures]
        if len(set(places)) < len(places):
            raise OptionError(f"two figures have one name among {', '.join(one.name for one in figures)}")
        if suffix in (".png", ".svg"):
            files = render(figures, suffix.removeprefix("."))
        else:
            files = [(one.csv() if suffix == ".csv" else str(one.plot.to_json())).encode() for one in figures]
        contents = dict(zip(places, files, strict=True))
    for place, content in contents.items():
        with replacing(place) as temporary:
            temporary.write_bytes(content)
    return next(iter(contents))


def write_script(folder: Path) -> Path:
    """plotly's script as a file that all pages of a folder share; returns its path."""
    script = folder / script_name()
    if not script.exists():
        write_text(script, script_text())
    return script


def format_of(path: Path) -> str:
    """The ending of a figure's name; one that names no format is refused."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        listed = ", ".join(SUFFIXES[:-1]) + f" or {SUFFIXES[-1]}"
        raise OptionError(f"cannot write a figure as {path.name!r}; expected a name that ends in {listed}")
    return suffix
