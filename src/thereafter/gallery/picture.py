"""One entry of the gallery: which picture, of which documents, and how it is made from the gallery's models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thereafter.figures.figure import Figure
    from thereafter.gallery.models import Models


@dataclass(frozen=True)
class Picture:
    """`documents`: which figures it answers, such as "000 fig. 5.9". `build` may train a model by asking for it."""

    name: str
    documents: str
    build: Callable[[Models], Figure]
