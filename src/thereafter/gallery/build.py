"""The gallery: every picture from the models it trains itself, as a page, as PNGs and as Markdown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from thereafter import progress
from thereafter.errors import MissingPackageError, UnknownNameError
from thereafter.figures.figure import Figure
from thereafter.figures.page import page
from thereafter.figures.pictures import render
from thereafter.gallery.models import Models
from thereafter.gallery.picture import Picture
from thereafter.storage import replacing, write_text

FAMILIES = ("diagrams", "traces", "gradients", "memory", "units")
"""The modules of this room that have `PICTURES`, in the order they are shown."""
TITLE = "Gallery"
LEAD = (
    "Every picture is drawn by thereafter gallery from models it trains itself, on sentences it makes and on the "
    "Python code of this interpreter. A caption says what was measured, also where a document draws something else."
)
PNG_SCALE = 1.0
"""Small files: the page has the same plots at any size."""


@dataclass
class Gallery:
    """What was built: figures by the name of their picture, what failed and why, and how long each took."""

    figures: dict[str, Figure] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_pictures(only: Sequence[str] = ()) -> list[Picture]:
    """All pictures, or those of some names, in the order of the gallery."""
    every = [picture for name in FAMILIES for picture in import_module(f"thereafter.gallery.{name}").PICTURES]
    known = {picture.name for picture in every}
    for name in only:
        if name not in known:
            raise UnknownNameError("picture", name, known)
    return [picture for picture in every if not only or picture.name in only]


def build(pictures: Sequence[Picture], models: Models) -> Gallery:
    """Make every picture; one that fails is written down and does not stop the others."""
    gallery = Gallery()
    with progress.task("pictures", total=len(pictures), unit="pictures") as advance:
        for picture in pictures:
            began = time.monotonic()
            advance(0, picture.name)
            try:
                figure = picture.build(models)
            except Exception as error:  # whatever is wrong with one picture, the others are still wanted
                gallery.failed[picture.name] = f"{type(error).__name__}: {error}"
            else:
                gallery.figures[picture.name] = replace(figure, name=picture.name)
                gallery.answers[picture.name] = picture.documents
            gallery.seconds[picture.name] = time.monotonic() - began
            advance(1)
    return gallery


def write(gallery: Gallery, out: Path, *, png: bool = True) -> Path:
    """Write `gallery.html` (all in one page), `gallery.md`, and `gallery/NAME.csv` and `.png`; returns the page.

    Without kaleido or a browser there are no PNGs: a note says what is missing, and the page has every picture.
    """
    figures = list(gallery.figures.values())
    for figure in figures:
        write_text(out / "gallery" / f"{figure.name}.csv", figure.csv())
    drawn: set[str] = set()
    if png and figures:
        try:
            pictures = render(figures, "png", PNG_SCALE)
        except MissingPackageError as error:
            gallery.notes.append(f"no PNGs: {error}")
        else:
            for figure, content in zip(figures, pictures, strict=True):
                with replacing(out / "gallery" / f"{figure.name}.png") as temporary:
                    temporary.write_bytes(content)
                drawn.add(figure.name)
    write_text(out / "gallery.md", markdown(gallery, drawn))
    write_text(out / "gallery.html", page(figures, title=TITLE, lead=LEAD, answers=gallery.answers))
    return out / "gallery.html"


def markdown(gallery: Gallery, drawn: set[str]) -> str:
    """The gallery as Markdown: title, picture, caption, what it answers, its numbers."""
    parts = [f"# {TITLE}", LEAD, "`thereafter gallery --out DIR` makes this page, its pictures, and `gallery.html`."]
    for name, figure in gallery.figures.items():
        answers = f" Answers {gallery.answers[name]}." if gallery.answers[name] else ""
        parts.append(f"## {figure.title}")
        if name in drawn:
            parts.append(f"![{figure.title}](gallery/{name}.png)")
        parts.append(f"{figure.caption}{answers} [Numbers](gallery/{name}.csv)")
    if not drawn:
        parts.append("The pictures are in `gallery.html`: PNGs were not asked for, or could not be made here.")
    return "\n\n".join(parts) + "\n"
