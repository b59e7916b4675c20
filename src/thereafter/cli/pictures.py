"""What the commands show and save of networks that see, caption or draw pictures, or watch clips.

Captions: for each word where the network looked, and the captions that it has to beat. Clips: predicted frames and
beliefs as arrays, and as a figure of one clip. Drawings: new pictures as one PNG or as arrays, strokes, glimpses.

Shapes: N clips or pictures, T frames, K frames ahead, H rows of pixels, W columns, L labels of a column.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer
from numpy.typing import NDArray

from thereafter.base.storage import replacing
from thereafter.cli.options import ARRAYS
from thereafter.errors import MissingPackageError, OptionError, SourceError

if TYPE_CHECKING:
    from thereafter.figures.figure import Figure
    from thereafter.task_model import TaskModel
    from thereafter.tasks.answers import Explained
    from thereafter.vision.clips.labels import ClipExplained
    from thereafter.vision.clips.next_frames import FramesExplained

MOST_PICTURES = 4_096
_BETWEEN = 2  # pixels between two pictures
_GREY = 128
_AT_ONCE = 64  # clips whose answers are in memory as floats
Arrays = dict[str, NDArray[np.generic]]


def check_figure(pictures: Sequence[str], figure: Path | None) -> None:
    """Refuse a figure of several pictures, before anything is predicted."""
    if figure is not None and len(pictures) != 1:
        raise OptionError(
            f"--figure is one file and there are {len(pictures):,} pictures; try one picture, or leave it out"
        )


def draw_captions(explained: Sequence[Explained], pictures: Sequence[str], figure: Path | None) -> None:
    """A figure for each caption: `figure`, or NAME-caption.html in the current folder. A network without attention has
    nothing to draw; nor has a machine without the package for figures, unless a figure was asked for."""
    from thereafter.figures import attended_picture
    from thereafter.vision.captioning.task import CaptionExplained

    for one, picture in zip(explained, pictures, strict=True):
        if not isinstance(one, CaptionExplained) or not one.attends or not one.words:
            if figure is not None:
                raise OptionError("the network has no attention to draw; expected one trained with see='attention'")
            continue
        path = figure or Path(f"{Path(picture).stem}-caption.html")
        try:
            typer.echo(f"saved {attended_picture(one).save(path)}", err=True)
        except MissingPackageError as missing:
            if figure is not None:
                raise
            typer.echo(f"not drawn: {missing}", err=True)
            return


def print_beside(model: TaskModel, source: str, part: str, *, greedy: bool = False) -> None:
    """Below a score: one sentence for all, the nearest picture's caption, and the network's captions of other
    pictures; below that of games other players; nothing but a note where what it learned from is gone.

    `greedy`: the score itself is that of a search, and the row of the network says that it is not.
    """
    from thereafter.vision.baselines import OTHER_PICTURES
    from thereafter.vision.captioning.measures import CaptionScore

    try:
        rows = model.baselines(source, part=part, trained=False)
    except SourceError as gone:
        typer.echo(f"no rows beside it: {gone}", err=True)
        return
    rows = [(f"{name}, greedy" if greedy and name == OTHER_PICTURES else name, measured) for name, measured in rows]
    width = max(len(name) for name, _ in rows)
    for name, measured in rows:
        typer.echo(f"{name:<{width}}  {measured.line() if isinstance(measured, CaptionScore) else measured}")


def save_clips(
    run: str,
    texts: Sequence[str],
    source: str | None,
    out: Path | None,
    figure: Path | None,
    *,
    explain: bool,
    ahead: int | None,
    device: str = "cpu",
) -> None:
    """Write arrays of all clips to `out`, and a figure of the first to `figure`.

    next-frames: `frames` [N, K, H, W] after the last of each clip, which can be read as clips again; with `explain` the
    last frames of each clip as they were predicted: `read` [N, T, H, W], `came`, `predicted` [N, K, H, W] and `nats`
    [N, K]. video: `belief.COLUMN` [N, T, L] after every frame, NaN beyond the end of a clip, and `labels.COLUMN` [L].
    """
    from thereafter.base.progress import show_progress
    from thereafter.task_model import load_task

    model = load_task(run, device=device)
    with show_progress():
        clips, name = _clips(model, run, texts, source)
        if out is not None:
            arrays = _beliefs(model, clips) if model.task.name == "video" else _frames(model, clips, explain, ahead)
            with replacing(out) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
                for key, array in arrays.items():
                    with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
            shapes = ", ".join(f"{key} {list(array.shape)}" for key, array in arrays.items())
            typer.echo(f"saved {out}: {shapes}")
        if figure is not None:
            which = f"the first of {len(clips):,} clips of {name}" if len(clips) > 1 else name
            typer.echo(f"saved {_figure(model, clips[0], which).save(figure)}: {which}")


def _clips(model: TaskModel, run: str, texts: Sequence[str], source: str | None) -> tuple[list[object], str]:
    """The clips that are asked about, with their labels where they have some, and what they are called."""
    from thereafter.tasks import finding
    from thereafter.tasks.task import Asking, aspect
    from thereafter.vision.clips.reading import read_example_clips

    if (source is None) == (not texts):
        got = "none" if source is None else f"both {', '.join(texts)} and --in {source}"
        raise OptionError(f"got {got}; expected clips; try: thereafter predict {run} --in SOURCE, or a path")
    if source is not None:
        files = finding.files_of(model.task, source, "test")
        return list(read_example_clips(files.files)), files.name
    return [clip for text in texts for clip in aspect(model.task, Asking).spelled(text)], ", ".join(texts)


def _blocks(clips: Sequence[object]) -> Iterator[list[object]]:
    for begin in range(0, len(clips), _AT_ONCE):
        yield list(clips[begin : begin + _AT_ONCE])


def _frames(model: TaskModel, clips: Sequence[object], explain: bool, ahead: int | None) -> Arrays:
    if not explain:
        options: Mapping[str, object] = {} if ahead is None else {"ahead": ahead}
        return {
            "frames": np.stack([one.pixels_KHW for block in _blocks(clips) for one in model.predict(block, **options)])
        }
    parts: dict[str, list[NDArray[np.generic]]] = {name: [] for name in ("read", "came", "predicted", "nats")}
    for block in _blocks(clips):
        for one in model.explain(block):
            last = (one.read_THW, one.came_KHW, one.predicted.pixels_KHW, np.array(one.judged.nats_K, np.float32))
            for name, array in zip(parts, last, strict=True):
                parts[name].append(array)
    if len({array.shape for array in parts["read"]}) > 1:
        raise OptionError(
            "some clips are shorter than the frames that the run reads and predicts; expected clips with all of them; "
            "try one clip, or leave --explain out"
        )
    return {name: np.stack(arrays) for name, arrays in parts.items()}


def _beliefs(model: TaskModel, clips: Sequence[object]) -> Arrays:
    explained: list[ClipExplained] = [one for block in _blocks(clips) for one in model.explain(block)]
    most = max(len(one.frames_THW) for one in explained)
    arrays: Arrays = {}
    for column, labels in explained[0].names.items():
        belief_NTL = np.full((len(explained), most, len(labels)), np.nan, np.float32)
        for row, one in enumerate(explained):
            belief_NTL[row, : len(one.frames_THW)] = one.beliefs[column]
        arrays |= {f"belief.{column}": belief_NTL, f"labels.{column}": np.array(labels, dtype=str)}
    return arrays


def _figure(model: TaskModel, clip: object, name: str) -> Figure:
    """Frames that were given, came and were predicted, in rows; of labels what was believed after each frame."""
    from thereafter.figures import belief_by_frame, measured_belief, measured_frames, predicted_frames

    about = {"model": "the network", "text": name}
    (explained,) = model.explain([clip])
    if model.task.name == "next-frames":
        ahead: FramesExplained = explained
        return predicted_frames([measured_frames(ahead, **about)])
    truth = dict(getattr(clip, "labels", ()))
    return belief_by_frame(measured_belief(explained, **about, truth=truth))


def save_samples(
    run: str, count: int, seed: int, figure: Path | None, out: Path | None = None, *, device: str = "cpu"
) -> None:
    """Draw new pictures and save them: side by side to `figure`, as arrays to `out`; without both to samples.png in the
    current folder.

    The arrays are `pixels`, 0 to 255, [N, H, W, C], which can be read again as pictures, and `chances`, the chance of
    each pixel to be lit.
    """
    from thereafter.base import progress
    from thereafter.base.progress import show_progress
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
