"""The task `draw`: pictures drawn stroke by stroke, learned from pictures alone; labels are passed over.

Its measure is nats a picture, a bound on -log p (`vision/measures.py`). A trained network scores pictures,
draws them again, and draws new ones: `model.net.sample(16, seed=1)`. What it has to beat is `LonePixels`.

Shapes: N or B pictures, T strokes, C channels, H rows, W columns, V = 2 windows, of reading and of writing, P pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from thereafter import figures
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.tabular import Row
from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError, FormatError, OptionError
from thereafter.evaluation.bootstrap import ResampledMeans
from thereafter.inspection.measurement import DrawnFigure
from thereafter.inspection.trace import Trace
from thereafter.models.task_net import TaskNet
from thereafter.tasks.answers import Fields, Shown
from thereafter.tasks.task import Picturing, Sampling, Solving
from thereafter.vision.drawing import network
from thereafter.vision.drawing.network import Drawer, DrawerSettings, DrawingBatch, Strokes
from thereafter.vision.measures import DrawingScore, resampled_drawings, score_drawings
from thereafter.vision.pictures import labelled_pictures as labelled
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.picture import Picture
from thereafter.vision.pictures.sources import picture_of
from thereafter.vision.rules import Floats, Pixels
from thereafter.vision.task import VisionTask

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Redrawn:
    """A picture as it was drawn again: the chance of each pixel to be lit, [C, H, W]; the nats of its pixels, and of z
    by stroke."""

    chances_CHW: Floats32 = field(repr=False)
    pixels: float
    latent_T: tuple[float, ...]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Redrawn) and (self.pixels, self.latent_T) == (other.pixels, other.latent_T)
        return same and isinstance(other, Redrawn) and np.array_equal(self.chances_CHW, other.chances_CHW)

    @property
    def nats(self) -> float:
        """The bound on -log p of the picture."""
        return self.pixels + sum(self.latent_T)

    @property
    def pixels_HWC(self) -> Pixels:
        """The picture itself, 0 to 255."""
        return np.rint(255 * np.moveaxis(self.chances_CHW, 0, 2)).astype(np.uint8)

    def row(self) -> Row:
        """What it costs: in all, its pixels, and z of all strokes."""
        return {"nats": self.nats, "pixels": self.pixels, "latent": sum(self.latent_T)}

    def __str__(self) -> str:
        if not self.latent_T:
            return f"{self.nats:.2f} nats"
        strokes = f"{len(self.latent_T):,} strokes {sum(self.latent_T):.2f}"
        return f"{self.nats:.2f} nats: pixels {self.pixels:.2f}, {strokes}"


@dataclass(frozen=True, eq=False)
class RedrawnExplained:
    """How a picture was drawn: the canvas after every stroke, and the windows (none without attention), in pixels.

    `places_TV3`: row, column and stride of the window of reading, and of that of writing.
    """

    answer: Redrawn
    canvases_TCHW: Floats32 = field(repr=False)
    places_TV3: Floats32 = field(repr=False)

    def as_dict(self) -> Table:
        """Plain JSON values: what each stroke cost, and where it read and wrote."""
        names = ("row", "column", "stride")
        strokes: list[Table] = []
        for stroke, latent in enumerate(self.answer.latent_T):
            places = self.places_TV3[stroke].tolist() if len(self.places_TV3) else []
            windows = zip(("read", "write"), places, strict=False)
            own: Table = {name: dict(zip(names, place, strict=True)) for name, place in windows}
            strokes.append({"latent": latent, **own})
        return {"nats": self.answer.nats, "pixels": self.answer.pixels, "strokes": strokes}

    def __str__(self) -> str:
        lines = [str(self.answer)]
        for stroke, latent in enumerate(self.answer.latent_T):
            line = f"  stroke {stroke + 1:>3}  {latent:6.2f} nats"
            if len(self.places_TV3):
                (y, x, wide), (down, right, stride) = self.places_TV3[stroke].tolist()
                line += f"  reads at {y:5.1f}, {x:5.1f} (stride {wide:4.1f})"
                line += f"  writes at {down:5.1f}, {right:5.1f} (stride {stride:4.1f})"
            lines.append(line)
        return "\n".join(lines)


def drawing_figures(answers: Sequence[object]) -> tuple[Floats, Floats]:
    """Nats of the pixels of pictures, [N], and of z by stroke, [N, T]."""
    drawn = [one for one in answers if isinstance(one, Redrawn)]
    latent_NT = np.array([one.latent_T for one in drawn], np.float64).reshape(len(drawn), -1)
    return np.array([one.pixels for one in drawn], np.float64), latent_NT


class LonePixels(TaskNet[DrawingBatch]):
    """Every pixel by itself: what a network that draws has to beat.

        p(x) = product over pixels of p^x (1 - p)^(1 - x),      p = (sum of intensities + 1/2) / (pictures + 1)

    `solve` counts p on the training pictures; the half keeps a pixel that was never lit possible. Nothing is hidden, so
    that this is -log p(x) itself and no bound.
    """

    chance_CHW: Tensor

    def __init__(self, *, height: int, width: int, channels: int = 1) -> None:
        super().__init__()
        self.register_buffer("chance_CHW", torch.full((channels, height, width), 0.5))

    def solve(self, sums_CHW: Tensor, pictures: int) -> None:
        """Take the chances from the sums of the intensities 0 to 1 of so many pictures."""
        self.chance_CHW.copy_((sums_CHW + 0.5) / (pictures + 1))

    def nats(self, batch: DrawingBatch) -> Tensor:
        return self.bound(batch).pixels_B.sum()

    def bound(self, batch: DrawingBatch) -> network.Bound:
        """-log p of every picture, exactly; no strokes."""
        x_BCHW = network.drawn_pixels(batch, self.chance_CHW, anew=self.training)
        p_BCHW = self.chance_CHW.expand_as(x_BCHW)
        nats_B = F.binary_cross_entropy(p_BCHW, x_BCHW, reduction="none").sum((1, 2, 3))
        return network.Bound(nats_B, nats_B.new_zeros(len(nats_B), 0))

    def sample(self, count: int, seed: int = 0) -> Tensor:
        """The chance of every pixel, which is the same in all pictures, [count, C, H, W]."""
        return self.chance_CHW.expand(count, -1, -1, -1)


DrawingNet = Drawer | LonePixels
_AT_ONCE = 512  # pictures that are summed at once


class DrawingCodecs(TypedDict):
    """What a run keeps of its pictures."""

    pictures: PictureCodec


class DrawingTask(
    Solving[DrawerSettings, DrawingNet, Picture, DrawingCodecs],
    Picturing[DrawingNet],
    Sampling[DrawingNet],
    VisionTask[DrawerSettings, Picture, DrawingBatch, DrawingNet, Redrawn, DrawingCodecs],
):
    """See `Task`. `chosen` are the settings it is configured with."""

    name = "draw"
    kind = "pictures"
    unit = "picture"
    typed = "picture.png"
    settings = DrawerSettings
    defaults: ClassVar[Mapping[str, object]] = {
        "epochs": 20.0, "batch": 128, "rate": 1e-3, "steps": 1 << 16, "weight_decay": 0.0, "clip": 5.0,
        "precision": "float32",
    }  # fmt: skip
    file_kind: ClassVar[FileKind] = labelled.LABELLED_FILES
    most_held_out: ClassVar[int] = labelled.MOST_HELD_OUT
    reported: ClassVar[tuple[str, ...]] = ("nats", "pixels", "latent")
    judged = "nats"

    def kinds(self) -> Sequence[str]:
        return network.DRAW_MODELS

    def part(self, given: Parts, part: str) -> Files | None:
        """The pictures of a part of a user's folder that has several; labels are not read."""
        return labelled.part_of_pictures(given, part) if given.corpus is None else None

    def read(self, files: Sequence[Path]) -> list[Picture]:
        pictures = labelled.asked_pictures_of(files)
        if not pictures:
            raise EmptyCorpusError(
                f"{', '.join(map(str, files))}: no pictures there; expected PNG or JPEG files, a .zip of them, an idx "
                "file, .npy or .npz"
            )
        return pictures

    def codecs(self, examples: Sequence[Picture]) -> DrawingCodecs:
        codec = PictureCodec.fit(examples, self.chosen.size)
        if codec.kind != "pixels":
            raise FormatError("the pictures are features that another program made; expected pixels, which are drawn")
        return {"pictures": codec}

    def check(self, examples: Sequence[Picture], codecs: DrawingCodecs, name: str) -> None:
        """Decode all pictures, so that a damaged one is an error now."""
        codecs["pictures"].keep(examples)

    def build(self, settings: DrawerSettings, codecs: DrawingCodecs) -> DrawingNet:
        sizes, mean = codecs["pictures"].sizes, codecs["pictures"].mean
        return LonePixels(**sizes) if settings.model == network.PIXELS else Drawer(settings, **sizes, mean=mean)

    def solves(self, settings: DrawerSettings) -> bool:
        return settings.model == network.PIXELS

    def solve(self, net: DrawingNet, examples: Sequence[Picture], codecs: DrawingCodecs) -> None:
        """The chance of every pixel, over all training pictures."""
        codec = codecs["pictures"]
        sums_CHW = np.zeros(codec.shape)
        with progress.task("counting pixels", total=len(examples), unit="pictures") as advance:
            for begin in range(0, len(examples), _AT_ONCE):
                block = examples[begin : begin + _AT_ONCE]
                sums_CHW += codec.batch(block).astype(np.float64).sum(0) / 255
                advance(len(block))
        if isinstance(net, LonePixels):
            net.solve(torch.from_numpy(sums_CHW), len(examples))

    def batch(self, examples: Sequence[Picture], codecs: DrawingCodecs) -> DrawingBatch:
        return DrawingBatch(torch.from_numpy(codecs["pictures"].batch(examples)))

    def answers(self, net: DrawingNet, batch: DrawingBatch, codecs: DrawingCodecs) -> list[Redrawn]:
        return _redrawn(net, batch)

    def columns(self, answer: Redrawn) -> list[Row]:
        return [answer.row()]

    def explain(
        self, net: DrawingNet, batch: DrawingBatch, examples: Sequence[Picture], codecs: DrawingCodecs
    ) -> list[RedrawnExplained]:
        """How every picture is drawn again, stroke by stroke."""
        strokes = Strokes()
        drawn = _redrawn(net, batch, strokes)
        places_BTV3 = np.zeros((len(drawn), 0, 2, 3), np.float32)  # no strokes without attention
        if windows := strokes.windows:
            places_BTV3 = _stacked([torch.cat((one.centre_BV2, one.stride_BV[..., None]), -1) for one in windows])
        rows = zip(drawn, _canvases(strokes, len(drawn)), places_BTV3, strict=True)
        return [RedrawnExplained(*row) for row in rows]

    def shown(self, net: DrawingNet, batch: DrawingBatch, example: Picture, codecs: DrawingCodecs) -> Shown:
        strokes = Strokes()
        (drawn,) = _redrawn(net, batch, strokes)
        fields: Fields = {
            "pixels": (("channel", "row", "column"), batch.pixels_BCHW[0].cpu().numpy()),
            "canvas": (("stroke", "channel", "row", "column"), _canvases(strokes, 1)[0]),
            "latent": (("stroke",), np.array(drawn.latent_T, np.float32)),
        }
        for window, name in enumerate(("read", "write") if strokes.windows else ()):
            for array in vars(strokes.windows[0]):  # centre_BV2, stride_BV, ...
                values = _stacked([vars(one)[array][:, window] for one in strokes.windows])[0]
                fields[f"{name}.{array.partition('_')[0]}"] = (("stroke", "place")[: values.ndim], values)
        for layer, records in strokes.layers.items():
            fields |= {f"{layer}.{name}": (("stroke", "unit"), _stacked(rows)[0]) for name, rows in records.items()}
        numbers = [str(stroke + 1) for stroke in range(len(drawn.latent_T))]
        return Shown(numbers, [], fields, {"answer": str(drawn)})

    def figure(
        self, net: DrawingNet, explained: object, given: object, name: str, trace: Callable[[object], Trace]
    ) -> DrawnFigure:
        """How the picture is drawn again, stroke by stroke."""
        if not isinstance(net, Drawer):
            raise OptionError("the run predicts all of a picture at once; expected strokes; try leaving --figure out")
        read, write = net.settings.read, net.settings.write
        return figures.drawn_strokes(figures.measured_strokes(trace(given), read=read, write=write, text=name))

    def sample(self, net: DrawingNet, count: int, seed: int) -> tuple[Pixels, Floats32]:
        if not isinstance(net, Drawer):
            raise OptionError(
                "the run predicts every pixel by itself and draws no pictures; expected one with model='draw'"
            )
        with progress.task("drawing pictures"):
            chances_NHWC = np.moveaxis(net.sample(count, seed).cpu().numpy(), 1, 3)
        return np.rint(255 * chances_NHWC).astype(np.uint8), chances_NHWC

    def example(self, given: object) -> Picture:
        """A path, an array of pixels, a PIL image, a `Picture`; or a `LabelledPicture`, whose label is ignored."""
        return given.picture if isinstance(given, LabelledPicture) else picture_of(given)

    def measure(self, examples: Sequence[Picture], answers: Sequence[Redrawn], codecs: DrawingCodecs) -> DrawingScore:
        return score_drawings(*drawing_figures(answers))

    def resampled(
        self, examples: Sequence[Picture], answers: Sequence[Redrawn], codecs: DrawingCodecs
    ) -> ResampledMeans:
        return resampled_drawings(*drawing_figures(answers))

    def variants(self, learned: Sequence[Picture]) -> Mapping[str, Mapping[str, object]]:
        """Every pixel by itself; the same network without attention."""
        return {"pixels alone": {"model": network.PIXELS}, "without attention": {"model": "draw", "attend": False}}


