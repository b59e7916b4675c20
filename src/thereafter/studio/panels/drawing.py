"""The verbs of the panel Drawing: a new picture, or one that is drawn again, stroke by stroke.

Shapes: B = 1 picture, T strokes, C channels, H rows, W columns; V = 2 windows, of reading and of writing.
"""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.serving.schema import Answer, Asked, ModelName
from thereafter.studio.asking import of_task_model
from thereafter.studio.panels.glimpsing import PictureAsked
from thereafter.studio.panels.numbers import number
from thereafter.studio.panels.pictures import OpenedDigit, PixelsAnswer, open_digit, packed
from thereafter.task_model import TaskModel
from thereafter.vision.drawing.network import Bound, Drawer, DrawingBatch, Strokes, drawn_pixels
from thereafter.vision.drawing.window import PlacedWindows
from thereafter.vision.pictures.codec import PictureCodec

SEEDS = 1_000_000
"""New pictures that can be asked for, by number."""


class DrawingWindowAnswer(Answer):
    """A window in pixels: its middle, the distance of two of its places, the deviation of its filters, and how many
    places it has on a side."""

    row: float
    column: float
    stride: float
    deviation: float
    places: int


class StrokeAnswer(Answer):
    """One stroke: its windows, null without attention and for reading where nothing is read. `latent`: nats of its z,
    null for a new picture. `changed`: by how much the chances of the pixels changed, summed over them. `left`: nats of
    the pixels as they are on the canvas after it, null for a new picture."""

    read: DrawingWindowAnswer | None
    write: DrawingWindowAnswer | None
    latent: float | None
    changed: float
    left: float | None


class DrawingAnswer(Answer):
    """A picture that is drawn. `pixels`: the one that is drawn again, null for a new one. `canvases`: the chance of
    each pixel to be lit, before the first stroke and after each; `left` as in `StrokeAnswer`, before the first."""

    name: str
    count: int
    pixels: PixelsAnswer | None
    canvases: PixelsAnswer
    strokes: list[StrokeAnswer]
    left: float | None
    nats: float | None


class NewDrawingAsked(Asked):
    """`seed`: which new picture; the same one gives the same picture."""

    model: ModelName
    seed: Annotated[int, Field(ge=0, le=999_999)] = 0


def drawer_of(model: TaskModel) -> tuple[Drawer, PictureCodec]:
    """The network of a model and what its pictures have in common; OptionError where it does not draw in strokes."""
    codec = model.codecs.get("pictures")
    if model.task.name != "draw" or not isinstance(codec, PictureCodec):
        raise OptionError(f"this model was trained to {model.task.name}; expected one trained to draw; pick another")
    if not isinstance(model.net, Drawer):
        raise OptionError("this run predicts every pixel by itself; expected one that draws in strokes; pick another")
    return model.net, codec


@of_task_model(NewDrawingAsked)
def draw_new(model: TaskModel, seed: int) -> DrawingAnswer:
    """A new picture from the prior: the canvas after every stroke, and the window it was written through.

    The same seed gives the same picture.
    """
    net, _ = drawer_of(model)
    seen = Strokes()
    net.sample(1, seed, seen)
    return _answer(net, seen, f"new picture {seed}", SEEDS)


def draw_again(model: TaskModel, opened: OpenedDigit) -> DrawingAnswer:
    """A picture as the network draws it: what it reads at every stroke, what that costs, and what is left to say."""
    net, _ = drawer_of(model)
    batch = model.task.batch([model.task.prepare(opened.picture, model.codecs)], model.codecs).to(net.device)
    assert isinstance(batch, DrawingBatch)
    seen = Strokes()
    with net.quietly():
        bound, _ = net.draw_again(batch, seen)
    return _answer(net, seen, opened.name, opened.count, batch, bound)


def _answer(
    net: Drawer, seen: Strokes, name: str, count: int, batch: DrawingBatch | None = None, bound: Bound | None = None
) -> DrawingAnswer:
    with net.quietly():
        z_THCW = torch.cat([net.canvas.expand(1, *net.shape), *seen.canvases]).float()
        p_THCW = z_THCW.sigmoid()
        changed_T = p_THCW.diff(dim=0).abs().sum((1, 2, 3)).tolist()
        left_T = [None] * len(z_THCW) if batch is None else _left(z_THCW, batch)
    latent_T = [None] * len(changed_T) if bound is None else bound.latent_BT[0].tolist()
    windows = [_windows(net, one, reads=batch is not None) for one in seen.windows] or [(None, None)] * len(changed_T)
    rows = zip(windows, latent_T, changed_T, left_T[1:], strict=True)
    return DrawingAnswer(
        name=name,
        count=count,
        pixels=None if batch is None else _packed(batch.pixels_BCHW.permute(0, 2, 3, 1)),
        canvases=_packed((255 * p_THCW).round().to(torch.uint8).permute(0, 1, 3, 2)),
        strokes=[
            StrokeAnswer(read=read, write=write, latent=_rounded(latent), changed=round(changed, 4), left=left)
            for (read, write), latent, changed, left in rows
        ],
        left=left_T[0],
        nats=None if bound is None else number(float(bound.pixels_B[0] + bound.latent_BT[0].sum())),
    )


def _left(z_THCW: Tensor, batch: DrawingBatch) -> list[float | None]:
    """Nats of the pixels by every canvas; they are those that belong to the picture (`vision/drawing/network.py`)."""
    x_BHCW = drawn_pixels(batch, z_THCW, anew=False).transpose(1, 2)
    nats_THCW = F.binary_cross_entropy_with_logits(z_THCW, x_BHCW.expand_as(z_THCW), reduction="none")
    return [_rounded(one) for one in nats_THCW.sum((1, 2, 3)).tolist()]


def _windows(
    net: Drawer, placed: PlacedWindows, *, reads: bool
) -> tuple[DrawingWindowAnswer | None, DrawingWindowAnswer | None]:
    """The windows of reading and of writing of a stroke; a new picture reads nothing."""
    centre_V2, stride_V, deviation_V = placed.centre_BV2[0], placed.stride_BV[0], placed.deviation_BV[0]
    read, write = (
        DrawingWindowAnswer(
            row=round(float(centre_V2[at, 0]), 3),
            column=round(float(centre_V2[at, 1]), 3),
            stride=round(float(stride_V[at]), 4),
            deviation=round(float(deviation_V[at]), 4),
            places=places,
        )
        for at, places in enumerate((net.settings.read, net.settings.write))
    )
    return (read if reads else None), write


def _rounded(value: float | None) -> float | None:
    return None if value is None else number(round(value, 4))


def _packed(pixels_NHWC: Tensor) -> PixelsAnswer:
    return packed(pixels_NHWC.cpu().numpy())


@of_task_model(PictureAsked, "draw_again")
def draw_picture(model: TaskModel, source: str, number: int, ink: str, picture: str) -> DrawingAnswer:
    """A picture as a network draws it: canvases, windows, and the nats of every stroke."""
    _, codec = drawer_of(model)
    return draw_again(model, open_digit(model, codec, source, number, ink, picture, pieces=0))
