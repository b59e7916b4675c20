"""What the commands show of a captioner: for each word where it looked, and the captions that it has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from thereafter.errors import MissingPackageError, OptionError, SourceError

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel
    from thereafter.tasks.answers import Explained

_ENDING = "-caption.html"


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
    from thereafter.vision.captioning.answers import CaptionExplained

    for one, picture in zip(explained, pictures, strict=True):
        if not isinstance(one, CaptionExplained) or not one.attends or not one.words:
            if figure is not None:
                raise OptionError("the network has no attention to draw; expected one trained with see='attention'")
            continue
        path = figure or Path(f"{Path(picture).stem}{_ENDING}")
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
