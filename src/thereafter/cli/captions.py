"""What `thereafter predict --explain` draws of a captioner: the picture, word by word, bright where it looked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from thereafter.errors import MissingPackageError, OptionError

if TYPE_CHECKING:
    from thereafter.tasks.shown import Explained

_ENDING = "-caption.html"


def check_figure(task: str, pictures: Sequence[str], figure: Path | None) -> None:
    """Refuse a figure that cannot be drawn, before anything is predicted."""
    if figure is None:
        return
    if task != "caption":
        raise OptionError(
            f"--figure with --explain draws where a captioner looked, and the run holds the task {task!r}; try leaving "
            "it out"
        )
    if len(pictures) != 1:
        raise OptionError(
            f"--figure is one file and there are {len(pictures)} pictures; try one picture, or leave it out"
        )


def draw_captions(explained: Sequence[Explained], pictures: Sequence[str], figure: Path | None) -> None:
    """A figure for each caption: `figure`, or NAME-caption.html in the current folder. A network without attention has
    nothing to draw; nor has a machine without the package for figures, unless a figure was asked for."""
    from thereafter.figures import attended_picture
    from thereafter.tasks.caption_answers import CaptionExplained

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