def _redrawn(net: DrawingNet, batch: DrawingBatch, strokes: Strokes | None = None) -> list[Redrawn]:
    """Every picture as it is drawn again; `strokes` takes what happens on the way."""
    with net.quietly():
        if isinstance(net, Drawer):
            (pixels_B, latent_BT), canvas_BHCW = net.draw_again(batch, strokes)
            chances_BCHW = canvas_BHCW.sigmoid().transpose(1, 2)
        else:
            pixels_B, latent_BT = net.bound(batch)
            chances_BCHW = net.sample(len(pixels_B))
    chances = chances_BCHW.float().cpu().numpy()
    rows = zip(chances, pixels_B.tolist(), latent_BT.tolist(), strict=True)
    return [Redrawn(one, nats, tuple(latent)) for one, nats, latent in rows]


def _stacked(parts: Sequence[Tensor]) -> NDArray[np.float32]:
    """What happened at each stroke as one array, strokes behind pictures."""
    return np.asarray(torch.stack(list(parts), 1).float().cpu().numpy(), np.float32)


def _canvases(strokes: Strokes, rows: int) -> NDArray[np.float32]:
    """The chance of each pixel after every stroke, [B, T, C, H, W]."""
    if not strokes.canvases:
        return np.zeros((rows, 0, 1, 1, 1), np.float32)
    return _stacked([canvas_BHCW.sigmoid().transpose(1, 2) for canvas_BHCW in strokes.canvases])


DRAWING = DrawingTask()
