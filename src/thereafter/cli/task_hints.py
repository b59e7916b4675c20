"""What `predict` takes of each task: what a refused option is followed by, as something to try."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from thereafter.errors import OptionError

FORECAST, DRAW = "forecast", "draw"
CLIP_TASKS = ("video", "next-frames")
ARRAYS = ".npz"
"""The ending of a file of arrays."""
SHOWN_PICTURES = ("caption", "glimpse", DRAW)
"""Tasks whose --explain can be drawn, of one picture."""
_INPUTS = {
    "act": "17",
    "caption": "photo.jpg",
    "classify-pictures": "picture.png",
    "classify-series": "series.csv",
    DRAW: "picture.png",
    FORECAST: "--last table.csv",
    "glimpse": "picture.png",
    "next-frames": "clip.npz",
    "video": "clip.npz",
}
_TEXT = "'a text'"


def task_of(run: str) -> str | None:
    """The task of a run folder; None of a language model."""
    from thereafter.runs import folder

    task = folder.read_config(Path(run))[0].get("task")
    return None if task is None else str(task)


def example_of(task: str, given: Sequence[str] = ()) -> str:
    """One input of a task as it is typed: the first that was given, else one of its kind."""
    return shlex.quote(given[0]) if given else _INPUTS.get(task, _TEXT)


def check_drawn(run: str, given: Sequence[str], figure: Path | None, *, explain: bool) -> None:
    """Refuse a figure without --last that the task does not draw, before anything is loaded."""
    task = None if figure is None else task_of(run)
    if task is None or (task in SHOWN_PICTURES and explain):
        return
    if task == FORECAST:
        rule, rest = "draws the forecast of --last, and was given without it", f"--last table.csv --figure {figure}"
    elif task in SHOWN_PICTURES:
        rule = "draws what --explain shows of one picture, and was given without it"
        rest = f"{example_of(task, given)} --explain --figure {figure}"
    else:
        rule = f"draws forecasts, frames and what is seen in pictures, and the task {task!r} draws none"
        rest = f"{example_of(task, given)} --explain"
    raise OptionError(f"--figure {rule}; try: thereafter predict {run} {rest}")


def check_samples(run: str, given: Sequence[str], options: Mapping[str, object]) -> None:
    """Refuse --samples and --seed where there is no --last and no picture is drawn."""
    names = [name for name, value in options.items() if value is not None]
    task = task_of(run) if names else None
    if task is None:
        return
    got = ", ".join(names)
    if task == FORECAST:
        raise OptionError(
            f"these are options of --last; got {got} too; try: thereafter predict {run} --last TABLE "
            f"{_spelled(options)}"
        )
    if task == DRAW:
        raise OptionError(
            f"--seed is that of --samples; got {got} alone; try: thereafter predict {run} --samples 16 "
            f"{_spelled(options)}"
        )
    raise OptionError(
        f"futures and new pictures are drawn by the tasks {FORECAST} and {DRAW}; got {got}, and the task {task!r} has "
        f"one answer to each input; try: thereafter predict {run} {example_of(task, given)}"
    )


def _spelled(options: Mapping[str, object]) -> str:
    return " ".join(f"{name} {value}" for name, value in options.items() if value is not None)
