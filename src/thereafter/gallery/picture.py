"""One entry of the gallery: which picture, after whom, and how it is made from the gallery's models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thereafter.figures.figure import Figure
    from thereafter.gallery.models import Models


@dataclass(frozen=True)
class GalleryPicture:
    """`source`: whose picture or claim it is after, such as "Elman (1990)". `build` may train a model by asking for it.

    `claim` reads off the figure's numbers whether what the source claims shows in them, as a sentence for the caption.
    """

    name: str
    source: str
    build: Callable[[Models], Figure]
    claim: Callable[[Figure], str] | None = None
