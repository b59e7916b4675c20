"""The gallery: every picture from small models of its own, as a page, as PNGs and as Markdown.

Pictures are written before the next model is trained and every few seconds, so that a gallery that is stopped leaves
what it had. They are not written one by one, because each time a browser starts and the whole page is written again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from thereafter.base import progress
from thereafter.base.storage import replacing, write_text
from thereafter.errors import MissingPackageError, UnknownNameError
from thereafter.figures.figure import Figure, page
from thereafter.figures.pictures import render
from thereafter.gallery.models import GalleryPicture, Models

FAMILIES = ("diagrams", "traces", "memory", "tasks")
"""The modules of this room that have `PICTURES`, in the order they are shown."""
TITLE = "Gallery"
LEAD = (
    "Every picture is drawn by thereafter gallery from small models, some of which came with the package and some of "
    "which it trains, on sentences, series, pictures and clips it makes and on Python's own code. A caption says what "
    "was measured, also where a book draws something else."
)
PNG_SCALE = 1.0
"""Small files: the page has the same plots at any size."""
WRITE_EVERY = 5.0
"""Seconds between two states of the page, where many pictures come without a training."""


@dataclass
class Gallery:
    """What was built: figures by the name of their picture, what failed and why, and how long each took."""

    figures: dict[str, Figure] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_pictures(only: Sequence[str] = ()) -> list[GalleryPicture]:
    """All pictures, or those of some names, in the order of the gallery."""
    every = [picture for name in FAMILIES for picture in import_module(f"thereafter.gallery.{name}").PICTURES]
    known = {picture.name for picture in every}
    for name in only:
        if name not in known:
            raise UnknownNameError("picture", name, known)
    return [picture for picture in every if not only or picture.name in only]


def build(
    pictures: Sequence[GalleryPicture], models: Models, keep: Callable[[Gallery], object] = lambda gallery: None
) -> Gallery:
    """Draw every picture; one that fails is noted and does not stop the others.

    `keep` is called with what is made so far: before a model is trained, every few seconds, and at the end.
    """
    gallery, kept, last = Gallery(), 0, time.monotonic()

    def keep_new() -> None:
        nonlocal kept, last
        if len(gallery.figures) > kept:
            keep(gallery)
            kept, last = len(gallery.figures), time.monotonic()

    with progress.task("pictures", total=len(pictures), unit="pictures") as advance:
        for picture in pictures:
            began = time.monotonic()
            advance(0, picture.name)

            def train_next(name: str, wanted_by: str = picture.name) -> None:
                keep_new()
                progress.note(f"training {name}, for the picture {wanted_by}")

            models.before_training = train_next
            try:
                figure = replace(picture.build(models), name=picture.name)
                if picture.claim is not None:
                    figure = replace(figure, caption=f"{figure.caption} {picture.claim(figure)}")
            except Exception as error:  # whatever is wrong with one picture, the others are still wanted
                gallery.failed[picture.name] = f"{type(error).__name__}: {error}"
            else:
                gallery.figures[picture.name] = figure
                gallery.sources[picture.name] = picture.source
            gallery.seconds[picture.name] = time.monotonic() - began
            advance(1)
            if time.monotonic() - last >= WRITE_EVERY:
                keep_new()
    keep_new()
    return gallery


class GalleryWriter:
    """Writes a gallery that grows: `gallery.html` (all in one page), `gallery.md`, `gallery/NAME.csv` and `.png`.

    Without kaleido or a browser there are no PNGs: a note says what is missing, and the page has every picture.
    """

    def __init__(self, out: Path, *, png: bool = True) -> None:
        self.out, self._png = out, png
        self._written: set[str] = set()
        self._drawn: set[str] = set()

    @property
    def page(self) -> Path:
        return self.out / "gallery.html"

    def write(self, gallery: Gallery) -> Path:
        """Write the figures that are new, and the pages over all of them; returns the page."""
        new = [figure for name, figure in gallery.figures.items() if name not in self._written]
        for figure in new:
            write_text(self.out / "gallery" / f"{figure.name}.csv", figure.csv())
        if self._png and new:
            self._draw(gallery, new)
        self._written |= {figure.name for figure in new}
        write_text(self.out / "gallery.md", markdown(gallery, self._drawn))
        write_text(self.page, page(list(gallery.figures.values()), title=TITLE, lead=LEAD, sources=gallery.sources))
        if new:
            progress.note(f"written: {', '.join(figure.name for figure in new)}")
        return self.page

    def _draw(self, gallery: Gallery, new: Sequence[Figure]) -> None:
        try:
            pictures = render(new, "png", PNG_SCALE)
        except MissingPackageError as error:
            self._png = False
            gallery.notes.append(f"no PNGs: {error}")
            return
        for figure, content in zip(new, pictures, strict=True):
            with replacing(self.out / "gallery" / f"{figure.name}.png") as temporary:
                temporary.write_bytes(content)
            self._drawn.add(figure.name)


def markdown(gallery: Gallery, drawn: set[str]) -> str:
    """The gallery as Markdown: title, picture, caption, whom it is after, its numbers."""
    parts = [f"# {TITLE}", LEAD, "`thereafter gallery --out DIR` makes this page, its pictures, and `gallery.html`."]
    for name, figure in gallery.figures.items():
        after = f" After {gallery.sources[name]}." if gallery.sources[name] else ""
        parts.append(f"## {figure.title}")
        if name in drawn:
            parts.append(f"![{figure.title}](gallery/{name}.png)")
        parts.append(f"{figure.caption}{after} [Numbers](gallery/{name}.csv)")
    if not drawn:
        parts.append("The pictures are in `gallery.html`: PNGs were not asked for, or could not be made here.")
    return "\n\n".join(parts) + "\n"
