"""What `predict` saves of networks over clips: predicted frames and beliefs as arrays, and as a figure of one clip.

Shapes: N clips, T frames, K frames ahead, H rows of pixels, W columns, L labels of a column.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer
from numpy.typing import NDArray

from thereafter.base.storage import replacing
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.figures.figure import Figure
    from thereafter.task_model import TaskModel
    from thereafter.vision.clips.answers import ClipExplained, FramesExplained

_AT_ONCE = 64  # clips whose answers are in memory as floats
Arrays = dict[str, NDArray[np.generic]]


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
    from thereafter.base.terminal import show_progress
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
    from thereafter.vision.clips.answers import read_example_clips

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
