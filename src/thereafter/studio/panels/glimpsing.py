"""The verbs of networks that look at one place after another.

- Glimpses: where a network looks, what it sees there, and what it believes after each glimpse
- Drawing: a new picture, or one that is drawn again, stroke by stroke
- Catch: a game as a network plays it, step by step

Shapes: T glimpses, strokes or steps, K scales, C channels, g pixels of a patch, L labels; B = 1 picture, H rows, W
columns; V = 2 windows, of reading and of writing.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field

from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.serving.schema import Answer
from thereafter.studio.asking import number, numbers, of_task_model, wrong_task
from thereafter.studio.panels.pictures import OpenedDigit, PictureAsked, PixelsAnswer, open_digit, packed
from thereafter.task_model import TaskModel
from thereafter.vision.acting.game import ACTIONS, PADDLE, Episode
from thereafter.vision.acting.network import Catcher
from thereafter.vision.acting.task import PlayedExplained
from thereafter.vision.drawing.network import Bound, Drawer, DrawingBatch, PlacedWindows, Strokes, drawn_pixels
from thereafter.vision.glimpsing.network import GlimpseCore, PictureReader
from thereafter.vision.glimpsing.task import GlimpsesExplained
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture

PIECES = 4
"""Of other digits, in a made picture."""


class SquareAnswer(Answer):
    """A square of the picture that a patch was cut out of: its upper left corner and its side, in pixels. It may reach
    beyond the edge."""

    left: int
    top: int
    side: int


class LookAnswer(Answer):
    """A place that was looked at: its middle in pixels, and from the sharpest scale to the widest the squares and what
    was seen in them. Without squares the whole picture was seen."""

    column: float
    row: float
    squares: list[SquareAnswer]
    patches: PixelsAnswer


class GlimpseAnswer(LookAnswer):
    """One glimpse, and as `belief` the probability of every label after it."""

    belief: list[float | None]


class GlimpsedAnswer(Answer):
    """A picture by its name, one of `count` of its source, as the network reads it; `label` is what it believes in the
    end, `true` what is right, null where nobody knows."""

    name: str
    count: int
    pixels: PixelsAnswer
    labels: list[str]
    glimpses: list[GlimpseAnswer]
    label: str
    true: str | None


def glimpse_codec(model: TaskModel) -> PictureCodec:
    """What the pictures of a model have in common; OptionError where it was trained to something else."""
    codec = model.codecs.get("pictures")
    if not isinstance(model.net, PictureReader) or not isinstance(codec, PictureCodec):
        raise wrong_task(model, "glimpse")
    return codec


def glimpse(model: TaskModel, opened: OpenedDigit) -> GlimpsedAnswer:
    """The path of glimpses over a picture."""
    glimpse_codec(model)
    given = LabelledPicture(opened.picture)
    explained = model.explain(given)
    assert isinstance(explained, GlimpsesExplained)
    patches_TKCgg = model.trace(given).arrays["patches"]
    glimpses = [
        GlimpseAnswer(
            **_look(model, place_2, np.rint(255 * np.moveaxis(seen_KCgg, 1, 3))),
            belief=numbers(belief_L.astype(np.float64).round(6)),
        )
        for place_2, seen_KCgg, belief_L in zip(explained.places_T2, patches_TKCgg, explained.beliefs_TL, strict=True)
    ]
    return GlimpsedAnswer.of(
        opened,
        pixels=packed(np.moveaxis(explained.pixels_CHW, 0, 2)[None]),
        labels=list(explained.names),
        glimpses=glimpses,
        label=explained.label,
        true=opened.label,
    )


def _look(model: TaskModel, place_2: NDArray[np.floating], patches: NDArray[np.floating]) -> Table:
    """The fields of a `LookAnswer`, with the squares that a glimpse covers (`vision.glimpsing.sensor`)."""
    column, row = map(float, place_2)
    sides = []
    if isinstance(model.net, GlimpseCore):  # else it sees the whole picture
        sides = [model.net.sensor.patch << scale for scale in range(model.net.sensor.scales)]
    squares = [
        SquareAnswer(left=math.floor(column - side / 2 + 0.5), top=math.floor(row - side / 2 + 0.5), side=side)
        for side in sides
    ]
    patches_answer = packed(patches.astype(np.uint8))
    return {"column": round(column, 3), "row": round(row, 3), "squares": squares, "patches": patches_answer}


@of_task_model("/tasks/glimpse", "glimpse")
def glimpse_picture(model: TaskModel, asked: PictureAsked) -> GlimpsedAnswer:
    """A picture, the places a network looked at, what it saw there, and what it believed after each glimpse."""
    return glimpse(model, open_digit(model, glimpse_codec(model), asked, pieces=PIECES))


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


def drawer_of(model: TaskModel) -> tuple[Drawer, PictureCodec]:
    """The network of a model and what its pictures have in common; OptionError where it does not draw in strokes."""
    codec = model.codecs.get("pictures")
    if model.task.name != "draw" or not isinstance(codec, PictureCodec):
        raise wrong_task(model, "draw")
    if not isinstance(model.net, Drawer):
        raise OptionError("this run predicts every pixel by itself; expected one that draws in strokes; pick another")
    return model.net, codec


@of_task_model("/tasks/draw/new")
def draw_new(model: TaskModel, seed: Annotated[int, Field(ge=0, lt=SEEDS)] = 0) -> DrawingAnswer:
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
        left_T: list[float | None] = [None] * len(z_THCW)
        if batch is not None:  # nats of the pixels that belong to the picture, by every canvas
            x_BHCW = drawn_pixels(batch, z_THCW, anew=False).transpose(1, 2)
            nats_THCW = F.binary_cross_entropy_with_logits(z_THCW, x_BHCW.expand_as(z_THCW), reduction="none")
            left_T = [number(round(nats, 4)) for nats in nats_THCW.sum((1, 2, 3)).tolist()]
    latent_T: list[float | None] = [None] * len(changed_T)
    if bound is not None:
        latent_T = [number(round(nats, 4)) for nats in bound.latent_BT[0].tolist()]
    windows = [_windows(net, placed, reads=batch is not None) for placed in seen.windows]
    strokes = zip(windows or [(None, None)] * len(changed_T), latent_T, changed_T, left_T[1:], strict=True)
    return DrawingAnswer(
        name=name,
        count=count,
        pixels=None if batch is None else packed(batch.pixels_BCHW.permute(0, 2, 3, 1).cpu().numpy()),
        canvases=packed((255 * p_THCW).round().to(torch.uint8).permute(0, 1, 3, 2).cpu().numpy()),
        strokes=[
            StrokeAnswer(read=read, write=write, latent=latent, changed=round(changed, 4), left=left)
            for (read, write), latent, changed, left in strokes
        ],
        left=left_T[0],
        nats=None if bound is None else number(float(bound.pixels_B[0] + bound.latent_BT[0].sum())),
    )


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


@of_task_model("/tasks/draw", "draw_again")
def draw_picture(model: TaskModel, asked: PictureAsked) -> DrawingAnswer:
    """A picture as a network draws it: canvases, windows, and the nats of every stroke."""
    _, codec = drawer_of(model)
    return draw_again(model, open_digit(model, codec, asked, pieces=0))


SEED = 20_261_119
"""Of the episodes that are played: those of the test part of `catch`."""
EpisodeNumber = Annotated[int, Field(ge=0, le=1_000_000, description="Of the episode.")]


class GameStepAnswer(LookAnswer):
    """One step of a game. `ball` is the column of the ball, whose row is the number of the step from 0, `paddle` the
    left column of the paddle. `chances`: the probability of every action; `expected`: the reward that the network
    expects; `action` is what it did, a number of them."""

    ball: int
    paddle: int
    chances: list[float | None]
    expected: float
    action: int


class GameAnswer(Answer):
    """A game by its name on a screen of `size` x `size` pixels; the paddle is `wide` pixels. `ball` and `paddle`: their
    columns at the end."""

    name: str
    size: int
    wide: int
    actions: list[str]
    steps: list[GameStepAnswer]
    ball: int
    paddle: int
    caught: bool


@of_task_model("/tasks/act")
def play(model: TaskModel, number: EpisodeNumber = 0) -> GameAnswer:
    """A game of catch: where the network looked, what it saw there, and what it did.

    It is the game of that number, in which the network always chooses what it finds best.
    """
    if not isinstance(model.net, Catcher):
        raise wrong_task(model, "act")
    game = model.explain(Episode(number, SEED))
    assert isinstance(game, PlayedExplained)
    steps = [
        GameStepAnswer(
            **_look(model, game.places_T2[step], 255 * np.minimum(game.patches_TKgg[step], 1)),
            ball=game.columns_T[step],
            paddle=game.paddles_T[step],
            chances=numbers(game.chances_TA[step].astype(np.float64).round(6)),
            expected=round(float(game.expected_T[step]), 6),
            action=action,
        )
        for step, action in enumerate(game.actions_T)
    ]
    return GameAnswer(
        name=f"game {number}",
        size=game.size,
        wide=PADDLE,
        actions=list(ACTIONS),
        steps=steps,
        ball=game.answer.column,
        paddle=game.answer.paddle,
        caught=game.answer.caught,
    )
